// SPDX-License-Identifier: Apache-2.0
#pragma once
// An optimizer with nothing but what the concept asks.

#include <zero/optim/optimizer.hpp>

namespace archetype {

/// Keeps one number an element. Copies, and cannot be made here.
class Optimizer {
 public:
  static constexpr int num_states = 1;
  class Constants {};

  Optimizer() = delete;
  float learning_rate(zero::Index update) const;
  Constants constants(zero::Index update) const;
  float direction(Constants, float weight, float gradient, float* states, float decay) const;
};

}  // namespace archetype
