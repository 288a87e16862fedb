// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains GivenGradients on ranks as threads, at a stage, world and precision chosen at run time,
// and tells what is left after each step. Every case is a call of train() and what must hold of it.

#include <zero/core/ledger.hpp>
#include <zero/optim/adam.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/sgd.hpp>
#include <zero/policy/options.hpp>

#include <cases/descent.hpp>
#include <cases/given_gradients.hpp>

#include <functional>
#include <variant>
#include <vector>

namespace cases {

enum class Precision { fp32, bf16, fp16 };

/// The micro-batches of one step, and all steps of one rank.
using MicroBatches = std::vector<GivenGradients::Batch>;
using Steps = std::vector<MicroBatches>;

struct Training {
  int stage = 0;
  int world = 1;
  Precision precision = Precision::fp32;
  zero::Units units{};
  std::variant<zero::AdamW, Descent, zero::Adam, zero::Sgd> optimizer = zero::AdamW{};
  zero::Options options{};
  std::function<Steps(int rank)> steps{};                  ///< called on each rank's thread
  double (*loss)(GivenGradients::Batch const&) = nullptr;  ///< unset: 0
  /// Called on each rank's thread after each step, from 0, if given.
  std::function<void(int rank, Index step, zero::Ledger const& ledger)> after_step{};
  std::function<void(int rank, zero::Decision const& decision)> saw{};  ///< the same, if given
  /// Called on a rank's thread with what its step threw, which then ends the run, if given.
  std::function<void(int rank, std::exception const&)> failed{};
};

/// One rank after one step.
struct RankRecord {
  zero::Decision decision{};
  double squares = 0;  ///< sum of squares of the reduced gradients in this rank's slices
  Index live_bytes = 0;
};

/// After one step. Weights and moments are float, trainable elements in order of description.
struct AfterStep {
  std::vector<float> weights;
  std::vector<float> m;  ///< the optimizer's numbers 0 and 1; empty where it has none
  std::vector<float> v;
  std::vector<RankRecord> ranks;
};

struct Outcome {
  std::vector<AfterStep> steps;
  /// [rank] trainable elements as a visit on that rank sees them after the last step
  std::vector<std::vector<float>> parameters;
  std::vector<std::uint64_t> parameters_hash;           ///< [rank]
  std::vector<Index> owned;                             ///< [rank] elements, padding excluded
  std::vector<std::vector<zero::Ledger::Kind>> memory;  ///< [rank] by kind, after the last step
  std::vector<Index> peak_bytes;                        ///< [rank]

  AfterStep const& last() const { return steps.back(); }
};

/// @throws what a rank threw
Outcome train(Training const& training);

/// One unit for each list, of one tensor for each size, filled from `initial` (or 0), in order of
/// description.
zero::Units make_units(std::vector<std::vector<Index>> const& sizes,
                       std::function<double(Index element)> initial = {});

/// What multiplies the mean gradient on this rank: differs from rank to rank, and the ranks' mean
/// is 1.
inline float rank_share(int rank, int world) {
  return 1.0f + 0.5f * (static_cast<float>(rank) - static_cast<float>(world - 1) / 2.0f);
}

/// Whether two rows of numbers are the same bits.
bool same_bits(std::vector<float> const& a, std::vector<float> const& b);

/// Largest |a[i] - b[i]|; infinite where sizes differ or a number is NaN.
double largest_difference(std::vector<float> const& a, std::vector<double> const& b);

}  // namespace cases
