// SPDX-License-Identifier: Apache-2.0
#pragma once
// Phase 4, update: the optimizer over the elements that this rank owns, in one pass a unit: mean
// and clip, states, weights, rounding to the parameters. The decision is read on the device; a skip
// touches nothing.

#include <zero/step/parameters.hpp>

namespace zero {

template <class X>
class Gradients;

/// Updates unit u's owned elements of `parameters` with `state`, an OptimizerState.
/// Communication: none. Ordering: on the compute stream, after the decision.
template <class State, class X>
void update_unit(State& state, Parameters<X>& parameters, Gradients<X>& gradients, int u) {
  X& context = state.context();
  using D = typename X::Device;
  using P = typename X::Parameter;
  Index const n = context.shares.owned(u);
  if (n == 0) return;
  auto& stream = context.compute;
  auto decision = context.decision().template on<Decision>(stream);
  auto segments = context.segments(u).template on<Segment>(stream);
  auto states = state.state_slot(u).template on<float>(stream);
  auto kept = parameters.kept(u).template on<P>(stream);
  auto const owned = kept.view(context.shares.owned_in_parameters(u, context.rank()), n);
  gradients.with_sums(u, context.shares.owned_begin(u, context.rank()), n, [&](auto sums) {
    using G = std::remove_const_t<typename decltype(sums)::Element>;
    using O = std::remove_cvref_t<decltype(state.optimizer())>;
    auto const segment_view = View<Segment const, D>(segments.view(0, state.num_segments(u)));
    auto const decision_view = View<Decision const, D>(decision.view(0, 1));
    auto const state_view = states.view(0, n * O::num_states);
    if constexpr (X::has_master) {
      auto master = state.master_slot(u).template on<float>(stream);
      update(stream, Update<O, G, P, D>{state.optimizer(), sums, master.view(0, n), state_view,
                                        owned, segment_view, decision_view});
    } else {
      update(stream,
             Update<O, G, P, D>{
                 state.optimizer(), sums, owned, state_view, {}, segment_view, decision_view});
    }
  });
}

}  // namespace zero
