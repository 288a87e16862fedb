// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the test model is given for a micro-batch, and what it is told to do with it.

#include <zero/core/dtype.hpp>
#include <zero/core/noise.hpp>

#include <support/chain.hpp>

#include <cmath>
#include <functional>
#include <vector>

namespace zero_test {

/// A gradient that is replaced by a value, after the model has added its own.
struct Poison {
  int unit = -1;  ///< -1: none
  int tensor = 0;
  zero::Index element = 0;
  float value = 0;
};

/// Input and target of one micro-batch, keyed by the rank, step and number it is for.
struct Batch {
  int rank = 0;
  int step = 0;
  int micro = 0;
  std::vector<float> input{};
  std::vector<float> target{};
  std::vector<Poison> poisons{};
};

inline Batch make_batch(int rank, int step, int micro) {
  Batch batch{rank, step, micro};
  zero::Index const key = (zero::Index{step} * 64 + micro) * 64 + rank;
  for (zero::Index i = 0; i < chain::cells; ++i) {
    batch.input.push_back(static_cast<float>(2 * zero::noise_uniform(7, key, i) - 1));
    batch.target.push_back(static_cast<float>(2 * zero::noise_uniform(8, key, i) - 1));
  }
  return batch;
}

/// Gradients that do not come from the loss.
enum class Given {
  no,
  fine,   ///< of up to 1 in size, as fine as the type holds
  coarse  ///< multiples of 1/64 of up to 1 in size, four of which add up exactly in bf16
};

/// What an element's gradient is where Script::given: a number that G holds exactly.
template <class G>
float given_gradient(Batch const& batch, zero::Index tensor, zero::Index element, Given given) {
  zero::Index const key = (zero::Index{batch.step} * 64 + batch.micro) * 64 + batch.rank;
  auto const seed = zero::mix(9, static_cast<std::uint64_t>(key));
  double const value = 2 * zero::noise_uniform(seed, tensor, element) - 1;
  if (given == Given::coarse) return static_cast<float>(std::nearbyint(value * 64) / 64);
  return static_cast<float>(static_cast<G>(static_cast<float>(value)));
}

/// Which lease of a backward visit ends first.
enum class Ends {
  together,          ///< both after all work of the visit
  parameters_first,  ///< parameters once the gradient of the input is there, then the gradients
  gradients_first    ///< gradients once they are there, then the gradient of the input
};

/// What one pass does.
struct Script {
  std::vector<int> chain{};  ///< unit of each layer
  int forwards = 1;          ///< times that the whole forward is made
  int backwards = 1;         ///< times that the loss and the whole backward is made
  bool recomputes = false;   ///< a forward visit of each layer before its backward
  std::vector<int> again{};  ///< layers whose backward is made once more, at the end
  std::vector<int> extra{};  ///< units whose parameters are asked for after the forward
  int held = 0;              ///< further visits that open before a lease ends
  Ends ends = Ends::together;
  bool overwrites = false;  ///< asks for gradients that are not zeroed
  Given given = Given::no;  ///< gradients are given_gradient, whatever the loss
  int throws_at = -1;       ///< layer in whose backward the model fails
};

/// What a pass over a batch does. Ranks are told apart by the batch.
using Director = std::function<Script(Batch const&, bool trains)>;

}  // namespace zero_test
