// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimizers that gpt2 trains with, by name.

#include <zero/optim/one_of.hpp>

#include <gpt2/rate.hpp>
#include <gpt2/settings.hpp>

namespace gpt2 {

using AdamOrAdamW = zero::OneOf<zero::AdamW, zero::Adam>;  ///< two states an element

/// Those that keep alike share a type, since every type is a trainer to compile, a stage, a
/// precision and a communicator.
template <class O>
auto trained_as(O const& optimizer) {
  if constexpr (O::num_states == 1) {
    return zero::OneOf<zero::Lion, zero::Adagrad, zero::Sgd>(optimizer);
  } else if constexpr (!zero::HasTrustRatio<O>) {
    return AdamOrAdamW(optimizer);
  } else {
    return optimizer;
  }
}

/// Calls f(optimizer) with the optimizer, rate and schedule that a configuration or the settings
/// name. Rates that are not given are those with which the default model learns well.
template <class F>
void with_optimizer(Settings const& s, F f) {
  if (s.configured) return std::visit(f, s.configured->optimizer);
  zero::LearningRate const schedule = rate_of(s);
  auto const call = [&](auto optimizer, double rate) {
    optimizer.lr = static_cast<float>(s.learning_rate.value_or(rate));
    optimizer.schedule = schedule;
    f(optimizer);
  };
  switch (s.optimizer) {
    case OptimizerName::adamw:
      return call(zero::AdamW{.beta2 = 0.99f, .weight_decay = 0.1f}, 6e-3);
    case OptimizerName::adam:
      return call(zero::Adam{.beta2 = 0.99f}, 6e-3);
    case OptimizerName::lamb:
      return call(zero::Lamb{.beta2 = 0.99f, .weight_decay = 0.1f}, 2e-2);
    case OptimizerName::lion:
      return call(zero::Lion{.weight_decay = 0.5f}, 6e-4);
    case OptimizerName::adagrad:
      return call(zero::Adagrad{}, 2e-2);
    case OptimizerName::sgd:
      return call(zero::Sgd{.momentum = 0.9f, .nesterov = true}, 0.2);
  }
}

}  // namespace gpt2
