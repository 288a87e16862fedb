// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an optimizer is: numbers kept an element, and a function from a gradient to a direction.

#include <zero/core/dtype.hpp>
#include <zero/core/host_device.hpp>
#include <zero/core/segment.hpp>
#include <zero/optim/decision.hpp>

#include <algorithm>
#include <concepts>
#include <type_traits>

namespace zero {

/// An element-wise optimizer, copied into kernels by value. All its functions are ZERO_HOST_DEVICE.
/// - O::num_states: floats kept an element, all 0 at first.
/// - learning_rate(t): rate of update number t, from 1.
/// - constants(t): what the formula needs of t alone, computed once an update.
/// - direction(constants, weight, gradient, states, decay): moves the states of one element and
///   returns the direction; the weight becomes weight - learning rate x lr_scale x direction.
///   `decay` is the tensor's multiplier.
/// An element whose gradient and weight are 0 must keep them 0: padding relies on it.
template <class O>
concept Optimizer = std::is_trivially_copyable_v<O> &&
    requires(O const& o, Index t, float x, float* states) {
  { O::num_states } -> std::convertible_to<int>;
  { o.learning_rate(t) } -> std::same_as<float>;
  o.constants(t);
  { o.direction(o.constants(t), x, x, states, x) } -> std::same_as<float>;
};

/// An optimizer's learning rate as a function of the update number, for decide().
template <Optimizer O>
struct LearningRateOf {
  O optimizer;
  ZERO_HOST_DEVICE float operator()(Index t) const { return optimizer.learning_rate(t); }
};

/// One update of one unit's owned slice of n elements.
/// @tparam G type of the gradients; @tparam P type of the parameters; @tparam D device
template <class O, class G, class P, class D>
struct Update {
  O optimizer;
  View<G const, D> gradients;  ///< [n], sums over ranks and micro-batches
  View<float, D> weights;      ///< [n], the float weights
  View<float, D> states;       ///< [num_states, n]
  View<P, D> rounded;  ///< [n], the parameters where they are not the float weights; else empty
  View<Segment const, D>
      segments;  ///< cover the n elements without padding between them that is not zero
  View<Decision const, D> decision;  ///< [1]
};

/// Applies an update in one pass: mean, clip, states, weights and rounding. Touches nothing when
/// the decision skips.
template <class O, class G, class P, RunsHostCode D>
void update(typename D::Stream& stream, Update<O, G, P, D> u) {
  stream.enqueue([u] {
    Decision const decision = *D::resolve(u.decision.address());
    if (decision.skip != 0) return;
    O const optimizer = u.optimizer;
    auto const constants = optimizer.constants(decision.updates);
    G const* const gradients = D::resolve(u.gradients.address());
    float* const weights = D::resolve(u.weights.address());
    float* const states = D::resolve(u.states.address());
    P* const rounded = D::resolve(u.rounded.address());
    Segment const* const segments = D::resolve(u.segments.address());
    Index const n = u.weights.size();
    bool const rounds = u.rounded.size() > 0;
    for (Index k = 0; k < u.segments.size(); ++k) {
      Segment const segment = segments[k];
      float const rate = decision.learning_rate * segment.lr_scale;
      for (Index i = segment.begin; i < segment.end; ++i) {
        float state[std::max(O::num_states, 1)];
        for (int j = 0; j < O::num_states; ++j) state[j] = states[j * n + i];
        float const gradient = decision.factor * static_cast<float>(gradients[i]);
        float const w = weights[i] - rate * optimizer.direction(constants, weights[i], gradient,
                                                                state, segment.decay);
        weights[i] = w;
        for (int j = 0; j < O::num_states; ++j) states[j * n + i] = state[j];
        if (rounds) rounded[i] = static_cast<P>(w);
      }
    }
  });
}

/// A device that can decide and apply the step of an optimizer: what decision.hpp and optimizer.hpp
/// offer to devices that run host code.
template <class D, class O, class P, class G>
concept CanUpdate = Device<D> && Optimizer<O> &&
    requires(typename D::Stream& s, View<double, D> record, View<Decision, D> decision,
             View<Segment, D> segments, Decision* host, LearningRateOf<O> rate, View<G, D> mark) {
  start_record(s, record, std::uint64_t{});
  mark_not_finite(s, View<double const, D>(record), record);
  mark_not_finite(s, View<double const, D>(record), mark);
  mark_not_finite(s, View<G const, D>(mark), record);
  decide(s, View<double const, D>(record), decision, DecisionInputs{}, rate);
  update(s, std::declval<Update<O, G, P, D>>());
  update(s, std::declval<Update<O, float, P, D>>());
  copy_in(s, segments, std::declval<Segment const*>());
  copy_in(s, decision, host);
  copy_out(s, host, View<Decision const, D>(decision));
};

}  // namespace zero
