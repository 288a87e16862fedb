// SPDX-License-Identifier: Apache-2.0
#pragma once
// A momentum that moves with the updates, as OneCycle's does (DeepSpeed's cycle_momentum): around
// any optimizer that has a beta1. An optimizer without one is refused by the compiler.

#include <zero/core/hash.hpp>
#include <zero/optim/one_cycle.hpp>
#include <zero/optim/optimizer.hpp>

#include <bit>
#include <cstdint>

namespace zero {

/// beta1 as a function of the number of the update alone.
class Momentum {
 public:
  /// High where the rate is low: high - (high - low) x height in the cycle, then high x (1 +
  /// decay_rate x decays). DeepSpeed's numbers, its odd first one too: update 1 has `low`, though
  /// the formula gives `high`. A momentum that decays upwards ends below 1.
  /// @param low, high cycle_min_mom and cycle_max_mom, from 0 to below 1
  /// @param decay_rate decay_mom_rate, at least 0
  /// @throws InvalidArgument naming the argument, what was found and what was expected
  /// @param cycle the rate's
  static Momentum one_cycle(OneCycle const& cycle, double low = 0.8, double high = 0.9,
                            double decay_rate = 0) {
    validate(cycle, "Momentum::one_cycle");
    require_argument(low >= 0 && low < 1, "Momentum::one_cycle: low", low, "0 to below 1");
    require_argument(high >= 0 && high < 1, "Momentum::one_cycle: high", high, "0 to below 1");
    require_argument(decay_rate >= 0 && std::isfinite(decay_rate),
                     "Momentum::one_cycle: decay_rate", decay_rate, "a finite rate of 0 or more");
    Momentum m;
    m.cycle_ = cycle;
    m.low_ = low;
    m.high_ = high;
    m.decay_rate_ = decay_rate;
    return m;
  }

  /// @param update from 1
  ZERO_HOST_DEVICE double value(Index update) const {
    if (update <= 1) return low_;
    Index const calls = update - 1;
    double const cycled = high_ - (high_ - low_) * cycle_.height(calls);
    double const decayed = cycled * (1 + decay_rate_ * cycle_.decays(calls));
    return decayed < largest ? decayed : largest;
  }

  /// Of all that makes the curve.
  std::uint64_t hash() const {
    Hash h;
    for (double x : {low_, high_, decay_rate_}) h.add(std::bit_cast<std::uint64_t>(x));
    for (Index n :
         {cycle_.up, cycle_.down, cycle_.up_stairs, cycle_.down_stairs, cycle_.decay_updates})
      h.add(n);
    return h.value();
  }

 private:
  Momentum() = default;
  static constexpr double largest = 1.0 - 0x1p-24;  // the largest float below 1

  OneCycle cycle_{};
  double low_ = 0;
  double high_ = 0;
  double decay_rate_ = 0;
};

/// An optimizer whose beta1 follows a Momentum: `CycledMomentum{AdamW{...}, Momentum::...}`. All
/// else is the optimizer's, its other facts too. Bias corrections use the beta1 of the update, as
/// torch's and DeepSpeed's do. beta2 stays the optimizer's; DeepSpeed sets 0.99, which is to be
/// asked for by AdamW{.beta2 = 0.99f}.
template <Optimizer O>
requires requires(O o) { o.beta1 = 0.5f; }
struct CycledMomentum : O {
  Momentum momentum;  ///< what beta1 follows

  /// From an optimizer, whose beta1 follows `cycle`.
  CycledMomentum(O optimizer, Momentum cycle) : O(optimizer), momentum(cycle) {}

  /// The optimizer with the beta1 of one update, and its own constants.
  struct Constants {
    O optimizer;                                                      ///< with the update's beta1
    decltype(std::declval<O const&>().constants(Index{})) constants;  ///< its own
  };

  /// The optimizer as it is in update t.
  ZERO_HOST_DEVICE O at_update(Index t) const {
    O moved = *this;
    moved.beta1 = static_cast<float>(momentum.value(t));
    return moved;
  }
  /// What the first updates do not show; ranks compare it.
  std::uint64_t hash() const {
    Hash h;
    if constexpr (requires(O const& o) { o.hash(); }) h.add(std::uint64_t{O::hash()});
    return h.add(momentum.hash()).value();
  }
  /// As the optimizer's in update t, from 1.
  ZERO_HOST_DEVICE float learning_rate(Index t) const { return at_update(t).learning_rate(t); }
  /// What update t, from 1, needs of its number alone.
  ZERO_HOST_DEVICE Constants constants(Index t) const {
    O const moved = at_update(t);
    return {moved, moved.constants(t)};
  }
  /// The optimizer's direction with the beta1 of the constants `c`, from one element's `weight` and
  /// `gradient`; moves its `states`, [num_states]. `decay` is the tensor's multiplier.
  ZERO_HOST_DEVICE float direction(Constants const& c, float weight, float gradient, float* states,
                                   float decay) const {
    return c.optimizer.direction(c.constants, weight, gradient, states, decay);
  }
};

/// Elements [begin, end) of `u` by the optimizer's own, with its vectors where it has some.
template <class G, class P, class O>
void update_range(ElementUpdate<CycledMomentum<O>, G, P> const& u, Index begin, Index end) {
  ElementUpdate<O, G, P> const part{u.constants.optimizer,
                                    u.constants.constants,
                                    u.gradients,
                                    u.weights,
                                    u.states,
                                    u.rounded,
                                    u.elements,
                                    u.factor,
                                    u.noise,
                                    u.segment,
                                    u.rate};
  update_range(part, begin, end);
}

}  // namespace zero
