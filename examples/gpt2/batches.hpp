// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which part of the text each rank trains on in each micro-batch: a function of the step alone, so
// that a run resumes anywhere, in the middle of an epoch too, and the same at every number of ranks
// that share a step's samples.

#include <zero/model/sample_order.hpp>

#include <gpt2/model.hpp>
#include <gpt2/settings.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt2 {

/// How a step's samples are spread.
struct BatchShape {
  Index context = 0;       ///< tokens of a sample
  Index batch = 0;         ///< samples of one rank's micro-batch
  Index accumulation = 1;  ///< micro-batches of a step
  int rank = 0;
  int world = 1;

  Index samples_a_step() const { return batch * accumulation * world; }
};

/// One rank's share of a run's steps.
inline BatchShape batch_shape(Settings const& settings, int rank) {
  return {.context = settings.size.context,
          .batch = settings.batch,
          .accumulation = settings.accumulation,
          .rank = rank,
          .world = settings.ranks};
}

/// Where a run goes on: after so many steps, and there in its samples.
struct Origin {
  Index step = 0;
  Index epoch = 0;
  Index samples = 0;  ///< of the epoch that all ranks together have taken
};

namespace detail {

/// The samples that stand at these places of a text cut into stretches of `context` bytes; a target
/// is the byte after its input.
template <class Places>
TokenBatch samples(std::string_view text, Index context, Places const& places) {
  auto const token = [&](Index byte) {
    return static_cast<Token>(static_cast<unsigned char>(text[at(byte)]));
  };
  TokenBatch batch{.length = context, .inputs = {}, .targets = {}};
  for (Index place : places) {
    for (Index i = place * context; i < (place + 1) * context; ++i) {
      batch.inputs.push_back(token(i));
      batch.targets.push_back(token(i + 1));
    }
  }
  return batch;
}

inline Index num_samples(std::string_view text, Index context) {
  return text.empty() ? 0 : (std::ssize(text) - 1) / context;
}

}  // namespace detail

/// Batches of one rank. The text outlives it.
class Batches {
 public:
  /// @throws zero::InvalidArgument when the text has not the samples of one step
  Batches(std::string_view training, std::string_view validation, BatchShape shape,
          std::uint64_t seed)
      : training_(training), validation_(validation), shape_(shape), seed_(seed) {
    Index const found = detail::num_samples(training, shape.context);
    steps_an_epoch_ = found / shape.samples_a_step();
    if (steps_an_epoch_ == 0) {
      throw zero::InvalidArgument("gpt2: the text is too short: one step takes " +
                                  std::to_string(shape.samples_a_step()) + " samples of " +
                                  std::to_string(shape.context) + " bytes, and it has " +
                                  std::to_string(found) + " to train on");
    }
    if (detail::num_samples(validation, shape.context) < shape.world) {
      throw zero::InvalidArgument("gpt2: the text is too short: its validation part of " +
                                  std::to_string(validation.size()) +
                                  " bytes has not one sample of " + std::to_string(shape.context) +
                                  " bytes for each of " + std::to_string(shape.world) + " ranks");
    }
  }

  Index steps_an_epoch() const { return steps_an_epoch_; }

  /// Goes on from there, maybe with other ranks and batches than before.
  /// @throws zero::InvalidArgument when the text has not so many samples
  void resume(Origin const& origin) {
    Index const found = detail::num_samples(training_, shape_.context);
    if (origin.samples > found) {
      throw zero::InvalidArgument(
          "gpt2: the run to go on from has taken " + std::to_string(origin.samples) +
          " samples of an epoch, and the text has " + std::to_string(found));
    }
    origin_ = origin;
  }

  /// Where the samples of a step, counted from 0, begin.
  Origin place(Index step) const {
    Index const found = detail::num_samples(training_, shape_.context);
    Index const here = (found - origin_.samples) / shape_.samples_a_step();
    Index const since = step - origin_.step;
    if (since < here)
      return {step, origin_.epoch, origin_.samples + since * shape_.samples_a_step()};
    return {step, origin_.epoch + 1 + (since - here) / steps_an_epoch_,
            (since - here) % steps_an_epoch_ * shape_.samples_a_step()};
  }

  /// This rank's micro-batches of a step, counted from 0.
  std::vector<TokenBatch> step(Index step) const {
    Origin const from = place(step);
    auto const order =
        zero::sample_order(detail::num_samples(training_, shape_.context), shape_.rank,
                           shape_.world, seed_, from.epoch, from.samples);
    Index entry = 0;
    std::vector<TokenBatch> batches;
    for (Index micro = 0; micro < shape_.accumulation; ++micro) {
      std::vector<Index> places;
      for (Index i = 0; i < shape_.batch; ++i) places.push_back(order[entry++]);
      batches.push_back(detail::samples(training_, shape_.context, places));
    }
    return batches;
  }

  /// At most `count` validation batches of this rank, the same at every call, spread over the
  /// validation text; at least one, none larger than a micro-batch. The ranks' differ, and all have
  /// as many.
  std::vector<TokenBatch> validation(Index count) const {
    Index const found = detail::num_samples(validation_, shape_.context);
    Index const each = found / shape_.world;  // at least 1
    Index const size = std::min(shape_.batch, each);
    count = std::min(count, each / size);
    std::vector<TokenBatch> batches;
    for (Index b = 0; b < count; ++b) {
      std::vector<Index> places;
      for (Index i = 0; i < size; ++i) {
        Index const number = (b * size + i) * shape_.world + shape_.rank;
        // number / (count size world) of the way through the text
        places.push_back(number * (found / (count * size * shape_.world)));
      }
      batches.push_back(detail::samples(validation_, shape_.context, places));
    }
    return batches;
  }

 private:
  std::string_view training_;
  std::string_view validation_;
  BatchShape shape_;
  std::uint64_t seed_;
  Origin origin_{};
  Index steps_an_epoch_ = 0;
};

}  // namespace gpt2
