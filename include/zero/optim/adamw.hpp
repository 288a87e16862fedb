// SPDX-License-Identifier: Apache-2.0
#pragma once
// AdamW (Loshchilov, Hutter: Decoupled Weight Decay Regularization, ICLR 2019, algorithm 2), and
// the moments that it shares with the other members of its family.

#include <zero/core/integer_power.hpp>
#include <zero/device/host.hpp>
#include <zero/optim/adam_kernel.hpp>
#include <zero/optim/learning_rate.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/ranges.hpp>

#include <cmath>

namespace zero {

/// 1 / (1 - beta^t) for both moments, computed in double and rounded once.
struct BiasCorrections {
  float m_correction;  ///< 1 / (1 - beta1^t)
  float v_correction;  ///< 1 / (1 - beta2^t)

  /// Of update t, from 1, where `beta1` and `beta2` are the moments' decays.
  ZERO_HOST_DEVICE static BiasCorrections of(float beta1, float beta2, Index t) {
    return {static_cast<float>(1.0 / (1.0 - integer_power(beta1, t))),
            static_cast<float>(1.0 / (1.0 - integer_power(beta2, t)))};
  }
};

/// The moments of Adam, moved by one gradient: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 -
/// beta2) g^2. @param states [2], m and v @return m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) +
/// eps)
/// @param beta1, beta2 decays of the moments
/// @param eps added to the root
/// @param c bias corrections of the update
/// @param gradient of one element
ZERO_HOST_DEVICE inline float adam_direction(float beta1, float beta2, float eps, BiasCorrections c,
                                             float gradient, float* states) {
  states[0] = product(beta1, states[0]) + product(1.0f - beta1, gradient);
  states[1] = product(beta2, states[1]) + product((1.0f - beta2) * gradient, gradient);
  return (states[0] * c.m_correction) / (std::sqrt(states[1] * c.v_correction) + eps);
}

/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// w -= lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w).
/// Bias corrections are computed in double, everything else in float. The numbers of
/// torch.optim.AdamW and of DeepSpeed's Adam and AdamW, up to rounding.
struct AdamW {
  float lr = 1e-3f;            ///< largest learning rate
  float beta1 = 0.9f;          ///< decay of the first moment
  float beta2 = 0.999f;        ///< decay of the second moment
  float eps = 1e-8f;           ///< added to the root of the second moment
  float weight_decay = 0.01f;  ///< decoupled, times learning rate and Tensor::decay
  LearningRate schedule{};     ///< multiple of lr by update number

  static constexpr int num_states = 2;  ///< moments an element: first, second
  using Constants = BiasCorrections;    ///< what an update needs of its number alone

  /// @throws InvalidArgument naming the setting, what was found and what was expected
  void validate() const { SettingsOf("AdamW").adam_family(*this); }
  /// Of update t, from 1.
  ZERO_HOST_DEVICE float learning_rate(Index t) const { return schedule.rate(lr, t); }
  /// Of update t, from 1; computed in double.
  ZERO_HOST_DEVICE Constants constants(Index t) const {
    return BiasCorrections::of(beta1, beta2, t);
  }
  /// The direction of one element in the update of the constants `c`, before the learning rate,
  /// from its `weight` and `gradient`; moves its `states`, [num_states]. `decay` is the tensor's
  /// multiplier.
  ZERO_HOST_DEVICE float direction(Constants c, float weight, float gradient, float* states,
                                   float decay) const {
    return adam_direction(beta1, beta2, eps, c, gradient, states) +
           product(weight_decay * decay, weight);
  }
};

/// Elements [begin, end) of `u` on the host, with the widest instructions that the processor has.
template <class G, class P>
void update_range(ElementUpdate<AdamW, G, P> const& u, Index begin, Index end) {
  update_adam_range<false>(u, begin, end, widest_instruction_set());
}

static_assert(Optimizer<AdamW>);

}  // namespace zero
