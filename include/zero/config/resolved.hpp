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
enum class PrecisionChoice {
  fp32,  ///< float
  bf16,  ///< bfloat16
  fp16   ///< half precision
};

/// Its name in reports: "fp32", "bf16", "fp16".
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

  /// Whether it has the value, and not null.
  bool has(std::string_view name) const {
    boost::json::value const* const v = params.if_contains(name);
    return v != nullptr && !v->is_null();
  }
  /// @throws InvalidArgument where there is no such number
  double number(std::string_view name) const {
    boost::json::value const& v = find(name);
    return v.is_double() ? v.get_double() : static_cast<double>(v.get_int64());
  }
  /// @throws InvalidArgument where there is none
  Index whole(std::string_view name) const { return find(name).get_int64(); }
  /// @throws InvalidArgument where there is none
  bool flag(std::string_view name) const { return find(name).get_bool(); }
  /// @throws InvalidArgument where there is none
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
  Tier tier = Tier::device;                   ///< the memory
  std::string nvme_path{};                    ///< folder of the tier nvme
  bool pin_memory = true;                     ///< lock host memory
  Index buffer_count = 4;                     ///< tiles
  Index max_in_cpu_elements = 1'000'000'000;  ///< of parameters
  double ratio = 1;                           ///< share of optimizer state that is offloaded
};

/// Requests to NVMe.
struct AioChoice {
  Index block_size_bytes = 1 << 20;  ///< of a request
  Index queue_depth = 8;             ///< requests under way
  Index threads = 1;                 ///< that share a transfer
};

/// The loss scale of fp16.
struct LossScaleChoice {
  double static_scale = 0;              ///< 0: dynamic
  Index initial_power = 16;             ///< a dynamic one starts at 2 to this
  Index window = 1000;                  ///< good steps until it doubles
  Index hysteresis = 2;                 ///< overflows until it halves
  bool consecutive_hysteresis = false;  ///< each good step refills it
  double minimum = 1;                   ///< at which an overflow is an error
};

/// A resolved configuration. Defaults are DeepSpeed's.
struct ResolvedConfig {
  Index world_size = 1;                                ///< ranks that samples are divided over
  Index train_batch_size = 1;                          ///< samples of an update
  Index train_micro_batch_size_per_gpu = 1;            ///< samples of a rank's micro-batch
  Index gradient_accumulation_steps = 1;               ///< micro-batches of an update
  PrecisionChoice precision = PrecisionChoice::fp32;   ///< of parameters and gradients
  double gradient_clipping = 1;                        ///< largest L2 norm; 0: none
  int stage = 0;                                       ///< 0 to 3
  OffloadChoice offload_optimizer{};                   ///< of optimizer state
  OffloadChoice offload_param{};                       ///< of parameters
  AioChoice aio{};                                     ///< for the tier nvme
  bool overlap_comm = true;                            ///< reductions beside the backward pass
  Index reduce_bucket_size = 500'000'000;              ///< elements
  Index allgather_bucket_size = 500'000'000;           ///< elements
  Index stage3_prefetch_bucket_size = 50'000'000;      ///< elements
  Index stage3_param_persistence_threshold = 100'000;  ///< elements
  Index stage3_model_persistence_threshold = 0;        ///< elements
  Index stage3_max_live_parameters = 1'000'000'000;    ///< elements
  Index sub_group_size = 1'000'000'000;                ///< elements of an offloaded tile
  bool gather_16bit_weights_on_model_save = false;     ///< stage 3 may save whole weights
  bool force_ds_cpu_optimizer = true;                  ///< as the key zero_force_ds_cpu_optimizer
  LossScaleChoice loss_scale{};                        ///< of fp16
  std::optional<MenuChoice> optimizer{};               ///< nothing: the program's own
  std::optional<MenuChoice> scheduler{};               ///< nothing: the program's own
  std::optional<std::uint64_t> seed{};                 ///< of the arguments
  std::optional<Index> num_updates{};   ///< of the whole run, where the arguments say it
  bool save_only_model = false;         ///< of the arguments
  bool load_best_model_at_end = false;  ///< of the arguments

  boost::json::object json{};                    ///< all of it, under DeepSpeed's names
  std::map<std::string, std::string> origins{};  ///< by path: what a value came from
  std::vector<std::string> warnings{};           ///< one a line
};

}  // namespace zero
