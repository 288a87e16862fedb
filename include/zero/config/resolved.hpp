// SPDX-License-Identifier: Apache-2.0
#pragma once
// A configuration in which nothing is open: plain values, and the same as JSON.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>
#include <zero/policy/sharded.hpp>

#include <boost/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

/// The types of parameters and gradients that a configuration asks for.
enum class PrecisionChoice { fp32, bf16, fp16 };

constexpr std::string_view precision_name(PrecisionChoice p) {
  return p == PrecisionChoice::fp32 ? "fp32" : p == PrecisionChoice::bf16 ? "bf16" : "fp16";
}

/// The name of a tier in a configuration.
constexpr std::string_view tier_name(Tier t) {
  return t == Tier::device ? "none" : t == Tier::host ? "cpu" : "nvme";
}

/// An optimizer or a schedule: its type and all its numbers.
struct MenuChoice {
  std::string type;  ///< "AdamW", "WarmupDecayLR", ...
  boost::json::object
      params{};  ///< complete; a schedule's rate is null where it is the optimizer's

  bool has(std::string_view name) const {
    boost::json::value const* const v = params.if_contains(name);
    return v != nullptr && !v->is_null();
  }
  /// @throws InvalidArgument where there is no such number
  double number(std::string_view name) const {
    boost::json::value const& v = find(name);
    return v.is_double() ? v.get_double() : static_cast<double>(v.get_int64());
  }
  Index whole(std::string_view name) const { return find(name).get_int64(); }
  bool flag(std::string_view name) const { return find(name).get_bool(); }
  std::string_view text(std::string_view name) const { return find(name).get_string(); }

 private:
  boost::json::value const& find(std::string_view name) const {
    boost::json::value const* const v = params.if_contains(name);
    if (v == nullptr || v->is_null())
      throw InvalidArgument(type + ": no value " + std::string(name));
    return *v;
  }
};

/// Where one kind of state lies, and how it gets there.
struct OffloadChoice {
  Tier tier = Tier::device;
  std::string nvme_path{};
  bool pin_memory = true;
  Index buffer_count = 4;
  Index buffer_size_elements = 100'000'000;   ///< of parameters
  Index max_in_cpu_elements = 1'000'000'000;  ///< of parameters
  double ratio = 1;                           ///< share of optimizer state that is offloaded
  bool pipeline_read = false;
  bool pipeline_write = false;
  bool fast_init = false;
};

/// Requests to NVMe.
struct AioChoice {
  Index block_size_bytes = 1 << 20;
  Index queue_depth = 8;
  Index threads = 1;
  bool single_submit = false;
  bool overlap_events = true;
};

/// The loss scale of fp16.
struct LossScaleChoice {
  double static_scale = 0;  ///< 0: dynamic
  Index initial_power = 16;
  Index window = 1000;
  Index hysteresis = 2;
  bool consecutive_hysteresis = false;
  double minimum = 1;
};

/// A resolved configuration. Defaults are DeepSpeed's.
struct ResolvedConfig {
  Index world_size = 1;
  Index train_batch_size = 1;                ///< samples of an update
  Index train_micro_batch_size_per_gpu = 1;  ///< samples of a rank's micro-batch
  Index gradient_accumulation_steps = 1;
  PrecisionChoice precision = PrecisionChoice::fp32;
  double gradient_clipping = 1;
  int stage = 0;
  OffloadChoice offload_optimizer{};
  OffloadChoice offload_param{};
  AioChoice aio{};
  Index reduce_bucket_size = 500'000'000;     ///< elements
  Index allgather_bucket_size = 500'000'000;  ///< elements
  Index stage3_prefetch_bucket_size = 50'000'000;
  Index stage3_param_persistence_threshold = 100'000;
  Index stage3_model_persistence_threshold = 0;
  Index stage3_max_live_parameters = 1'000'000'000;
  Index sub_group_size = 1'000'000'000;
  bool gather_16bit_weights_on_model_save = false;
  bool force_ds_cpu_optimizer = true;
  LossScaleChoice loss_scale{};
  std::optional<MenuChoice> optimizer{};  ///< nothing: the program's own
  std::optional<MenuChoice> scheduler{};  ///< nothing: the program's own
  std::optional<std::uint64_t> seed{};
  std::optional<Index> num_updates{};  ///< of the whole run, where the arguments say it
  bool save_only_model = false;
  bool load_best_model_at_end = false;

  boost::json::object json{};                    ///< all of it, under DeepSpeed's names
  std::map<std::string, std::string> origins{};  ///< by path: what a value came from
  std::vector<std::string> warnings{};
};

}  // namespace zero
