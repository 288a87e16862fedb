// SPDX-License-Identifier: Apache-2.0
#pragma once
// LAMB (You et al.: Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, ICLR
// 2020, algorithm 2).

#include <zero/core/hash.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/trust_ratio.hpp>

#include <bit>
#include <cstdint>

namespace zero {

/// How LAMB makes up for moments that start at 0.
enum class LambCorrection {
  moments,  ///< m / (1 - beta1^t) and v / (1 - beta2^t) in the direction, as the paper
  rate,     ///< moments as they are, rate times sqrt(1 - beta2^t) / (1 - beta1^t), as DeepSpeed
  none      ///< not at all: moments and rate as they are
};

/// m, v as AdamW; u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w;
/// w -= lr r u, where r = |w| / |u| kept within [min_coeff, max_coeff], and 1 where either norm is
/// 0. Norms are L2 norms of a whole tensor, whatever ranks its elements lie on; the clamp and its
/// bounds are DeepSpeed's.
/// Communication: where the optimizer is sharded, one all_gather of 2 doubles a trained tensor and
/// rank an update; see step/update.hpp.
struct Lamb {
  float lr = 1e-3f;         ///< largest learning rate
  float beta1 = 0.9f;       ///< decay of the first moment
  float beta2 = 0.999f;     ///< decay of the second moment
  float eps = 1e-8f;        ///< added to the root of the second moment
  float weight_decay = 0;   ///< added to the direction, times the weight and Tensor::decay
  float min_coeff = 0.01f;  ///< least trust ratio
  float max_coeff = 10;     ///< largest trust ratio
  /// Where the bias of the moments is taken out.
  LambCorrection correction = LambCorrection::moments;
  LearningRate schedule{};  ///< multiplies lr

  static constexpr int num_states = 2;  ///< moments: first, second
  using Constants = BiasCorrections;    ///< what an update needs of its number alone

  /// @throws InvalidArgument naming the setting, what was found and what was expected
  void validate() const {
    SettingsOf const settings("Lamb");
    settings.adam_family(*this);
    settings.not_negative("min_coeff", min_coeff);
    settings.require(max_coeff >= min_coeff && std::isfinite(max_coeff), "max_coeff", max_coeff,
                     "a finite number, at least min_coeff");
  }
  /// Of update t, from 1.
  ZERO_HOST_DEVICE float learning_rate(Index t) const {
    double rate = static_cast<double>(lr) * schedule.factor(t);
    if (correction == LambCorrection::rate) {
      Index const n = t > 1 ? t : 1;  // before the first good step t is 0
      rate *= std::sqrt(1.0 - integer_power(beta2, n)) / (1.0 - integer_power(beta1, n));
    }
    return static_cast<float>(rate);
  }
  /// What update t, from 1, needs of its number alone.
  ZERO_HOST_DEVICE Constants constants(Index t) const {
    if (correction != LambCorrection::moments) return {1, 1};
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
  /// What directions do not show.
  std::uint64_t hash() const {
    return Hash()
        .add(std::uint64_t{std::bit_cast<std::uint32_t>(min_coeff)})
        .add(std::uint64_t{std::bit_cast<std::uint32_t>(max_coeff)})
        .value();
  }
  /// By what a tensor's rate is scaled: weight_norm / direction_norm, which are L2 norms of the
  /// whole tensor, between the coefficients; 1 where either is 0.
  ZERO_HOST_DEVICE float trust_ratio(double weight_norm, double direction_norm) const {
    if (weight_norm == 0 || direction_norm == 0) return 1;
    float const ratio = static_cast<float>(weight_norm / direction_norm);
    return ratio < min_coeff ? min_coeff : ratio > max_coeff ? max_coeff : ratio;
  }
};

/// Elements [begin, end) of `u` on the host, with the widest instructions that the processor has.
template <class G, class P>
void update_range(ElementUpdate<Lamb, G, P> const& u, Index begin, Index end) {
  update_adam_range<false>(u, begin, end, widest_instruction_set());
}

static_assert(HasTrustRatio<Lamb> && !HasTrustRatio<AdamW>);

}  // namespace zero
