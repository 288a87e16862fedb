// SPDX-License-Identifier: Apache-2.0
#pragma once
// Phase 4, update: the optimizer over the elements that this rank owns, in one pass a unit: mean
// and clip, states, weights, rounding to the parameters. The decision is read on the device; a skip
// touches nothing. An optimizer with trust ratios is measured before, in a pass of its own.

#include <zero/optim/trust_ratio.hpp>
#include <zero/step/parameters.hpp>

namespace zero {

template <class X>
class Gradients;

/// Calls f(Update) for the elements of a unit that are owned here, with everything claimed on the
/// compute stream; not where there are none. @param state an OptimizerState
/// @param parameters, gradients of the same context
/// @param u the unit
/// @param f called at most once
template <class State, class X, class F>
void with_update(State& state, Parameters<X>& parameters, Gradients<X>& gradients, int u, F f) {
  X& context = state.context();
  using D = typename X::Device;
  using P = typename X::Stored;
  using O = std::remove_cvref_t<decltype(state.optimizer())>;
  Index const n = context.shares.owned_on_device(u);
  if (n == 0) return;
  auto& stream = context.compute;
  auto decision = context.decision().template on<Decision>(stream);
  auto segments = context.segments(u).template on<Segment>(stream);
  auto states = state.state_slot(u).template on<typename X::State>(stream);
  auto kept = parameters.updating(u).template on<typename X::Parameter>(stream);
  auto master = state.master_slot(u).template on<typename StorageOf<P>::Master>(stream);
  auto const owned = kept.view(context.shares.owned_in_parameters(u, context.rank()), n);
  Claim<double, D> norms;
  NormsOf<O, D> norms_view{};
  if constexpr (HasTrustRatio<O>) {
    norms = context.norms().template on<double>(stream);
    Index const tensors = context.layout.trained_tensors();
    norms_view = {norms.view(0, context.world() * tensors * 2), context.world(), tensors};
  }
  gradients.with_sums(u, context.shares.owned_begin(u, context.rank()), n, [&](auto sums) {
    using G = std::remove_const_t<typename decltype(sums)::Element>;
    Update<O, G, P, D> update{state.optimizer(),
                              sums,
                              {},
                              states.view(0, n * O::num_states),
                              {},
                              segments.view(0, state.num_segments(u)),
                              decision.view(0, 1),
                              context.options.seed,
                              norms_view};
    if constexpr (X::has_master) {
      update.weights = master.view(0, n);
      update.rounded = owned;
    } else {
      update.weights = owned;
    }
    f(update);
  });
}

/// Communication: none. Ordering: on the compute stream, after the decision and the measures.
template <class State, class X>
void update_unit(State& state, Parameters<X>& parameters, Gradients<X>& gradients, int u) {
  [[maybe_unused]] typename X::Range const range("update", parameters.context().layout[u].name);
  parameters.move(u, true);
  with_update(state, parameters, gradients, u,
              [&](auto const& of_unit) { update(state.context().compute, of_unit); });
  parameters.move(u, false);
}

/// Measures what an optimizer with trust ratios needs of every trained tensor.
/// Communication: where the optimizer is sharded, one all_gather of 2 doubles a trained tensor and
/// rank; else nothing: every rank measures all slices, in the same order of sums. Ordering: on the
/// compute stream, after the decision; skipped steps send zeros.
/// @tparam X a Context
template <class X>
class Measure {
 public:
  /// `context` outlives this.
  explicit Measure(X& context)
      : context_(context), communicator_(context.communicator.channel(0)) {}

  /// Measures all trained tensors; enqueues.
  template <class State>
  void operator()(State& state, Parameters<X>& parameters, Gradients<X>& gradients) {
    constexpr bool sharded = X::Sharding::shards_optimizer;
    constexpr bool below = X::Sharding::optimizer_tier != Tier::device;
    auto& stream = context_.compute;
    Layout const& layout = context_.layout;
    Index const world = context_.world();
    Index const row = layout.trained_tensors() * 2;
    Index const first = sharded ? context_.rank() : 0;
    if (row == 0) return;
    [[maybe_unused]] typename X::Range const range("update", "tensor norms");
    auto sums = context_.norms().template on<double>(stream);
    fill_zero(stream, sums.view(0, world * row));
    if constexpr (below) {  // whole units: entries of the others are this loop's
      state.offloaded().measure();
      context_.tiers.bring_up_norms(stream, sums.view(first * row, row), first);
    }
    for (int u = 0; u < layout.size(); ++u) {
      NormSlices const slices{first, sharded ? 1 : world, layout.slice(u),
                              layout.trained_tensors()};
      parameters.move(u, true);
      with_update(state, parameters, gradients, u, [&](auto const& update) {
        measure_norms(stream, update, sums.view(0, world * row), slices);
      });
    }
    if constexpr (sharded) {
      if (!context_.shares.alone())
        communicator_.all_gather(sums.source(first * row, row), sums.target(0, world * row),
                                 Where{"update", "tensor norms", context_.step});
    }
    if constexpr (below) context_.tiers.take_norms(stream, sums.view(0, world * row));
  }

 private:
  X& context_;
  typename X::Communicator communicator_;
};

}  // namespace zero
