// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a trainer may be told at run time. Fixed at construction, because it sizes buffers and the
// schedule.

#include <zero/core/size.hpp>
#include <zero/policy/loss_scale.hpp>
#include <zero/policy/offload.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace zero {

/// When gradients of an accumulated step are reduced over ranks.
enum class Reduction {
  boundary,  ///< once, with the last micro-batch; each rank adds its micro-batches in float before
  micro_batch  ///< with every micro-batch; what is added is already summed over ranks
};

/// Run-time options; the same on every rank, which is checked before the first step.
struct Options {
  /// Most micro-batches of one step, at least 1. Above 1, float accumulators exist.
  Index accumulation = 1;
  /// Largest global L2 norm of the mean gradient; 0 does not clip.
  float clip = 0;
  /// Moment of reduction; unset: boundary where gradients are not sharded, micro_batch where they
  /// are.
  std::optional<Reduction> reduction{};
  /// Stage 3: visits by which a gather runs ahead of its use, 0 to 64; half as many, rounded up,
  /// for the first of those that `bucket` launches as one group.
  int prefetch = 1;
  /// Reductions run on a stream of their own, beside the backward pass; false: on the compute
  /// stream, where nothing runs beside them. The same bits.
  bool overlap = true;
  /// Elements up to which the reductions of neighbouring units, which their gradients wait for, are
  /// launched as one group, and stage 3's gathers with a prefetch of 3 and more; a unit larger than
  /// this, and every unit at 0, is launched alone.
  Index bucket = 0;
  /// The same of publications; unset: `bucket`.
  std::optional<Index> publish_bucket{};
  /// Stage 3: units of at most this many padded elements stay gathered, and are published after
  /// each update.
  Index persistence_threshold = 0;
  /// Stage 3: give a unit's parameters back after its forward visit and gather them again for its
  /// backward.
  bool release_after_forward = true;
  /// What the gradient of the loss is multiplied by; unset: LossScale::dynamic() where gradients
  /// are fp16, 1 where they are not.
  std::optional<LossScale> loss_scale{};
  /// Key of all noise: that of initial values, and that which rounds 16-bit states.
  std::uint64_t seed = 1;
  /// Norm, update and, where the communicator can, publications are recorded in the second step,
  /// and from then on replayed as they are (on GPUs, as CUDA graphs) instead of enqueued one by
  /// one. The bits are the same. For devices that can, with all state on the device; the same on
  /// all ranks.
  bool replay = false;
  /// Of state that does not lie on the device.
  OffloadOptions offload{};
  /// Ranks that the options were made for, as those of a configuration are, whose batch sizes
  /// depend on it; unset: any.
  std::optional<int> world{};
};

/// @param o the options
/// @param world ranks that there are, where they are known
/// @throws InvalidArgument naming the option, what was found and what was expected
inline void validate(Options const& o, std::optional<int> world = {}) {
  std::string const name = "Options::";
  char const* const elements = "a number of elements, or 0";
  Index const publish_bucket = o.publish_bucket.value_or(0);
  require_argument(o.accumulation >= 1, name + "accumulation", o.accumulation,
                   "at least 1 micro-batch");
  require_argument(o.clip >= 0 && std::isfinite(o.clip), name + "clip", double{o.clip},
                   "a finite norm, or 0 for none");
  require_argument(o.prefetch >= 0 && o.prefetch <= 64, name + "prefetch", Index{o.prefetch},
                   "0 to 64 visits");
  require_argument(o.bucket >= 0, name + "bucket", o.bucket, elements);
  require_argument(publish_bucket >= 0, name + "publish_bucket", publish_bucket, elements);
  require_argument(o.persistence_threshold >= 0, name + "persistence_threshold",
                   o.persistence_threshold, elements);
  if (!o.world || !world) return;
  require_argument(*o.world == *world, name + "world", Index{*o.world},
                   "the communicator's " + std::to_string(*world) + " ranks");
}

}  // namespace zero
