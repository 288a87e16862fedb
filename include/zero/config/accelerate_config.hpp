// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `accelerate config` writes, as a JSON object: which DeepSpeed configuration it names or
// holds, how many processes it starts, and their precision.

#include <zero/config/load_config.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace zero {

/// A configuration of accelerate with distributed_type DEEPSPEED.
struct AccelerateConfig {
  ConfigSource source{};    ///< the DeepSpeed configuration: a file that it names, or what it holds
  Index num_processes = 1;  ///< on all machines: the world
  Index num_machines = 1;   ///< that share them evenly
  Index machine_rank = 0;   ///< this one among them
  std::optional<std::string> mixed_precision{};  ///< "no", "fp16", "bf16"
};

namespace keys {

/// Keys of accelerate's files.
inline constexpr auto accelerate = std::to_array<Key>({
    text("distributed_type", "").drives("DEEPSPEED, or this file is not about it"),
    text("deepspeed_config_file", "null").drives("the DeepSpeed configuration"),
    section("deepspeed_config").drives("the file's name, or settings of its own"),
    whole("num_processes", "1").at_least(1).drives("the world"),
    whole("num_machines", "1").at_least(1).drives("machines that share the processes"),
    whole("machine_rank", "0").at_least(0).drives("this machine among them"),
    choice("mixed_precision", "null", "no fp16 bf16").drives("fp16.enabled and bf16.enabled"),
    text("deepspeed_config.deepspeed_config_file", "null").drives("the DeepSpeed configuration"),
    whole("deepspeed_config.gradient_accumulation_steps", "1")
        .at_least(1)
        .drives("gradient_accumulation_steps"),
    number("deepspeed_config.gradient_clipping", "null").at_least(0).drives("gradient_clipping"),
    choice("deepspeed_config.offload_optimizer_device", "\"none\"", "none cpu nvme")
        .drives("zero_optimization.offload_optimizer.device"),
    choice("deepspeed_config.offload_param_device", "\"none\"", "none cpu nvme")
        .drives("zero_optimization.offload_param.device"),
    text("deepspeed_config.offload_optimizer_nvme_path", "null")
        .drives("zero_optimization.offload_optimizer.nvme_path"),
    text("deepspeed_config.offload_param_nvme_path", "null")
        .drives("zero_optimization.offload_param.nvme_path"),
    boolean("deepspeed_config.zero3_save_16bit_model", "false")
        .drives("zero_optimization.stage3_gather_16bit_weights_on_model_save"),
    whole("deepspeed_config.zero_stage", "2")
        .at_least(0)
        .at_most(3)
        .drives("zero_optimization.stage"),
    boolean("deepspeed_config.zero3_init_flag", "false")
        .harmless("at stage 3 nothing full is ever allocated"),
    text("deepspeed_config.deepspeed_multinode_launcher", "null")
        .harmless("launchers are the user's"),
    text("deepspeed_config.deepspeed_hostfile", "null").harmless("launchers are the user's"),
    text("deepspeed_config.deepspeed_exclusion_filter", "null")
        .harmless("launchers are the user's"),
    text("deepspeed_config.deepspeed_inclusion_filter", "null")
        .harmless("launchers are the user's"),
    text("deepspeed_config.deepspeed_moe_layer_cls_names", "null")
        .harmless("a unit is what is gathered together"),
});

}  // namespace keys

namespace detail {

/// Other keys of accelerate, about how processes are started.
inline constexpr std::string_view harmless_accelerate_keys =
    "compute_environment debug downcast_bf16 enable_cpu_affinity main_process_ip main_process_port "
    "main_training_function rdzv_backend same_network tpu_env tpu_use_cluster tpu_use_sudo use_cpu "
    "gpu_ids num_cpu_threads_per_process command_file commands";

inline Key const* find_accelerate_key(std::string_view path) {
  for (Key const& k : keys::accelerate) {
    if (k.path == path) return &k;
  }
  return nullptr;
}

/// The values of one level of the file that fit their rows.
inline void judge_accelerate(boost::json::object const& object, std::string const& section,
                             boost::json::object& values, Findings& findings) {
  std::string known;
  for (Key const& k : keys::accelerate) {
    if (k.parent() == section) known += std::string(k.name()) + " ";
  }
  std::string harmless;
  for (auto const& [name, given] : object) {
    std::string const path = (section.empty() ? "" : section + ".") + std::string(name);
    Key const* const k = find_accelerate_key(path);
    if (k == nullptr && section.empty() && !same_word(name, harmless_accelerate_keys).empty()) {
      harmless += (harmless.empty() ? "" : ", ") + std::string(name);
      continue;
    }
    if (k == nullptr) {
      std::string_view const near = nearest_word(name, known);
      findings.refuse(path, "a key that is not known",
                      near.empty() ? "a key that accelerate writes for DeepSpeed"
                                   : "a known key; nearest is " + std::string(near));
      continue;
    }
    if (given.is_null()) continue;
    // YAML reads an unquoted no as false.
    bool const no = name == "mixed_precision" && given.is_bool() && !given.get_bool();
    std::optional<boost::json::value> const fit = no ? boost::json::value("no") : fitted(given, *k);
    if (!fit) {
      findings.refuse(path, quoted_json(given), expected_instead_of(given, *k));
    } else if (k->status == KeyStatus::accepted) {
      findings.warn(path + ": accepted without effect: " + std::string(k->what));
    } else if (k->type == KeyType::section) {
      judge_accelerate(given.get_object(), path, values, findings);
    } else {
      values[path] = *fit;
    }
  }
  if (!harmless.empty())
    findings.warn("accelerate's keys about how processes are started, without effect: " + harmless);
}

/// The configuration that accelerate makes of settings of its own.
inline boost::json::object inline_config(boost::json::object const& values) {
  boost::json::object config{{"train_batch_size", "auto"},
                             {"train_micro_batch_size_per_gpu", "auto"}};
  auto const value = [&](std::string const& name) -> boost::json::value {
    boost::json::value const* const v = values.if_contains("deepspeed_config." + name);
    return v != nullptr
               ? *v
               : boost::json::parse(find_accelerate_key("deepspeed_config." + name)->fallback);
  };
  config["gradient_accumulation_steps"] = value("gradient_accumulation_steps");
  if (!value("gradient_clipping").is_null())
    config["gradient_clipping"] = value("gradient_clipping");
  Index const stage = value("zero_stage").get_int64();
  put_at(config, "zero_optimization.stage", stage);
  for (std::string const which : {"optimizer", "param"}) {
    std::string const section = "zero_optimization.offload_" + which;
    put_at(config, section + ".device", value("offload_" + which + "_device"));
    if (!value("offload_" + which + "_nvme_path").is_null())
      put_at(config, section + ".nvme_path", value("offload_" + which + "_nvme_path"));
  }
  if (stage == 3)
    put_at(config, "zero_optimization.stage3_gather_16bit_weights_on_model_save",
           value("zero3_save_16bit_model"));
  boost::json::value const* const precision = values.if_contains("mixed_precision");
  if (precision != nullptr && precision->get_string() != "no")
    put_at(config, std::string(precision->get_string()) + ".enabled", true);
  return config;
}

}  // namespace detail

/// Reads accelerate's settings. Problems and warnings are added to `findings`.
/// @param file what the YAML holds
/// @param findings gets problems and warnings
/// @param folder of the file: a name in it that is relative is looked for where the program runs,
/// then there
inline AccelerateConfig read_accelerate(boost::json::object const& file,
                                        std::filesystem::path const& folder, Findings& findings) {
  AccelerateConfig config;
  boost::json::object values;
  detail::judge_accelerate(file, "", values, findings);
  auto const text = [&](char const* path) {
    boost::json::value const* const v = values.if_contains(path);
    return v != nullptr ? std::string(v->get_string()) : std::string();
  };
  auto const whole = [&](char const* path, Index otherwise) {
    boost::json::value const* const v = values.if_contains(path);
    return v != nullptr ? v->get_int64() : otherwise;
  };
  if (text("distributed_type") != "DEEPSPEED" && !file.empty())
    findings.refuse("distributed_type",
                    text("distributed_type").empty() ? "nothing" : text("distributed_type"),
                    "DEEPSPEED");
  config.num_processes = whole("num_processes", 1);
  config.num_machines = whole("num_machines", 1);
  config.machine_rank = whole("machine_rank", 0);
  if (config.machine_rank >= config.num_machines)
    findings.refuse("machine_rank", std::to_string(config.machine_rank),
                    "below num_machines, " + std::to_string(config.num_machines));
  if (config.num_processes % config.num_machines != 0)
    findings.refuse("num_processes", std::to_string(config.num_processes),
                    "a multiple of num_machines, " + std::to_string(config.num_machines));
  if (values.contains("mixed_precision")) config.mixed_precision = text("mixed_precision");

  std::string const outer = text("deepspeed_config_file");
  std::string const inner = text("deepspeed_config.deepspeed_config_file");
  if (!outer.empty() && !inner.empty() && outer != inner)
    findings.refuse("deepspeed_config_file", outer + " beside " + inner + " in deepspeed_config",
                    "one file");
  std::string const named = outer.empty() ? inner : outer;
  if (named.empty()) {
    config.source = detail::inline_config(values);
    return config;
  }
  for (auto const& [path, value] : values) {
    if (path.starts_with("deepspeed_config.") && path != "deepspeed_config.deepspeed_config_file")
      findings.refuse(std::string(path), quoted_json(value) + " beside the file " + named,
                      "it in that file, or no file");
  }
  std::filesystem::path path(named);
  if (path.is_relative() && !std::filesystem::exists(path)) path = folder / path;
  config.source = ConfigFile{path};
  return config;
}

/// Resolves the DeepSpeed configuration of an accelerate configuration, over its num_processes.
/// @param accelerate as read_accelerate gives it
/// @param form of the DeepSpeed file
/// @param arguments as load_config; their `deepspeed` does not count beside accelerate's file,
/// which one warning says; what they leave open of the precision, mixed_precision says
/// @param world 0: accelerate's; another that differs from it is refused
/// @param findings what reading it and the arguments has found
/// @throws ConfigError with every problem
inline ResolvedConfig load_accelerate(AccelerateConfig const& accelerate,
                                      TrainingArguments const* arguments, Index world,
                                      JsonForm form, Findings findings) {
  if (world != 0 && world != accelerate.num_processes)
    findings.refuse("num_processes", std::to_string(accelerate.num_processes),
                    std::to_string(world) + ", the world that was given");
  // Problems of the arguments alone leave enough to resolve with.
  bool const is_whole = std::ranges::all_of(
      findings.problems(), [](Problem const& p) { return p.path.starts_with("arguments."); });
  std::optional<TrainingArguments> told;
  if (arguments != nullptr) told = read_arguments(arguments_json(*arguments), findings);
  if (accelerate.mixed_precision) {
    if (!told) told.emplace();
    bool const says = told->fp16 || told->bf16;
    if (!says) {
      told->fp16 = *accelerate.mixed_precision == "fp16";
      told->bf16 = *accelerate.mixed_precision == "bf16";
    }
  }
  auto const* const file = std::get_if<ConfigFile>(&accelerate.source);
  std::string const ours =
      file != nullptr ? file->path.string() : "the settings of accelerate's file";
  if (told && told->deepspeed) {
    if (std::filesystem::path(*told->deepspeed).lexically_normal() !=
        std::filesystem::path(ours).lexically_normal())
      findings.warn("arguments.deepspeed: " + *told->deepspeed +
                    " does not count beside accelerate's file; read is " + ours);
    told->deepspeed.reset();
  }
  return detail::resolve(accelerate.source,
                         {told ? &*told : nullptr, accelerate.num_processes, form, is_whole},
                         std::move(findings));
}

}  // namespace zero
