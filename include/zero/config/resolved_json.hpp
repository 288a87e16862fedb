// SPDX-License-Identifier: Apache-2.0
#pragma once
// The last step of a resolution: values by path become plain values and one JSON object.

#include <zero/config/resolved.hpp>
#include <zero/config/values.hpp>

namespace zero::detail {

inline Tier tier_of(std::string_view device) {
  return device == "cpu" ? Tier::host : device == "nvme" ? Tier::nvme : Tier::device;
}

inline OffloadChoice offload_of(ConfigValues const& v, std::string const& section) {
  OffloadChoice o;
  o.tier = tier_of(v.text(section + ".device"));
  o.nvme_path = v.text(section + ".nvme_path");
  o.pin_memory = v.flag(section + ".pin_memory");
  o.buffer_count = v.whole(section + ".buffer_count");
  if (section.ends_with("param")) {
    o.max_in_cpu_elements = v.whole(section + ".max_in_cpu");
  } else {
    o.ratio = v.number(section + ".ratio");
  }
  return o;
}

inline std::optional<MenuChoice> menu_of(ConfigValues const& v, std::string const& section,
                                         std::string const& type) {
  if (type.empty()) return std::nullopt;
  MenuChoice choice{type, {}};
  for (Key const& k : all_keys()) {
    bool const own = k.parent() == section + ".params" && v.find(k.path) == &k;
    if (own && k.status == KeyStatus::honoured) choice.params[k.name()] = v.json(k.path);
  }
  return choice;
}

/// Every honoured key with its value, and what the library adds.
inline boost::json::object json_of(ResolvedConfig const& c, ConfigValues const& v) {
  boost::json::object o;
  o["world_size"] = c.world_size;
  for (char const* first :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"})
    o[first] = v.json(first);
  o["precision"] = boost::json::string(precision_name(c.precision));
  for (Key const& k : all_keys()) {
    bool const menu = k.path.starts_with("optimizer") || k.path.starts_with("scheduler");
    bool const old = k.path.starts_with("zero_optimization.cpu_offload");
    if (k.status != KeyStatus::honoured || k.type == KeyType::section || menu || old ||
        !k.translated.empty())
      continue;
    put_at(o, k.path, v.json(k.path));
  }
  auto const menu = [](std::optional<MenuChoice> const& m) {
    if (!m) return boost::json::value();
    return boost::json::value(boost::json::object{{"type", m->type}, {"params", m->params}});
  };
  o["optimizer"] = menu(c.optimizer);
  o["scheduler"] = menu(c.scheduler);
  if (c.num_updates) o["num_updates"] = *c.num_updates;
  if (c.seed) o["seed"] = *c.seed;
  return o;
}

/// @pre nothing in `v` is open or wrong
inline ResolvedConfig resolved_of(ConfigValues const& v, Index world) {
  ResolvedConfig c;
  std::string const zero = "zero_optimization.";
  c.world_size = world;
  c.train_batch_size = v.whole("train_batch_size");
  c.train_micro_batch_size_per_gpu = v.whole("train_micro_batch_size_per_gpu");
  c.gradient_accumulation_steps = v.whole("gradient_accumulation_steps");
  c.precision = v.flag("fp16.enabled")   ? PrecisionChoice::fp16
                : v.flag("bf16.enabled") ? PrecisionChoice::bf16
                                         : PrecisionChoice::fp32;
  c.gradient_clipping = v.number("gradient_clipping");
  c.stage = static_cast<int>(v.whole(zero + "stage"));
  c.offload_optimizer = offload_of(v, zero + "offload_optimizer");
  c.offload_param = offload_of(v, zero + "offload_param");
  c.aio = {v.whole("aio.block_size"), v.whole("aio.queue_depth"),
           v.whole("aio.intra_op_parallelism")};
  c.overlap_comm = v.is_null(zero + "overlap_comm") || v.flag(zero + "overlap_comm");
  c.reduce_bucket_size = v.whole(zero + "reduce_bucket_size");
  c.allgather_bucket_size = v.whole(zero + "allgather_bucket_size");
  c.stage3_prefetch_bucket_size = v.whole(zero + "stage3_prefetch_bucket_size");
  c.stage3_param_persistence_threshold = v.whole(zero + "stage3_param_persistence_threshold");
  c.stage3_model_persistence_threshold = v.whole(zero + "stage3_model_persistence_threshold");
  c.stage3_max_live_parameters = v.whole(zero + "stage3_max_live_parameters");
  c.sub_group_size = v.whole(zero + "sub_group_size");
  c.gather_16bit_weights_on_model_save = v.flag(zero + "stage3_gather_16bit_weights_on_model_save");
  c.force_ds_cpu_optimizer = v.flag("zero_force_ds_cpu_optimizer");
  c.loss_scale = {v.number("fp16.loss_scale"),           v.whole("fp16.initial_scale_power"),
                  v.whole("fp16.loss_scale_window"),     v.whole("fp16.hysteresis"),
                  v.flag("fp16.consecutive_hysteresis"), v.number("fp16.min_loss_scale")};
  c.optimizer = menu_of(v, "optimizer", v.optimizer_type);
  c.scheduler = menu_of(v, "scheduler", v.scheduler_type);
  return c;
}

}  // namespace zero::detail
