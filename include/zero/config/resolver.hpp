// SPDX-License-Identifier: Apache-2.0
#pragma once
// From what the file and the arguments say to a configuration in which nothing is open: "auto", the
// batch sizes, the optimizer and the schedule, and what keys mean together.

#include <zero/config/batch_sizes.hpp>
#include <zero/config/menu_resolver.hpp>

namespace zero::detail {

/// Fills what is open in `values`.
class Resolver {
 public:
  Resolver(Findings& findings, ConfigValues& values, TrainingArguments const* arguments,
           Index world)
      : findings_(findings),
        values_(values),
        arguments_(arguments != nullptr ? *arguments : TrainingArguments{}),
        rules_(arguments_, values, world),
        batch_(findings, values, world),
        menu_(findings, values, arguments_, rules_) {}

  void operator()() {
    menu_.choose_optimizer();
    meet_arguments(false);
    batch_.resolve(arguments_.per_device_train_batch_size);
    meet_arguments(true);
    menu_.choose_schedule();
    precision();
    sharding();
    menu_.judge();
    if (arguments_.save_only_model.value_or(false) &&
        arguments_.load_best_model_at_end.value_or(false))
      findings_.refuse("arguments.save_only_model", "true beside load_best_model_at_end true",
                       "one of the two: weights alone cannot restore a training");
  }

 private:
  using Json = boost::json::value;

  // ---- "auto", and values beside arguments

  /// Row by row. @param late the rows that need the batch sizes
  void meet_arguments(bool late) {
    for (Key const& k : all_keys()) {
      if (k.automatic == Auto::none || values_.find(k.path) != &k) continue;
      bool const counts_updates =
          k.automatic == Auto::total_steps || k.automatic == Auto::warmup_steps;
      if (counts_updates != late) continue;
      std::string const path(k.path);
      if (values_.automatic(path)) {
        fill(path, k);
      } else if (ArgumentRules::must_match(k.automatic) && !values_.wrong(path) && applies(path)) {
        compare(path, k);
      }
    }
    if (!late && arguments_.num_train_epochs && arguments_.max_steps.value_or(-1) <= 0 &&
        !arguments_.num_train_samples)
      findings_.refuse("arguments.num_train_epochs", json_number(*arguments_.num_train_epochs),
                       "max_steps or num_train_samples beside it: epochs alone count no updates");
  }
  /// A key of an optimizer or schedule that the file does not have is none.
  bool applies(std::string const& path) const {
    if (path.starts_with("optimizer."))
      return values_.given("optimizer") && !values_.wrong("optimizer");
    if (path.starts_with("scheduler."))
      return values_.given("scheduler") && !values_.wrong("scheduler");
    return true;
  }
  void fill(std::string const& path, Key const& k) {
    ArgumentSays says = rules_(k.automatic);
    if (says.value) {
      std::optional<Json> const fit = fitted(*says.value, k);
      if (fit) {
        bool const rule =
            says.names.find("hidden_size") != std::string::npos || says.names.starts_with("a rule");
        return values_.set(path, *fit, (rule ? "" : "arguments: ") + says.names);
      }
      findings_.refuse(path, quoted_json(*says.value) + ", which \"auto\" takes from " + says.names,
                       expected_instead_of(*says.value, k));
    } else if (!refused_argument_in(findings_, says.names)) {
      findings_.refuse(path, "\"auto\", and no value was supplied", "the argument " + says.names);
    }
    values_.set_wrong(path);
  }
  void compare(std::string const& path, Key const& k) {
    ArgumentSays const says = rules_(k.automatic);
    bool const half =
        k.automatic == Auto::train_batch &&
        (!arguments_.per_device_train_batch_size || !arguments_.gradient_accumulation_steps);
    if (!says.value || half) return;
    bool const given = values_.given(path) && !values_.is_null(path);
    if (!given && (k.automatic == Auto::train_batch || k.automatic == Auto::micro_batch))
      return;  // inferred
    Json const holds = !given && k.automatic == Auto::accumulation
                           ? Json(batch_.inferred_accumulation())
                           : values_.json(path);
    if (same_value(holds, *says.value)) return;
    if (!given && holds.is_null()) return;
    if (given) {
      findings_.refuse(
          path, quoted_json(holds),
          quoted_json(*says.value) + ", as the arguments say in " + says.names + " (or \"auto\")");
      values_.set_wrong(path);
    } else {
      findings_.warn(path + ": not in the file, so " + quoted_json(holds) +
                     " holds; the arguments say otherwise: " + says.names + " " +
                     quoted_json(*says.value));
    }
  }

  // ---- what keys mean together

  void precision() {
    bool const fp16 = values_.known("fp16.enabled") && values_.flag("fp16.enabled");
    bool const bf16 = values_.known("bf16.enabled") && values_.flag("bf16.enabled");
    if (arguments_.fp16.value_or(false) && arguments_.bf16.value_or(false)) {
      findings_.refuse("arguments.fp16", "true beside bf16 true", "at most one of the two");
      return;
    }
    if (fp16 && bf16) {
      findings_.refuse("fp16.enabled", "true beside bf16.enabled true", "at most one of the two");
      return;
    }
    bool const sized =
        !values_.wrong("fp16.initial_scale_power") && !values_.wrong("fp16.min_loss_scale");
    double const first =
        std::ldexp(1.0, static_cast<int>(values_.whole("fp16.initial_scale_power")));
    if (sized && values_.number("fp16.min_loss_scale") > first)
      findings_.refuse("fp16.min_loss_scale", plain_number(values_.number("fp16.min_loss_scale")),
                       "at most the first scale, " + plain_number(first));
    double const fixed = values_.number("fp16.loss_scale");
    if (!values_.wrong("fp16.loss_scale") && fixed != 0 && fixed < 0x1p-24)
      findings_.refuse("fp16.loss_scale", json_number(fixed), "0, or from 2^-24 to 2^100");
    std::string const name = fp16 ? "fp16" : bf16 ? "bf16" : "fp32";
    for (char const* path : {"communication_data_type", "data_types.param_dtype"}) {
      std::string const type = values_.text(path);
      if (!type.empty() && type != name)
        findings_.refuse(path, quoted_json(Json(type)),
                         name + ", the precision that is enabled, or null");
    }
    std::string const sum = values_.text("data_types.grad_accum_dtype");
    if (!sum.empty() && sum != "fp32")
      findings_.refuse("data_types.grad_accum_dtype", quoted_json(Json(sum)),
                       "fp32 or null: micro-batches are always added in float");
  }

  void sharding() {
    if (values_.wrong("zero_optimization.stage")) return;
    Index const stage = values_.whole("zero_optimization.stage");
    std::string const at_stage = " at stage " + std::to_string(stage);
    for (char const* section :
         {"zero_optimization.offload_optimizer", "zero_optimization.offload_param"}) {
      std::string const path = section;
      std::string const device = values_.text(path + ".device");
      if (device.empty() || device == "none") continue;
      bool const parameters = path.ends_with("param");
      if (stage < (parameters ? 3 : 1))
        findings_.refuse(path + ".device",
                         std::string("\"").append(device).append("\"").append(at_stage),
                         parameters ? "stage 3, which shards parameters" : "stage 1, 2 or 3");
      if (device == "nvme" && values_.text(path + ".nvme_path").empty() &&
          !values_.wrong(path + ".nvme_path"))
        findings_.refuse(path + ".nvme_path", "nothing", "a folder, since the device is nvme");
    }
    std::string const ratio = "zero_optimization.offload_optimizer.ratio";
    if (values_.number(ratio) < 1 && stage < 3 && !values_.wrong(ratio))
      findings_.refuse(ratio, plain_number(values_.number(ratio)) + at_stage, "1, or stage 3");
    if (stage == 3) return;
    for (auto const& [path, value] : values_) {
      if (path.starts_with("zero_optimization.stage3_") && value.origin == "file" && !value.wrong)
        findings_.warn(std::string(path)
                           .append(": no effect")
                           .append(at_stage)
                           .append(", it is about stage 3"));
    }
  }

  Findings& findings_;
  ConfigValues& values_;
  TrainingArguments arguments_;
  ArgumentRules rules_;
  BatchSizes batch_;
  MenuResolver menu_;
};

}  // namespace zero::detail
