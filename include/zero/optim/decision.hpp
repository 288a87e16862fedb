// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one decision of a step, made on the device from every rank's record: norm, clip factor, skip,
// learning rate. Update kernels read it there, so the host waits for nothing, and whatever counts
// good steps does not advance on a skip that the host has not seen.

#include <zero/core/host_device.hpp>
#include <zero/device/device.hpp>
#include <zero/optim/loss_scale.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace zero {

/// Why a step was skipped.
enum class SkipCause : std::int32_t {
  none,        ///< it was not
  gradient,    ///< a gradient is not finite: with a loss scale, an overflow
  loss,        ///< ... and so is a rank's loss: it began in the forward pass, whatever the scale
  divergence,  ///< ranks issued different collectives
};

/// What an optimizer's formula needs of an update's number alone, made with the decision: once a
/// step, where every thread block of every update would make it again. Constants of more than four
/// words are not kept. Kernels of GPUs read them; updates on the host make their own.
/// @pre a decision is used in updates of the optimizer that it was made for, as its rate is
struct KeptConstants {
  static constexpr std::size_t room = 4;  ///< words
  Index update = 0;                       ///< the number of which they are; 0: none are kept
  std::uint64_t words[room] = {};         ///< an O::Constants

  /// Whether constants of this type are kept.
  template <class Constants>
  static constexpr bool keeps = std::is_trivially_copyable_v<Constants> &&
                                sizeof(Constants) <= room * sizeof(std::uint64_t) &&
                                alignof(Constants) <= alignof(std::uint64_t);
  /// Keeps those of update t, where they are kept.
  /// @param t from 1
  /// @param constants of the optimizer in that update
  template <class Constants>
  ZERO_HOST_DEVICE void keep(Index t, Constants const& constants) {
    if constexpr (keeps<Constants>) {
      update = t;
      std::memcpy(words, &constants, sizeof(Constants));
    }
  }
};

/// One element of device memory.
struct Decision {
  double norm =
      0;  ///< global L2 norm of the mean gradient, before clipping; not finite on a skipped step
  double clip_factor =
      1;  ///< min(1, clip / (norm + 1e-6)), or 1 without clipping (as torch's clip_grad_norm_)
  float factor =
      1;  ///< what the update multiplies a summed gradient by: mean, loss scale and clip in one
  /// Of this update; on a skipped step, of the last good one, or else of the first.
  float learning_rate = 0;
  float loss_scale = 1;   ///< what the next pass multiplies the gradient of its loss by
  float used_scale = 1;   ///< what this step's did, and what is taken out of norm and factor
  std::int32_t skip = 0;  ///< 1: a gradient was not finite, nothing is updated
  SkipCause cause = SkipCause::none;  ///< of a skipped step
  std::int32_t failed = 0;            ///< 1: training cannot go on, as check_finite says
  Index updates =
      0;  ///< good updates so far, this one included; the t of bias correction and schedule
  Index skipped = 0;  ///< skipped steps so far
  /// On a skipped step, the unit in which it began: of those with a gradient that is not finite the
  /// one that backward is done with first, as the schedule says, since it carries what it meets to
  /// the units after. A unit that is visited more than once has one gradient of all its visits,
  /// which does not tell at which of them: backward_place() names those that come into question
  /// beside this one. Of all micro-batches together; visits outside the schedule count where the
  /// schedule has the unit. -1 where all are finite.
  Index bad_unit = -1;
  /// First rank whose loss was not finite; known where a loss scale was asked for,
  /// fixed or not, or is the precision's.
  Index bad_loss_rank = -1;
  Index diverged_rank = -1;  ///< first rank that issued other collectives than rank 0 in this step
  Index bad_losses = 0;      ///< steps in a row, up to this one, that were skipped for a loss
  LossScaleState scale_state{};  ///< how far a moving scale has come
  KeptConstants constants{};     ///< of the optimizer; kernels of GPUs read them

  /// Norm of the gradient that is applied.
  ZERO_HOST_DEVICE double clipped_norm() const { return norm * clip_factor; }
};

/// What one rank contributes: doubles [sum of squares of its slices, largest mark of a unit whose
/// gradient is not finite + 1 or 0, hash of the collectives it issued, 0 or what is not finite
/// where its loss is not].
inline constexpr Index norm_record_doubles = 4;

/// Units, and visits of a schedule, that a mark tells apart.
inline constexpr Index unit_mark_range = Index{1} << 26;
/// The number by which a unit stands in a record: larger where backward is done with it earlier.
/// Exact in a double for fewer than 2^26 units in fewer than 2^27 visits.
/// @param unit number of it
/// @param left visits of the schedule from its last backward visit on, that one included
ZERO_HOST_DEVICE constexpr Index unit_mark(Index unit, Index left) {
  return left * unit_mark_range + unit;
}

/// What a decision depends on beside the records.
struct DecisionInputs {
  Index ranks = 1;           ///< of the world
  double clip = 0;           ///< largest norm, 0 for none
  double contributions = 1;  ///< ranks averaged over x micro-batches: the divisor of the mean
  LossScale loss_scale{};    ///< how the scale moves
};

namespace detail {

/// What a step says of the scale. A loss that is not finite says nothing: it would not be finite at
/// any scale.
ZERO_HOST_DEVICE inline void move_loss_scale(Decision& d, LossScale const& option) {
  d.bad_losses = d.cause == SkipCause::loss ? d.bad_losses + 1 : 0;
  if (!option.given() || d.cause == SkipCause::divergence) return;
  Index const limit = option.settings().max_bad_losses;
  bool const goes_on =
      d.cause == SkipCause::loss
          ? limit == 0 || d.bad_losses < limit
          : d.scale_state.advance(d.loss_scale, option, d.cause == SkipCause::gradient);
  d.failed = goes_on ? 0 : 1;
}

}  // namespace detail

/// Turns the records of all ranks, in rank order, into this step's decision. A decision that has
/// failed stays as it is: every later step is skipped, so that whoever looks late still learns
/// which one it was.
/// @param decision of the step before, replaced by this one
/// @param records [ranks, norm_record_doubles]
/// @param inputs what else it depends on
/// @param learning_rate (Index update, from 1) -> float; where it has constants(update), they are
///   kept
template <class LearningRate>
ZERO_HOST_DEVICE void decide(Decision& decision, double const* records, DecisionInputs inputs,
                             LearningRate const& learning_rate) {
  if (decision.failed != 0) return;
  double sum = 0;
  Index mark = -1;
  decision.bad_loss_rank = -1;
  decision.diverged_rank = -1;
  for (Index r = 0; r < inputs.ranks; ++r) {
    double const* const record = records + r * norm_record_doubles;
    sum += record[0];
    Index const bad = static_cast<Index>(record[1]) - 1;
    if (bad > mark) mark = bad;
    if (decision.bad_loss_rank < 0 && !std::isfinite(record[3])) decision.bad_loss_rank = r;
    if (decision.diverged_rank < 0 && record[2] != records[2]) decision.diverged_rank = r;
  }
  decision.bad_unit = mark < 0 ? -1 : mark % unit_mark_range;
  decision.used_scale = decision.loss_scale;
  double const mean = 1.0 / (inputs.contributions * static_cast<double>(decision.used_scale));
  decision.norm = std::sqrt(sum) * mean;
  decision.cause = decision.diverged_rank >= 0   ? SkipCause::divergence
                   : decision.bad_unit < 0       ? SkipCause::none
                   : decision.bad_loss_rank >= 0 ? SkipCause::loss
                                                 : SkipCause::gradient;
  decision.skip = decision.cause == SkipCause::none ? 0 : 1;
  decision.clip_factor = 1;
  if (inputs.clip > 0 && decision.norm + 1e-6 > inputs.clip)
    decision.clip_factor = inputs.clip / (decision.norm + 1e-6);
  decision.factor = static_cast<float>(mean * decision.clip_factor);
  if (decision.skip != 0) {
    ++decision.skipped;
  } else {
    ++decision.updates;
  }
  // Before the first good step there is no update to ask for: the rate is that of the first.
  Index const update = decision.updates > 0 ? decision.updates : 1;
  decision.learning_rate = learning_rate(update);
  if constexpr (requires { learning_rate.constants(update); })
    decision.constants.keep(update, learning_rate.constants(update));
  detail::move_loss_scale(decision, inputs.loss_scale);
}

/// record = [0, 0, hash, 0], before the squares are added. The hash is kept to 53 bits, exact in a
/// double. Communication: none; ranks gather the records afterwards. Ordering: on the stream,
/// before whatever adds to the record.
/// @param stream of the device whose memory the record is in
/// @param record [norm_record_doubles]
/// @param hash of the collectives that this rank has issued, and of its extra visits
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

/// Where from[0] is not finite, to[0] becomes NaN; else it stays. One of the two is double, the
/// other double or the gradients' type. Communication: none; what is marked is gathered or summed
/// with others' afterwards, and NaN stays NaN in a sum. Ordering: on the stream.
/// @param stream of the device whose memory both are in
/// @param from [1], a loss or what ranks have summed
/// @param to [1], a record's fourth double or what ranks will sum
template <class From, class To, RunsHostCode D>
void mark_not_finite(typename D::Stream& stream, View<From const, D> from, View<To, D> to) {
  using Wide = std::conditional_t<std::same_as<From, double>, double, float>;
  stream.enqueue([from, to] {
    if (!std::isfinite(static_cast<Wide>(*D::resolve(from.address()))))
      *D::resolve(to.address()) = static_cast<To>(std::numeric_limits<float>::quiet_NaN());
  });
}

/// Enqueues decide() on the records of inputs.ranks ranks. Communication: none. Ordering: on the
/// stream, after the records of all ranks are there; nothing waits.
/// @param stream of the device whose memory both are in
/// @param records [inputs.ranks, norm_record_doubles], in rank order
/// @param decision [1], of the step before; replaced
/// @param inputs what else it depends on
/// @param learning_rate (Index update, from 1) -> float, copied; its constants are kept
template <class LearningRate, RunsHostCode D>
void decide(typename D::Stream& stream, View<double const, D> records, View<Decision, D> decision,
            DecisionInputs inputs, LearningRate learning_rate) {
  stream.enqueue([records, decision, inputs, learning_rate] {
    decide(*D::resolve(decision.address()), D::resolve(records.address()), inputs, learning_rate);
  });
}

}  // namespace zero
