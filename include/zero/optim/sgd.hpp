// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stochastic gradient descent with momentum (Polyak, 1964) and Nesterov's form of it (Sutskever,
// Martens, Dahl, Hinton: On the importance of initialization and momentum in deep learning, ICML
// 2013, equations 1-4, as PyTorch writes them).

#include <zero/device/host.hpp>
#include <zero/optim/learning_rate.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/ranges.hpp>

namespace zero {

/// g += weight_decay w; b = momentum b + (1 - dampening) g, but b = g at the first update;
/// w -= lr b, or lr (g + momentum b) with nesterov.
/// The numbers of torch.optim.SGD; without momentum w -= lr g. The first update is the first good
/// one: a step that is skipped leaves b alone. b is kept whether there is momentum or not.
struct Sgd {
  float lr = 1e-3f;        ///< largest learning rate
  float momentum = 0;      ///< of the buffer; 0: none is used
  float dampening = 0;     ///< takes from the gradient that enters the buffer
  float weight_decay = 0;  ///< added to the gradient, times the weight and Tensor::decay
  /// The momentum that is to come is in the direction already; needs momentum and no dampening, as
  /// torch's, and is refused without.
  bool nesterov = false;
  LearningRate schedule{};  ///< multiplies lr

  static constexpr int num_states = 1;  ///< the buffer of momentum
  /// What an update needs of its number alone.
  struct Constants {
    bool first;  ///< this is the first update
  };

  /// @throws InvalidArgument naming the setting, what was found and what was expected
  void validate() const {
    SettingsOf const settings("Sgd");
    settings.not_negative("lr", lr);
    settings.not_negative("momentum", momentum);
    settings.require(std::isfinite(dampening), "dampening", dampening, "a finite number");
    settings.not_negative("weight_decay", weight_decay);
    settings.require(!nesterov || momentum > 0, "momentum", momentum, "above 0, for nesterov");
    settings.require(!nesterov || dampening == 0, "dampening", dampening, "0, for nesterov");
  }
  /// Of update t, from 1.
  ZERO_HOST_DEVICE float learning_rate(Index t) const { return schedule.rate(lr, t); }
  /// What update t, from 1, needs of its number alone.
  ZERO_HOST_DEVICE Constants constants(Index t) const { return {t <= 1}; }
  /// The direction of one element in the update of the constants `c`, before the learning rate,
  /// from its `weight` and `gradient`; moves its `states`, [num_states]. `decay` is the tensor's
  /// multiplier.
  ZERO_HOST_DEVICE float direction(Constants c, float weight, float gradient, float* states,
                                   float decay) const {
    float const g = gradient + product(weight_decay * decay, weight);
    if (momentum == 0) return g;
    states[0] = c.first ? g : product(momentum, states[0]) + product(1.0f - dampening, g);
    return nesterov ? g + product(momentum, states[0]) : states[0];
  }
};

static_assert(Optimizer<Sgd>);

}  // namespace zero
