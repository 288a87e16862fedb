// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimizer's state of a sharded model: float master weights where parameters are shorter, the
// optimizer's own numbers, and the update of what this rank owns.

#include <zero/step/clip.hpp>
#include <zero/step/parameters.hpp>
#include <zero/step/update.hpp>

namespace zero {

/// @tparam X a Context
/// @tparam O the optimizer
template <class X, Optimizer O>
class OptimizerState {
 public:
  using Context = X;
  using D = typename X::Device;
  static_assert(CanUpdate<D, O, typename X::Parameter, typename X::Gradient>,
                "zero: the communicator's device lacks start_record, mark_not_finite, decide or "
                "update for this optimizer; see zero/optim/optimizer.hpp");

  /// Allocates and initialises: master weights as the tensors' initial values in float, states 0.
  /// @throws OutOfMemory
  OptimizerState(X& context, O const& optimizer)
      : context_(context),
        optimizer_(optimizer),
        slots_(context.device(), context.plan.optimizer_state),
        clip_(context) {
    if (context.shares.facts().num_states != O::num_states) {
      throw InvalidArgument("OptimizerState: the context was made for an optimizer of " +
                            std::to_string(context.shares.facts().num_states) +
                            " states an element, not " + std::to_string(O::num_states));
    }
    for (int u = 0; u < context.layout.size(); ++u) {
      Index const begin = context.shares.owned_begin(u, context.rank());
      Index const n = context.shares.owned(u);
      if constexpr (X::has_master) {
        auto master = master_slot(u).template on<float>(context.compute);
        fill_zero(context.compute, master.view(0, n));
        write_initial(context, u, true, begin, master.view(0, n));
      }
      auto states = state_slot(u).template on<float>(context.compute);
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

  X& context() const { return context_; }
  O const& optimizer() const { return optimizer_; }

  /// Makes the decision of this step from the gradients that `micro_batches` micro-batches left.
  /// Does not wait.
  void decide(Gradients<X>& gradients, Index micro_batches) {
    clip_(gradients, micro_batches, LearningRateOf<O>{optimizer_});
  }

  /// Applies the decision to every element owned here. Does not wait. Parameters are to be
  /// published afterwards.
  void update(Parameters<X>& parameters, Gradients<X>& gradients) {
    PhaseTimer const timer(context_.seconds.update);
    for (int u = 0; u < context_.layout.size(); ++u) update_unit(*this, parameters, gradients, u);
  }

  /// The master weights of a unit's owned elements, Shares::owned(u); empty where parameters are
  /// their own master.
  Slot<D>& master_slot(int u) { return slots_[2 * u]; }
  /// The optimizer's numbers, [num_states, Shares::owned(u)].
  Slot<D>& state_slot(int u) { return slots_[2 * u + 1]; }
  Index num_segments(int u) const { return num_segments_[at(u)]; }

 private:
  X& context_;
  O optimizer_;
  SlotArray<D> slots_;
  Clip<X> clip_;
  std::vector<Index> num_segments_;
};

template <class X, Optimizer O>
OptimizerState(X&, O) -> OptimizerState<X, O>;

}  // namespace zero
