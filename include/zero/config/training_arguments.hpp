// SPDX-License-Identifier: Apache-2.0
#pragma once
// Training arguments under the names of transformers' TrainingArguments: what fills "auto" in a
// configuration, and what its values are held against.

#include <zero/config/fitted_value.hpp>
#include <zero/config/keys.hpp>
#include <zero/config/problem.hpp>

#include <array>
#include <optional>
#include <string>
#include <variant>

namespace zero {

/// What is not given says nothing: it fills no "auto" and is held against no value.
struct TrainingArguments {
  std::optional<Index> per_device_train_batch_size{};  ///< samples of one rank's micro-batch
  std::optional<Index> gradient_accumulation_steps{};  ///< micro-batches of an update
  std::optional<double> learning_rate{};               ///< peak of the rate
  std::optional<double> adam_beta1{};                  ///< of AdamW, Lion
  std::optional<double> adam_beta2{};                  ///< of AdamW, Lion
  std::optional<double> adam_epsilon{};                ///< of AdamW
  std::optional<double> weight_decay{};                ///< decoupled
  std::optional<double> max_grad_norm{};               ///< largest L2 norm; 0: none
  std::optional<bool> fp16{};                          ///< off where unset and bf16 is on
  std::optional<bool> bf16{};                          ///< off where unset and fp16 is on
  std::optional<bool> fp16_full_eval{};                ///< as fp16
  std::optional<bool> bf16_full_eval{};                ///< as bf16
  std::optional<std::string> optim{};  ///< adamw_torch and its kin, sgd, adagrad, lion_32bit
  std::optional<std::string> lr_scheduler_type{};            ///< unset: linear
  std::optional<boost::json::object> lr_scheduler_kwargs{};  ///< its further numbers
  std::optional<Index> warmup_steps{};                       ///< updates
  std::optional<double> warmup_ratio{};  ///< of all updates, rounded up; warmup_steps above 0 wins
  std::optional<Index> max_steps{};      ///< updates; not above 0: num_train_epochs says them
  std::optional<double> num_train_epochs{};      ///< needs num_train_samples
  std::optional<Index> num_train_samples{};      ///< size of the data set
  std::optional<std::uint64_t> seed{};           ///< of initial values
  std::optional<Index> hidden_size{};            ///< of the model
  std::optional<std::string> deepspeed{};        ///< path of the configuration
  std::optional<bool> save_only_model{};         ///< without optimizer state
  std::optional<bool> load_best_model_at_end{};  ///< not beside save_only_model
  std::optional<bool> save_on_each_node{};       ///< of no effect
};

namespace detail {

using ArgumentMember = std::variant<
    std::optional<Index> TrainingArguments::*, std::optional<double> TrainingArguments::*,
    std::optional<bool> TrainingArguments::*, std::optional<std::string> TrainingArguments::*,
    std::optional<std::uint64_t> TrainingArguments::*,
    std::optional<boost::json::object> TrainingArguments::*>;

struct ArgumentRow {
  Key key;  ///< its path is the argument's name
  ArgumentMember member;
};

/// Arguments that the library reads.
inline std::vector<ArgumentRow> const& argument_rows() {
  using keys::boolean, keys::choice, keys::number, keys::section, keys::text, keys::whole;
  using A = TrainingArguments;
  static std::vector<ArgumentRow> const rows{
      {whole("per_device_train_batch_size", "")
           .at_least(1)
           .drives("train_micro_batch_size_per_gpu"),
       &A::per_device_train_batch_size},
      {whole("gradient_accumulation_steps", "").at_least(1).drives("gradient_accumulation_steps"),
       &A::gradient_accumulation_steps},
      {number("learning_rate", "")
           .at_least(0)
           .drives("optimizer.params.lr, scheduler.params.warmup_max_lr"),
       &A::learning_rate},
      {number("adam_beta1", "").at_least(0).below(1).drives("optimizer.params.betas"),
       &A::adam_beta1},
      {number("adam_beta2", "").at_least(0).below(1).drives("optimizer.params.betas"),
       &A::adam_beta2},
      {number("adam_epsilon", "").at_least(0).drives("optimizer.params.eps"), &A::adam_epsilon},
      {number("weight_decay", "").at_least(0).drives("optimizer.params.weight_decay"),
       &A::weight_decay},
      {number("max_grad_norm", "").at_least(0).drives("gradient_clipping"), &A::max_grad_norm},
      {boolean("fp16", "").drives("fp16.enabled"), &A::fp16},
      {boolean("bf16", "").drives("bf16.enabled"), &A::bf16},
      {boolean("fp16_full_eval", "").drives("fp16.enabled"), &A::fp16_full_eval},
      {boolean("bf16_full_eval", "").drives("bf16.enabled"), &A::bf16_full_eval},
      {text("optim", "").drives("optimizer.type, where the file has no optimizer"), &A::optim},
      {choice("lr_scheduler_type", "", keys::argument_scheduler_types)
           .drives("the schedule, where the file has none; linear where it is not given"),
       &A::lr_scheduler_type},
      {section("lr_scheduler_kwargs").drives("the schedule's numbers"), &A::lr_scheduler_kwargs},
      {whole("warmup_steps", "")
           .at_least(0)
           .at_most(most_updates)
           .counts("updates")
           .drives("scheduler.params.warmup_num_steps"),
       &A::warmup_steps},
      {number("warmup_ratio", "")
           .at_least(0)
           .at_most(1)
           .drives("scheduler.params.warmup_num_steps"),
       &A::warmup_ratio},
      {whole("max_steps", "")
           .at_least(-1)
           .at_most(most_updates)
           .counts("updates")
           .drives("scheduler.params.total_num_steps"),
       &A::max_steps},
      {number("num_train_epochs", "").above(0).drives("scheduler.params.total_num_steps"),
       &A::num_train_epochs},
      {whole("num_train_samples", "").at_least(1).counts("samples").drives("updates of an epoch"),
       &A::num_train_samples},
      {whole("seed", "").at_least(0).drives("Options::seed"), &A::seed},
      {whole("hidden_size", "")
           .at_least(1)
           .at_most(1e9)
           .drives("sizes of zero_optimization that say \"auto\""),
       &A::hidden_size},
      {text("deepspeed", "").drives("the path of the configuration"), &A::deepspeed},
      {boolean("save_only_model", "").drives("checkpoints without optimizer state"),
       &A::save_only_model},
      {boolean("load_best_model_at_end", "").drives("the best checkpoint is loaded at the end"),
       &A::load_best_model_at_end},
      {boolean("save_on_each_node", "").drives("nothing: a checkpoint is one folder"),
       &A::save_on_each_node},
  };
  return rows;
}

/// Arguments of transformers that change no number of a training here, or none while another one,
/// such as fsdp, is off.
inline constexpr std::string_view harmless_arguments =
    "output_dir overwrite_output_dir do_train do_eval do_predict eval_strategy evaluation_strategy "
    "prediction_loss_only per_device_eval_batch_size eval_accumulation_steps eval_delay eval_steps "
    "logging_dir logging_strategy logging_first_step logging_steps logging_nan_inf_filter "
    "log_level "
    "log_level_replica log_on_each_node save_strategy save_steps save_total_limit save_safetensors "
    "metric_for_best_model greater_is_better report_to run_name disable_tqdm remove_unused_columns "
    "label_names dataloader_drop_last dataloader_num_workers dataloader_pin_memory "
    "dataloader_persistent_workers dataloader_prefetch_factor ddp_backend ddp_timeout "
    "ddp_bucket_cap_mb "
    "ddp_find_unused_parameters ddp_broadcast_buffers local_rank no_cuda use_cpu tf32 "
    "jit_mode_eval "
    "push_to_hub hub_model_id hub_strategy hub_token hub_private_repo resume_from_checkpoint "
    "skip_memory_metrics include_inputs_for_metrics gradient_checkpointing "
    "gradient_checkpointing_kwargs torch_empty_cache_steps past_index data_seed full_determinism "
    "group_by_length length_column_name restore_callback_states_from_checkpoint eval_on_start "
    "batch_eval_metrics include_tokens_per_second include_num_input_tokens_seen accelerator_config "
    "per_gpu_eval_batch_size use_mps_device tpu_num_cores tpu_metrics_debug debug ignore_data_skip "
    "use_legacy_prediction_loop hub_always_push hub_revision push_to_hub_model_id "
    "push_to_hub_organization push_to_hub_token include_for_metrics eval_do_concat_batches "
    "eval_use_gather_object ray_scope fsdp_config fsdp_min_num_params "
    "fsdp_transformer_layer_cls_to_wrap fp16_opt_level _n_gpu distributed_state project "
    "trackio_space_id liger_kernel_config torch_compile_backend torch_compile_mode";

/// Arguments of transformers that would change results, or ask for another system.
inline constexpr std::string_view refused_arguments =
    "fsdp label_smoothing_factor neftune_noise_alpha auto_find_batch_size torch_compile optim_args "
    "optim_target_modules apex half_precision_backend fp16_backend split_batches "
    "average_tokens_across_devices use_ipex parallelism_config per_gpu_train_batch_size adafactor "
    "use_liger_kernel torchdynamo tp_size mp_parameters";

/// Whether a value asks for nothing.
inline bool is_off(boost::json::value const& v) {
  std::optional<double> const number = number_in(v);
  return v.is_null() || (v.is_bool() && !v.get_bool()) || (number && *number == 0) ||
         (v.is_string() && (v.get_string().empty() || v.get_string() == "auto")) ||
         (v.is_array() && v.get_array().empty()) || (v.is_object() && v.get_object().empty());
}

}  // namespace detail

/// Reads arguments; `findings` gets problems and warnings. Problems have paths "arguments.NAME".
/// null means not given.
inline TrainingArguments read_arguments(boost::json::object const& object, Findings& findings) {
  TrainingArguments arguments;
  std::string harmless;
  for (auto const& [name, value] : object) {
    if (findings.full()) break;
    std::string const path = "arguments." + std::string(name);
    detail::ArgumentRow const* row = nullptr;
    std::string known;
    for (detail::ArgumentRow const& r : detail::argument_rows()) {
      if (r.key.path == name) row = &r;
      known += std::string(r.key.path) + " ";
    }
    if (row == nullptr) {
      boost::json::object const* const inside = value.if_object();
      if (name == "accelerator_config" && inside != nullptr && inside->contains("split_batches") &&
          !detail::is_off(inside->at("split_batches"))) {
        findings.refuse(path + ".split_batches", quoted_json(inside->at("split_batches")),
                        "false: a rank's micro-batch is per_device_train_batch_size samples");
      } else if (detail::same_word(name, detail::harmless_arguments) == name) {
        harmless += (harmless.empty() ? "" : ", ") + std::string(name);
      } else if (detail::same_word(name, detail::refused_arguments) == name) {
        if (!detail::is_off(value))
          findings.refuse(path, quoted_json(value),
                          "it absent: it would change results, or is another system's");
      } else {
        std::string const names = known + std::string(detail::harmless_arguments);
        std::string_view const near = nearest_word(name, names);
        findings.refuse(path, "an argument that is not known",
                        near.empty() ? "a name of TrainingArguments"
                                     : "a known name; nearest is " + std::string(near));
      }
      continue;
    }
    if (value.is_null()) continue;
    std::optional<boost::json::value> const fit = detail::fitted(value, row->key);
    if (!fit) {
      std::string expected = detail::expected_instead_of(value, row->key);
      if (value.is_string() && row->key.type == KeyType::choice) {
        std::string_view const near = nearest_word(detail::text_of(value), row->key.choices);
        if (!near.empty()) expected += "; nearest is " + std::string(near);
      }
      findings.refuse(path, quoted_json(value), expected);
      continue;
    }
    std::visit(
        [&]<class T>(std::optional<T> TrainingArguments::*member) {
          if constexpr (std::is_same_v<T, boost::json::object>) {
            arguments.*member = fit->get_object();
          } else if constexpr (std::is_same_v<T, std::string>) {
            arguments.*member = std::string(detail::text_of(*fit));
          } else if constexpr (std::is_same_v<T, bool>) {
            arguments.*member = fit->get_bool();
          } else if constexpr (std::is_same_v<T, double>) {
            arguments.*member = detail::number_in(*fit);
          } else {
            arguments.*member = static_cast<T>(fit->get_int64());
          }
        },
        row->member);
  }
  if (!harmless.empty())
    findings.warn("arguments: accepted without effect on the training's numbers: " + harmless);
  return arguments;
}

/// The arguments that are given, by name.
inline boost::json::object arguments_json(TrainingArguments const& arguments) {
  boost::json::object object;
  for (detail::ArgumentRow const& row : detail::argument_rows()) {
    std::visit(
        [&](auto member) {
          auto const& value = arguments.*member;
          if (value) object[row.key.path] = boost::json::value_from(*value);
        },
        row.member);
  }
  return object;
}

}  // namespace zero
