// SPDX-License-Identifier: Apache-2.0
#pragma once
// Optimizers of as many states as one type: half as many trainers to compile, where which of them
// trains is not what is tested.

#include <zero/optim/adagrad.hpp>
#include <zero/optim/adam.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lamb.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/one_of.hpp>
#include <zero/optim/sgd.hpp>

namespace zero_test {

/// The optimizer as one of those that keep as many states, or as it is.
template <class O>
auto joined(O const& optimizer) {
  if constexpr (zero::HasTrustRatio<O>) {
    return optimizer;
  } else if constexpr (O::num_states == 1) {
    return zero::OneOf<zero::Lion, zero::Adagrad, zero::Sgd>(optimizer);
  } else {
    return zero::OneOf<zero::AdamW, zero::Adam>(optimizer);
  }
}

}  // namespace zero_test
