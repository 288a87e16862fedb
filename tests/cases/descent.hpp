// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gradient descent as a user would write it: an optimizer without state, after whose update of rate
// 1 a weight shows the gradient that was applied to it.

#include <zero/optim/optimizer.hpp>

namespace cases {

/// w -= lr g
struct Descent {
  float lr = 1;

  static constexpr int num_states = 0;

  ZERO_HOST_DEVICE float learning_rate(zero::Index) const { return lr; }
  ZERO_HOST_DEVICE int constants(zero::Index) const { return 0; }
  ZERO_HOST_DEVICE float direction(int, float, float gradient, float*, float) const {
    return gradient;
  }
};

static_assert(zero::Optimizer<Descent>);

}  // namespace cases
