// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimizer's state of a sharded model: float master weights where parameters are shorter, the
// optimizer's own numbers, and the update of what this rank owns.

#include <zero/step/clip.hpp>
#include <zero/step/parameters.hpp>
#include <zero/step/update.hpp>
#include <zero/tier/offloaded_state.hpp>

#include <algorithm>

namespace zero {

/// @tparam X a Context
/// @tparam O the optimizer
template <class X, Optimizer O>
class OptimizerState {
 public:
  using Context = X;             ///< what it is made from
  using D = typename X::Device;  ///< of this rank
  /// The state, or a part of it, lies below the device.
  static constexpr bool offloads = X::Sharding::optimizer_tier != Tier::device;
  /// What keeps a weight beside its parameter.
  using Master = typename StorageOf<typename X::Stored>::Master;
  static_assert(CanUpdate<D, O, typename X::Stored, typename X::Gradient>,
                "zero: the communicator's device lacks start_record, mark_not_finite, decide or "
                "update for this optimizer, or measure_norms for its trust ratios; see "
                "zero/optim/optimizer.hpp");

  /// Allocates and initialises: master weights as the tensors' initial values in float, states 0.
  /// @throws OutOfMemory; InvalidArgument as the optimizer's validate(), where it has one
  OptimizerState(X& context, O const& optimizer)
      : context_(context),
        optimizer_(checked(optimizer)),
        slots_(context.device(), context.plan.optimizer_state),
        offloaded_(context, optimizer_),
        clip_(context),
        measure_(context),
        updates_(context.options.replay) {
    if (context.shares.facts().has_trust_ratio != HasTrustRatio<O>) {
      throw InvalidArgument(std::string("OptimizerState: the context was made for an optimizer ") +
                            (HasTrustRatio<O> ? "without trust ratios, and this one has some"
                                              : "with trust ratios, and this one has none"));
    }
    if (context.shares.facts().num_states != O::num_states) {
      throw InvalidArgument("OptimizerState: the context was made for an optimizer of " +
                            std::to_string(context.shares.facts().num_states) +
                            " states an element, not " + std::to_string(O::num_states));
    }
    for (int u = 0; u < context.layout.size(); ++u) {
      Index const begin = context.shares.owned_begin(u, context.rank());
      Index const n = context.shares.owned_on_device(u);
      if constexpr (X::has_master) {
        auto master = master_slot(u).template on<Master>(context.compute);
        fill_zero(context.compute, master.view(0, n));
        write_initial(context, context.compute, u, true, begin, master.view(0, n));
      }
      auto states = state_slot(u).template on<typename X::State>(context.compute);
      fill_zero(context.compute, states.view(0, n * O::num_states));
      std::vector<Segment> const table = context.layout.segments(u, begin, n);
      num_segments_.push_back(static_cast<Index>(table.size()));
      auto segments = context.segments(u).template on<Segment>(context.compute);
      if (!table.empty())
        copy_in(context.compute, segments.view(0, num_segments_.back()), table.data());
      context.compute.synchronize();
    }
  }
  /// Waits for the work on it.
  ~OptimizerState() { context_.settle(); }
  OptimizerState(OptimizerState const&) = delete;
  OptimizerState& operator=(OptimizerState const&) = delete;

  X& context() const { return context_; }            ///< what it was made from
  O const& optimizer() const { return optimizer_; }  ///< as given

  /// Makes the decision of this step from the gradients that `micro_batches` micro-batches left.
  /// Does not wait.
  /// @throws InvalidArgument when other than `micro_batches` training passes of it have ended
  void decide(Gradients<X>& gradients, Index micro_batches) {
    if (micro_batches != context_.passes || context_.passes_ended != context_.passes) {
      throw InvalidArgument("decide: " + std::to_string(micro_batches) +
                            " micro-batches; of step " + std::to_string(context_.step) + " " +
                            std::to_string(context_.passes_ended) + " of " +
                            std::to_string(context_.passes) + " passes have ended");
    }
    clip_(gradients, micro_batches, LearningRateOf<O>{optimizer_});
  }

  /// Applies the decision to every element owned here. Does not wait. Parameters are to be
  /// published afterwards.
  void update(Parameters<X>& parameters, Gradients<X>& gradients) {
    PhaseTimer const timer(context_.seconds.update);
    if constexpr (HasTrustRatio<O>) measure_(*this, parameters, gradients);
    updates_(context_.compute, {parameters.number(), gradients.number()}, [&] {
      auto const one = [&](int u) { update_unit(*this, parameters, gradients, u); };
      if constexpr (X::Policy::Checking::checks) {
        for (int u = 0; u < context_.layout.size(); ++u) one(u);
      } else {  // as they are reduced: each waits for its own reduction alone
        for (Flush const& f : context_.timeline.flushes()) std::ranges::for_each(f.units, one);
      }
    });
    if constexpr (offloads) offloaded_.update(parameters);
  }
  /// What of it lies below the device, an OffloadedState.
  auto& offloaded() { return offloaded_; }

  /// The master weights of a unit's Shares::owned_on_device(u) elements, or their lower halves;
  /// empty where parameters are their own master.
  Slot<D>& master_slot(int u) { return slots_[2 * u]; }
  /// The optimizer's numbers, [num_states, Shares::owned_on_device(u)].
  Slot<D>& state_slot(int u) { return slots_[2 * u + 1]; }
  Index num_segments(int u) const { return num_segments_[at(u)]; }  ///< of the owned slice

 private:
  static O checked(O const& optimizer) {
    if constexpr (requires { optimizer.validate(); }) optimizer.validate();
    return optimizer;
  }

  struct Nothing {
    explicit Nothing(X&) {}
  };

  X& context_;
  O optimizer_;
  SlotArray<D> slots_;
  [[no_unique_address]] std::conditional_t<offloads, OffloadedState<X, O>, NoOffloadedState>
      offloaded_;
  Clip<X> clip_;
  [[no_unique_address]] std::conditional_t<HasTrustRatio<O>, Measure<X>, Nothing> measure_;
  std::vector<Index> num_segments_;
  Repeated<typename X::Device> updates_;  // of all units
};

template <class X, Optimizer O>
OptimizerState(X&, O) -> OptimizerState<X, O>;  ///< of a context

}  // namespace zero
