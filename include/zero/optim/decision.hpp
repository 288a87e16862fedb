// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one decision of a step, made on the device from every rank's record: norm, clip factor, skip,
// learning rate. Update kernels read it there, so the host waits for nothing, and whatever counts
// good steps does not advance on a skip that the host has not seen.

#include <zero/core/host_device.hpp>
#include <zero/device/device.hpp>

#include <cmath>
#include <cstdint>

namespace zero {

/// One element of device memory.
struct Decision {
  double norm =
      0;  ///< global L2 norm of the mean gradient, before clipping; not finite on a skipped step
  double clip_factor =
      1;  ///< min(1, clip / (norm + 1e-6)), or 1 without clipping (as torch's clip_grad_norm_)
  float factor =
      1;  ///< what the update multiplies a summed gradient by: mean, loss scale and clip in one
  float learning_rate = 0;  ///< of this update
  float loss_scale = 1;     ///< what the next pass multiplies the gradient of its loss by
  std::int32_t skip = 0;    ///< 1: a gradient was not finite, nothing is updated
  Index updates =
      0;  ///< good updates so far, this one included; the t of bias correction and schedule
  Index skipped = 0;         ///< skipped steps so far
  Index bad_unit = -1;       ///< first unit with a gradient that is not finite, on a skipped step
  Index diverged_rank = -1;  ///< first rank that issued other collectives than rank 0 in this step

  /// Norm of the gradient that is applied.
  ZERO_HOST_DEVICE double clipped_norm() const { return norm * clip_factor; }
};

/// What one rank contributes: doubles [sum of squares of its slices, first bad unit + 1 or 0, hash
/// of the collectives it issued, 0].
inline constexpr Index norm_record_doubles = 4;

/// What a decision depends on beside the records.
struct DecisionInputs {
  Index ranks = 1;           ///< of the world
  double clip = 0;           ///< largest norm, 0 for none
  double contributions = 1;  ///< ranks averaged over x micro-batches: the divisor of the mean
};

/// Turns the records of all ranks, in rank order, into this step's decision.
/// @param decision of the step before, replaced by this one
/// @param records [ranks, norm_record_doubles]
/// @param inputs what else it depends on
/// @param learning_rate (Index update, from 1) -> float
template <class LearningRate>
ZERO_HOST_DEVICE void decide(Decision& decision, double const* records, DecisionInputs inputs,
                             LearningRate const& learning_rate) {
  double sum = 0;
  decision.bad_unit = -1;
  decision.diverged_rank = -1;
  for (Index r = 0; r < inputs.ranks; ++r) {
    double const* const record = records + r * norm_record_doubles;
    sum += record[0];
    Index const bad = static_cast<Index>(record[1]) - 1;
    if (bad >= 0 && (decision.bad_unit < 0 || bad < decision.bad_unit)) decision.bad_unit = bad;
    if (decision.diverged_rank < 0 && record[2] != records[2]) decision.diverged_rank = r;
  }
  double const mean = 1.0 / (inputs.contributions * static_cast<double>(decision.loss_scale));
  decision.norm = std::sqrt(sum) * mean;
  decision.skip = decision.bad_unit >= 0 || decision.diverged_rank >= 0 ? 1 : 0;
  decision.clip_factor = 1;
  if (inputs.clip > 0 && decision.norm + 1e-6 > inputs.clip)
    decision.clip_factor = inputs.clip / (decision.norm + 1e-6);
  decision.factor = static_cast<float>(mean * decision.clip_factor);
  if (decision.skip != 0) {
    ++decision.skipped;
  } else {
    ++decision.updates;
  }
  decision.learning_rate = learning_rate(decision.updates);
}

/// record = [0, 0, hash, 0], before the squares are added. The hash is kept to 53 bits, exact in a
/// double.
template <RunsHostCode D>
void start_record(typename D::Stream& stream, View<double, D> record, std::uint64_t hash) {
  stream.enqueue([record, hash] {
    double* const r = D::resolve(record.address());
    r[0] = 0;
    r[1] = 0;
    r[2] = static_cast<double>(hash >> 11);
    r[3] = 0;
  });
}

/// Enqueues decide() on the records of inputs.ranks ranks.
template <class LearningRate, RunsHostCode D>
void decide(typename D::Stream& stream, View<double const, D> records, View<Decision, D> decision,
            DecisionInputs inputs, LearningRate learning_rate) {
  stream.enqueue([records, decision, inputs, learning_rate] {
    decide(*D::resolve(decision.address()), D::resolve(records.address()), inputs, learning_rate);
  });
}

}  // namespace zero
