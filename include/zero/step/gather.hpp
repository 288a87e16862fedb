// SPDX-License-Identifier: Apache-2.0
#pragma once
// Phase 1, gather: full parameters for a visit. Where parameters are replicated this is a view.
// Where they are sharded, slices are gathered up to `prefetch` visits ahead on a stream and channel
// of their own, into coloured slots.

#include <zero/step/context.hpp>

namespace zero {

/// Gives visits the slot that holds their unit's full parameters.
/// Communication: for each residency whose first visit comes near, one all_gather of the trainable
/// and one of the frozen part; grouped as Timeline::gather_group says.
/// @tparam X a Context
template <class X>
class Gather {
 public:
  using C = typename X::Communicator;       ///< of the ranks
  using D = typename X::Device;             ///< of this rank
  using Parameter = typename X::Parameter;  ///< on the wire

  /// @param context,kept outlive this; kept: one slot a unit, the parameters this rank keeps
  Gather(X& context, SlotArray<D>& kept)
      : context_(context),
        kept_(kept),
        communicator_(context.communicator.channel(1)),
        slots_(context.device(), context.plan.gather_slots, gathered_memory(communicator_)),
        now_(context.timeline.gathers().size()),
        user_(context.timeline.gather_slots().size(), -1) {
    held_.reserve(2 * now_.size() + 2);
  }

  /// A pass begins that makes at most the first `visits` visits of the schedule.
  void begin(int visits) {
    for (Now& n : now_) {
      if (n.extra) context_.extra_parameters.give(*n.slot);
      n = {};
    }
    std::fill(user_.begin(), user_.end(), -1);
    held_.clear();
    ranges_.end();
    next_ = 0;
    visits_ = visits;
  }

  /// Visit `visit` opens: issues every gather that is due. Called with the same numbers on every
  /// rank, whatever its model does, so that collectives pair up.
  void ahead(int visit) {
    if constexpr (X::Sharding::shards_parameters) {
      for (int end; (end = context_.timeline.gather_group(visit, next_, visits_)) > next_;) {
        PhaseTimer const timer(context_.seconds.gather);
        Group<C> group(communicator_);
        while (next_ < end) fetch(next_++);
        launch(group);
      }
    }
  }

  /// Slots in which slices that lie below the device are updated on it. @param i any number
  Slot<D>& staging(Index i) { return slots_[slots_.size() - 1 - i % 2]; }

  /// The slot with the unit's parameters for this visit of the schedule; -1: a visit outside it.
  Slot<D>& open(int visit, int u) {
    if constexpr (X::Sharding::shards_parameters) {
      if (context_.shares.gathers(u)) {
        if (visit < 0) return on_demand(u);
        Now& n = now_[at(context_.timeline.gather_of(visit))];
        ++n.leases;
        return *n.slot;
      }
    }
    return kept_[u];
  }

  /// The visit's lease on that slot has ended.
  void close(int visit, int u, Slot<D>& slot) noexcept {
    if (!X::Sharding::shards_parameters || !context_.shares.gathers(u)) return;
    if (visit < 0) {
      context_.extra_parameters.give(slot);
      return;
    }
    int const r = context_.timeline.gather_of(visit);
    Now& n = now_[at(r)];
    if (--n.leases > 0 || !n.extra || visit < context_.timeline.gathers()[at(r)].last) return;
    context_.extra_parameters.give(slot);
    n.extra = false;
  }

 private:
  struct Now {
    Slot<D>* slot = nullptr;
    int leases = 0;
    bool extra = false;
  };

  void fetch(int r) {
    Residency const& residency = context_.timeline.gathers()[at(r)];
    Now& n = now_[at(r)];
    int& user = user_[at(residency.slot)];
    // A model that keeps a lease longer than its schedule said still has the planned slot.
    n.extra = user >= 0 && now_[at(user)].leases > 0;
    if (!n.extra) user = r;
    if constexpr (BringsGatheredMemory<C>) {
      // Other ranks may still gather into the memory that the communicator brings.
      if (n.extra && communicator_.gathers_own_memory())
        throw Error("visit " + std::to_string(residency.first) + " of unit '" +
                    context_.layout[residency.unit].name +
                    "': a lease is kept longer than the schedule says, in the place that it is "
                    "gathered to; expected none where copy engines gather");
    }
    Index const bytes = context_.layout.elements(residency.unit) * Index{sizeof(Parameter)};
    n.slot = n.extra ? &context_.extra_parameters.take(bytes) : &slots_[residency.slot];
    auto const& all = context_.timeline.gathers();
    into(residency.unit, *n.slot, at(r) + 1 < all.size() ? all[at(r) + 1].unit : -1);
  }

  Slot<D>& on_demand(int u) {
    PhaseTimer const timer(context_.seconds.gather);
    Slot<D>& slot =
        context_.extra_parameters.take(context_.layout.elements(u) * Index{sizeof(Parameter)});
    Group<C> group(communicator_);
    into(u, slot, -1);
    launch(group);
    return slot;
  }

  /// The claims of a group end after its launch: only then is the work that they stand for
  /// enqueued.
  void launch(Group<C>& group) {
    group.end();
    held_.clear();
    ranges_.end();
  }

  /// @param next the unit after this one, or -1
  void into(int u, Slot<D>& slot, [[maybe_unused]] int next) {
    if constexpr (X::Sharding::shards_parameters) {
      Layout const& layout = context_.layout;
      Index const trainable = layout[u].trainable;
      ranges_.begin("gather", layout[u].name);
      // Slices from below the device are brought to their places in the slot.
      constexpr bool below = X::Sharding::parameter_tier != Tier::device;
      if constexpr (below) context_.tiers.fetch(u, slot, next);
      if (context_.shares.alone()) return;
      Slot<D>& from = below ? slot : kept_[u];
      Index const rank = context_.rank();
      Index const first = below ? layout.slice_begin(u, rank) : 0;
      Index const frozen =
          below ? trainable + layout.frozen_slice_begin(u, rank) : context_.shares.frozen_begin(u);
      auto& slices = held_.emplace_back(from.template on<Parameter>(context_.gathering));
      auto& full = held_.emplace_back(slot.template on<Parameter>(context_.gathering));
      Where const where = context_.where(1, "gather", u);
      if (trainable > 0)
        communicator_.all_gather(slices.source(first, layout.slice(u)), full.target(0, trainable),
                                 where);
      if (layout[u].frozen > 0) {
        communicator_.all_gather(slices.source(frozen, layout.frozen_slice(u)),
                                 full.target(trainable, layout[u].frozen), where);
      }
    }
  }

  X& context_;
  SlotArray<D>& kept_;
  C communicator_;
  SlotArray<D> slots_;
  std::vector<Now> now_;
  std::vector<int> user_;
  std::vector<Claim<Parameter, D>> held_;
  [[no_unique_address]] OpenRanges<D> ranges_;
  int next_ = 0;
  int visits_ = 0;
};

}  // namespace zero
