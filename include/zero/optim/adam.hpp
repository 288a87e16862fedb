// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adam with L2 regularisation (Kingma, Ba: Adam: A Method for Stochastic Optimization, ICLR 2015,
// algorithm 1; weight decay added to the gradient as in Loshchilov, Hutter, ICLR 2019, algorithm 2,
// line 6).

#include <zero/optim/adamw.hpp>

namespace zero {

/// g += weight_decay w; then m, v and bias correction as AdamW;
/// w -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps).
/// The numbers of torch.optim.Adam, and of DeepSpeed's Adam with adam_w_mode false. (DeepSpeed's
/// type "Adam" without that is AdamW.) Without weight decay it is AdamW without weight decay.
struct Adam {
  float lr = 1e-3f;         ///< largest learning rate
  float beta1 = 0.9f;       ///< decay of the first moment
  float beta2 = 0.999f;     ///< decay of the second moment
  float eps = 1e-8f;        ///< added to the root of the second moment
  float weight_decay = 0;   ///< added to the gradient, times the weight and Tensor::decay
  LearningRate schedule{};  ///< multiplies lr

  static constexpr int num_states = 2;  ///< moments: first, second
  using Constants = BiasCorrections;    ///< what an update needs of its number alone

  /// @throws InvalidArgument naming the setting, what was found and what was expected
  void validate() const { SettingsOf("Adam").adam_family(*this); }
  /// Of update t, from 1.
  ZERO_HOST_DEVICE float learning_rate(Index t) const { return schedule.rate(lr, t); }
  /// What update t, from 1, needs of its number alone.
  ZERO_HOST_DEVICE Constants constants(Index t) const {
    return BiasCorrections::of(beta1, beta2, t);
  }
  /// The direction of one element in the update of the constants `c`, before the learning rate,
  /// from its `weight` and `gradient`; moves its `states`, [num_states]. `decay` is the tensor's
  /// multiplier.
  ZERO_HOST_DEVICE float direction(Constants c, float weight, float gradient, float* states,
                                   float decay) const {
    return adam_direction(beta1, beta2, eps, c, gradient + product(weight_decay * decay, weight),
                          states);
  }
};

/// Elements [begin, end) of `u` on the host, with the widest instructions that the processor has.
template <class G, class P>
void update_range(ElementUpdate<Adam, G, P> const& u, Index begin, Index end) {
  update_adam_range<true>(u, begin, end, widest_instruction_set());
}

static_assert(Optimizer<Adam>);

}  // namespace zero
