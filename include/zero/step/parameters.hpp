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
        kept_(context.device(), context.plan.parameters,
              gathered_memory(context.communicator.channel(1))),
        gather_(context, kept_),
        publish_(context, kept_) {
    for (int u = 0; u < context.layout.size(); ++u) {
      bool const slices = context.shares.sharded_parameters(u);
      Index const rank = context.rank();
      Index const trainable = context.shares.frozen_begin(u);
      Index const frozen = slices ? context.layout.frozen_slice(u) : context.layout[u].frozen;
      Index const begins[] = {slices ? context.layout.slice_begin(u, rank) : 0,
                              slices ? context.layout.frozen_slice_begin(u, rank) : 0};
      if constexpr (X::Sharding::parameter_tier != Tier::device) {
        if (context.shares.stores_parameters(u)) {
          for (int part : {0, 1}) {
            auto& slot = context.tiers.open_parameters(u, part, false, BlockUse::any);
            write(context.tiers.host, slot, u, part == 0, begins[part], 0,
                  part == 0 ? trainable : frozen);
            context.tiers.close_parameters(u, part, true, BlockUse::any);
          }
          continue;
        }
      }
      write(context.compute, kept_[u], u, true, begins[0], 0, trainable);
      write(context.compute, kept_[u], u, false, begins[1], trainable, frozen);
    }
    context.synchronize();
  }
  /// Waits for the work on it.
  ~Parameters() { context_.settle(); }
  Parameters(Parameters const&) = delete;
  Parameters& operator=(Parameters const&) = delete;

  X& context() const { return context_; }   ///< what it was made from
  Index number() const { return number_; }  ///< Context::new_number()
  /// What this rank keeps of a unit, Shares::parameters(u) elements.
  Slot<D>& kept(int u) { return kept_[u]; }
  Gather<X>& gather() { return gather_; }  ///< the phase
  /// Where a unit's owned elements are updated on the device: what is kept, or a slot to which
  /// move() brings them from below the device, and from which it takes them.
  Slot<D>& updating(int u) {
    return context_.shares.stores_parameters(u) ? gather_.staging(u) : kept_[u];
  }
  /// As updating says. @param u the unit @param up brought, else taken
  void move(int u, [[maybe_unused]] bool up) {
    if constexpr (X::Sharding::parameter_tier != Tier::device) {
      if (!context_.shares.stores_parameters(u) || context_.shares.owned_on_device(u) == 0) return;
      up ? context_.tiers.bring(u, 0, updating(u), 0) : context_.tiers.take_back(u, updating(u));
    }
  }
  /// Sends updated slices to the ranks that keep replicas; to be called after
  /// OptimizerState::update.
  void publish() { publish_(); }

 private:
  /// Initial values of one part's elements from `begin`, to elements [place, place + n) of a slot.
  template <class AnySlot>
  void write(typename D::Stream& stream, AnySlot& slot, int u, bool trainable, Index begin,
             Index place, Index n) {
    auto claim = slot.template on<Parameter>(stream);
    fill_zero(stream, claim.view(place, n));
    if (trainable) {
      auto trained = slot.template on<Trained>(stream);
      write_initial(context_, stream, u, true, begin, trained.view(place, n));
    } else {
      write_initial(context_, stream, u, false, begin, claim.view(place, n));
    }
  }

  // How an initial value becomes a parameter: where a master weight is cut in two, as its half.
  using Trained = std::conditional_t<X::splits_master, UpperHalf, Parameter>;

  X& context_;
  Index const number_ = context_.new_number();
  SlotArray<D> kept_;
  Gather<X> gather_;
  Publish<X> publish_;
};

/// Writes the initial values of elements [begin, begin + to.size()) of a unit's trainable, or
/// frozen, part on the stream; leaves padding alone.
template <class T, class X, Device D>
void write_initial(X& context, typename D::Stream& stream, int u, bool trainable, Index begin,
                   View<T, D> to) {
  context.layout.pieces(u, trainable, begin, to.size(), [&](PlacedTensor const& t, Piece const& p) {
    Initial const& initial = context.units[at(u)].tensors[at(p.tensor_index)].initial;
    initialise(stream, to.sub(p.begin, p.elements), initial, context.options.seed, t.number,
               p.first);
  });
}

template <class X>
Parameters(X&) -> Parameters<X>;  ///< of a context

}  // namespace zero
