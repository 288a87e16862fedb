// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lion (Chen et al.: Symbolic Discovery of Optimization Algorithms, NeurIPS 2023, algorithm 2).

#include <zero/device/host.hpp>
#include <zero/optim/learning_rate.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/ranges.hpp>

namespace zero {

/// c = beta1 m + (1 - beta1) g; w -= lr (sign(c) + weight_decay w); m = beta2 m + (1 - beta2) g.
/// sign(0) = 0, so a weight that never has a gradient only decays; in DeepSpeed it drifts by lr a
/// step, upwards or downwards by device. Betas are the paper's; DeepSpeed's beta2 is 0.999.
struct Lion {
  float lr = 1e-4f;         ///< largest learning rate
  float beta1 = 0.9f;       ///< share of the momentum in the sign
  float beta2 = 0.99f;      ///< decay of the momentum
  float weight_decay = 0;   ///< decoupled, times learning rate and Tensor::decay
  LearningRate schedule{};  ///< multiplies lr

  static constexpr int num_states = 1;  ///< the momentum
  struct Constants {};                  ///< what an update needs of its number alone: nothing

  /// @throws InvalidArgument naming the setting, what was found and what was expected
  void validate() const {
    SettingsOf const settings("Lion");
    settings.not_negative("lr", lr);
    settings.below_one("beta1", beta1);
    settings.below_one("beta2", beta2);
    settings.not_negative("weight_decay", weight_decay);
  }
  /// Of update t, from 1.
  ZERO_HOST_DEVICE float learning_rate(Index t) const { return schedule.rate(lr, t); }
  /// What update t, from 1, needs of its number alone.
  ZERO_HOST_DEVICE Constants constants(Index) const { return {}; }
  /// The direction of one element, before the learning rate, from its `weight` and `gradient`;
  /// moves its `states`, [num_states]. `decay` is the tensor's multiplier.
  ZERO_HOST_DEVICE float direction(Constants, float weight, float gradient, float* states,
                                   float decay) const {
    float const c = product(beta1, states[0]) + product(1.0f - beta1, gradient);
    states[0] = product(beta2, states[0]) + product(1.0f - beta2, gradient);
    float const sign = c > 0 ? 1.0f : c < 0 ? -1.0f : 0.0f;
    return sign + product(weight_decay * decay, weight);
  }
};

static_assert(Optimizer<Lion>);

}  // namespace zero
