// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a configuration's sizes mean for a model: DeepSpeed counts elements and parameters, the
// library visits and units.

#include <zero/config/problem.hpp>
#include <zero/config/resolved.hpp>
#include <zero/policy/options.hpp>
#include <zero/shard/layout.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace zero {

/// Options for a model, and what there was to say about it.
struct RunOptions {
  Options options{};                    ///< for the trainer
  std::vector<std::string> warnings{};  ///< about sizes that act as others
};

/// The loss scale of a configuration; 1 where it is not fp16.
/// @throws InvalidArgument as LossScale
inline LossScale loss_scale_of(ResolvedConfig const& config) {
  LossScaleChoice const& c = config.loss_scale;
  if (config.precision != PrecisionChoice::fp16) return {};
  if (c.static_scale != 0) return LossScale::fixed(static_cast<float>(c.static_scale));
  return LossScale::dynamic({.initial_power = static_cast<int>(c.initial_power),
                             .window = c.window,
                             .hysteresis = c.hysteresis,
                             .minimum = static_cast<float>(c.minimum),
                             .consecutive_hysteresis = c.consecutive_hysteresis});
}

/// What a configuration says of the tiers below the device. One rank has one folder, one lock and
/// one size of a request for both kinds of state.
/// - tile_elements: sub_group_size, of which a unit's last tile may have less.
/// - buffer_count: the larger one of the sections whose device is nvme; at least 3, since tiles are
///   read, updated and written at once.
/// - pin_memory: whether a section that is used says so. Memory that cannot be locked is an error.
/// - io_threads: queue_depth x intra_op_parallelism of aio, at most 256.
/// @param config resolved
/// @param warnings where what acts otherwise is told
/// @throws ConfigError for two folders
inline OffloadOptions offload_options(ResolvedConfig const& config,
                                      std::vector<std::string>& warnings) {
  OffloadOptions o;
  o.tile_elements = std::max(config.sub_group_size, Index{1});
  o.ratio = config.offload_optimizer.ratio;
  o.io_block_bytes = std::max(config.aio.block_size_bytes / 4096 * 4096, Index{4096});
  o.io_threads = static_cast<int>(
      std::clamp<Index>(config.aio.queue_depth * std::max(config.aio.threads, Index{1}), 1, 256));
  o.max_in_cpu_elements =
      config.offload_param.tier == Tier::nvme ? config.offload_param.max_in_cpu_elements : 0;
  bool pins = false;
  Index count = 3;
  for (auto const& [choice, section] : {std::pair(&config.offload_optimizer, "offload_optimizer"),
                                        std::pair(&config.offload_param, "offload_param")}) {
    pins = pins || (choice->tier != Tier::device && choice->pin_memory);
    if (choice->tier != Tier::nvme) continue;
    std::string const path = std::string("zero_optimization.") + section;
    if (choice->buffer_count < 3) {
      warnings.push_back(path + ".buffer_count: " + std::to_string(choice->buffer_count) +
                         " acts as 3: one tile is read, one used and one written at a time");
    }
    count = std::max(count, choice->buffer_count);
    if (!o.nvme_path.empty() && o.nvme_path != choice->nvme_path) {
      throw ConfigError({{path + ".nvme_path", "\"" + choice->nvme_path + "\"",
                          "the folder of offload_optimizer, \"" + o.nvme_path + "\""}});
    }
    o.nvme_path = choice->nvme_path;
  }
  o.buffer_count = static_cast<int>(std::min<Index>(count, 1 << 20));
  o.pin_memory = pins ? MemoryLock::required : MemoryLock::none;
  return o;
}

/// The run-time options that a configuration means for these units.
///
/// - overlap: overlap_comm, but for null, which is true at every stage.
/// - bucket, publish_bucket: reduce_bucket_size, allgather_bucket_size, never below the largest
///   unit, which is reduced and published whole. At stage 3 gathers form groups by bucket as well.
/// - prefetch: as many visits as the largest unit fits into stage3_prefetch_bucket_size; at least
///   one where the size is not 0; at most 64, and so few that they and the visit under way stay
///   within stage3_max_live_parameters.
/// - persistence_threshold: stage3_param_persistence_threshold, of a whole unit where DeepSpeed
///   counts a tensor; lowered until the units that stay gathered have at most
///   stage3_model_persistence_threshold elements.
/// - offload: as offload_options.
/// @throws InvalidArgument for units that have no layout; ConfigError as offload_options
inline RunOptions run_options(ResolvedConfig const& config, Units const& units) {
  Layout const layout(units, config.world_size);
  Index largest = 0;    // elements of a unit, what a gather moves
  Index trainable = 0;  // of a unit's trainable part, what a reduction moves
  for (int u = 0; u < layout.size(); ++u) {
    largest = std::max(largest, layout.elements(u));
    trainable = std::max(trainable, layout[u].trainable);
  }
  RunOptions run;
  Options& o = run.options;
  auto const at_least_a_unit = [&](Index size, char const* key) {
    if (size < trainable)
      run.warnings.push_back(
          std::string("zero_optimization.") + key + ": " + std::to_string(size) +
          " elements are less than the largest unit has, so it acts as that unit, " +
          std::to_string(trainable));
    return std::max(size, trainable);
  };
  o.world = static_cast<int>(config.world_size);
  o.accumulation = config.gradient_accumulation_steps;
  o.clip = static_cast<float>(config.gradient_clipping);
  if (config.precision == PrecisionChoice::fp16) o.loss_scale = loss_scale_of(config);
  o.overlap = config.overlap_comm;
  o.bucket = at_least_a_unit(config.reduce_bucket_size, "reduce_bucket_size");
  o.publish_bucket = config.stage == 0
                         ? config.allgather_bucket_size
                         : at_least_a_unit(config.allgather_bucket_size, "allgather_bucket_size");
  if (config.seed) o.seed = *config.seed;
  o.offload = offload_options(config, run.warnings);
  if (config.stage < 3) return run;

  if (config.stage3_prefetch_bucket_size > 0 && largest > 0) {
    Index const room = std::max(config.stage3_max_live_parameters / largest - 1, Index{0});
    if (config.stage3_prefetch_bucket_size < largest)
      run.warnings.push_back(
          "zero_optimization.stage3_prefetch_bucket_size: " +
          std::to_string(config.stage3_prefetch_bucket_size) +
          " elements are less than the largest unit has, so it acts as that unit, " +
          std::to_string(largest));
    Index const visits = std::clamp<Index>(config.stage3_prefetch_bucket_size / largest, 1, 64);
    o.prefetch = static_cast<int>(std::min(visits, room));
    if (room == 0)
      run.warnings.push_back("zero_optimization.stage3_max_live_parameters: " +
                             std::to_string(config.stage3_max_live_parameters) +
                             " elements leave no room to gather ahead of a unit of " +
                             std::to_string(largest));
  } else {
    o.prefetch = 0;
  }
  // Smallest first, as long as the sum holds; units of one size stay or go together.
  std::vector<Index> sizes;
  for (int u = 0; u < layout.size(); ++u) {
    if (layout.elements(u) <= config.stage3_param_persistence_threshold)
      sizes.push_back(layout.elements(u));
  }
  std::sort(sizes.begin(), sizes.end());
  o.persistence_threshold = config.stage3_param_persistence_threshold;
  Index sum = 0;
  for (Index const size : sizes) {
    sum += size;
    if (sum <= config.stage3_model_persistence_threshold) continue;
    o.persistence_threshold = std::max(size - 1, Index{0});
    break;
  }
  return run;
}

}  // namespace zero
