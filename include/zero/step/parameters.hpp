// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parameters of a sharded model: what this rank keeps, gathered for visits and published after
// updates.

#include <zero/step/gather.hpp>
#include <zero/step/publish.hpp>

namespace zero {

/// One slot a unit: the whole unit where parameters are replicated, else the two slices [trainable
/// | frozen] that this rank owns. Initial values are written straight into it: nothing full is made
/// where parameters are sharded.
/// @tparam X a Context
template <class X>
class Parameters {
 public:
  using Context = X;                        ///< what it is made from
  using D = typename X::Device;             ///< of this rank
  using Parameter = typename X::Parameter;  ///< type on device and wire

  /// Allocates and initialises. @throws OutOfMemory
  explicit Parameters(X& context)
      : context_(context),
        kept_(context.device(), context.plan.parameters),
        gather_(context, kept_),
        publish_(context, kept_) {
    for (int u = 0; u < context.layout.size(); ++u) {
      auto claim = kept_[u].template on<Parameter>(context.compute);
      Index const n = context.shares.parameters(u);
      Index const frozen = context.shares.frozen_begin(u);
      fill_zero(context.compute, claim.view(0, n));
      bool const slices = context.shares.sharded_parameters(u);
      Index const rank = context.rank();
      auto trained = kept_[u].template on<Trained>(context.compute);
      write_initial(context, u, true, slices ? context.layout.slice_begin(u, rank) : 0,
                    trained.view(0, frozen));
      write_initial(context, u, false, slices ? context.layout.frozen_slice_begin(u, rank) : 0,
                    claim.view(frozen, n - frozen));
    }
    context.compute.synchronize();
  }
  /// Waits for the work on it.
  ~Parameters() { context_.settle(); }
  Parameters(Parameters const&) = delete;
  Parameters& operator=(Parameters const&) = delete;

  X& context() const { return context_; }  ///< what it was made from
  /// What this rank keeps of a unit, Shares::parameters(u) elements.
  Slot<D>& kept(int u) { return kept_[u]; }
  Gather<X>& gather() { return gather_; }  ///< the phase
  /// Sends updated slices to the ranks that keep replicas; to be called after
  /// OptimizerState::update.
  void publish() { publish_(); }

 private:
  // How an initial value becomes a parameter: where a master weight is cut in two, as its half.
  using Trained = std::conditional_t<X::splits_master, UpperHalf, Parameter>;

  X& context_;
  SlotArray<D> kept_;
  Gather<X> gather_;
  Publish<X> publish_;
};

/// Writes the initial values of elements [begin, begin + to.size()) of a unit's trainable, or
/// frozen, part on the compute stream; leaves padding alone.
template <class T, class X>
void write_initial(X& context, int u, bool trainable, Index begin, View<T, typename X::Device> to) {
  context.layout.pieces(u, trainable, begin, to.size(), [&](PlacedTensor const& t, Piece const& p) {
    Initial const& initial = context.units[at(u)].tensors[at(p.tensor_index)].initial;
    initialise(context.compute, to.sub(p.begin, p.elements), initial, context.options.seed,
               t.number, p.first);
  });
}

template <class X>
Parameters(X&) -> Parameters<X>;  ///< of a context

}  // namespace zero
