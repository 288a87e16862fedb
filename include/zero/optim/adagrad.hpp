// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adagrad (Duchi, Hazan, Singer: Adaptive Subgradient Methods for Online Learning and Stochastic
// Optimization, JMLR 12, 2011, figure 1, diagonal).

#include <zero/device/host.hpp>
#include <zero/optim/learning_rate.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/ranges.hpp>

#include <cmath>

namespace zero {

/// g += weight_decay w; v += g^2; w -= lr / (1 + (t - 1) lr_decay) g / (sqrt(v) + eps).
/// The numbers of torch.optim.Adagrad with initial_accumulator_value 0. (DeepSpeed's kernel adds
/// the decay to v alone and divides the bare gradient: equal without weight decay.)
struct Adagrad {
  float lr = 1e-2f;         ///< largest learning rate
  float lr_decay = 0;       ///< the rate is divided by 1 + lr_decay (t - 1)
  float eps = 1e-10f;       ///< added to the root of the sum of squares
  float weight_decay = 0;   ///< added to the gradient, times the weight and Tensor::decay
  LearningRate schedule{};  ///< multiplies lr

  static constexpr int num_states = 1;  ///< the sum of squares
  struct Constants {};                  ///< what an update needs of its number alone: nothing

  /// @throws InvalidArgument naming the setting, what was found and what was expected
  void validate() const {
    SettingsOf const settings("Adagrad");
    settings.not_negative("lr", lr);
    settings.not_negative("lr_decay", lr_decay);
    settings.positive("eps", eps);
    settings.not_negative("weight_decay", weight_decay);
  }
  /// Of update t, from 1.
  ZERO_HOST_DEVICE float learning_rate(Index t) const {
    // Exact: a float times a count below 2^29.
    double const steps = t > 1 ? static_cast<double>(t - 1) : 0;
    return static_cast<float>(static_cast<double>(lr) * schedule.factor(t) /
                              (1 + steps * static_cast<double>(lr_decay)));
  }
  /// What update t, from 1, needs of its number alone.
  ZERO_HOST_DEVICE Constants constants(Index) const { return {}; }
  /// The direction of one element, before the learning rate, from its `weight` and `gradient`;
  /// moves its `states`, [num_states]. `decay` is the tensor's multiplier.
  ZERO_HOST_DEVICE float direction(Constants, float weight, float gradient, float* states,
                                   float decay) const {
    float const g = gradient + product(weight_decay * decay, weight);
    states[0] += product(g, g);
    return g / (std::sqrt(states[0]) + eps);
  }
};

static_assert(Optimizer<Adagrad>);

}  // namespace zero
