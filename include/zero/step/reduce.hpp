// SPDX-License-Identifier: Apache-2.0
#pragma once
// Phase 2, reduce: a unit's gradients, complete after its last backward visit, become sums over
// ranks in what this rank keeps. One mechanism for every stage: where a visit's gradients lie, what
// is sent and what is kept are facts. Sums of micro-batches are float and are rounded once to the
// gradient type, for the wire; without a wire, never.

#include <zero/step/context.hpp>

namespace zero {

/// Collects the gradients of one micro-batch and reduces them in schedule order.
/// Communication: a reduction a unit with trainable elements, at each micro-batch or with the last
/// one: all_reduce where the optimizer is replicated, else reduce_scatter. Ordering: on the
/// reducing stream, after the visits.
/// @tparam X a Context
template <class X>
class Reduce {
 public:
  using C = typename X::Communicator;  ///< of the ranks
  using D = typename X::Device;        ///< of this rank
  using S = typename X::Sharding;      ///< who keeps what
  using G = typename X::Gradient;      ///< on the wire

  /// @param context outlives this
  /// @param kept,accumulators one slot a unit: reduced gradients, or the float sums that hold them;
  ///   outlive this
  Reduce(X& context, SlotArray<D>& kept, SlotArray<D>& accumulators)
      : context_(context),
        kept_(kept),
        accumulators_(accumulators),
        communicator_(context.communicator.channel(2)),
        slots_(context.device(), context.plan.gradient_slots),
        busy_(context.timeline.gradient_slots().size(), 0),
        units_(at(context.layout.size())) {
    held_.reserve(2 * units_.size());
    late_.reserve(units_.size());
  }

  /// A micro-batch begins. @param first, last whether it is the first, the last, of its step
  void begin(bool first, bool last) {
    for (Unit& s : units_) {
      if (s.extra) context_.extra_gradients.give(*s.slot);
      if (s.ready_extra) context_.extra_gradients.give(*s.ready);
      s = {};
    }
    for (Late const& l : late_) context_.extra_gradients.give(*l.slot);
    std::fill(busy_.begin(), busy_.end(), char{0});
    held_.clear();
    late_.clear();
    ranges_.end();
    next_ = 0;
    first_ = first;
    last_ = last;
  }

  /// The slot that a backward visit of the unit adds to; zeroed at the first one, unless the model
  /// overwrites: then only what no tensor covers is.
  Slot<D>& open(int u, bool overwrite) {
    hold(u);
    return slot(u, overwrite);
  }
  /// The same in two steps, for a lease that adds when it ends.
  void hold(int u) { ++units_[at(u)].leases; }
  /// The slot of a unit that is held, as open() gives it.
  Slot<D>& slot(int u, bool overwrite) {
    Unit& s = units_[at(u)];
    if (s.slot == nullptr) {
      take(u, s);
      clear(u, *s.slot, overwrite);
    }
    return *s.slot;
  }
  /// Whether a visit's gradients would be the first ones in their slot.
  bool first_visit(int u) const { return units_[at(u)].slot == nullptr; }

  /// A lease on unit u's slot has ended: that of a visit of the schedule, or, -1, outside it.
  void close(int u, int visit) {
    Unit& s = units_[at(u)];
    --s.leases;
    s.complete = s.complete || visit == context_.timeline.last_backward(u);
    if (!s.complete || s.leases > 0) return;
    if (!s.handed_over) {
      hand_over(s);
      return;
    }
    ++context_.deviations.late_gradients;
    late_.push_back({u, std::exchange(s.slot, nullptr)});
    s.extra = false;
  }
  /// A visit of the schedule is performed empty.
  void skip(int u, int visit) {
    if (visit != context_.timeline.last_backward(u) || context_.layout[u].trainable == 0) return;
    slot(u, false);
    Unit& s = units_[at(u)];
    s.complete = true;
    if (s.leases == 0) hand_over(s);
  }

  /// Issues, in order, the reductions that are due once visit `opened` has opened and whose
  /// gradients are complete.
  void flush(int opened) {
    auto const& flushes = context_.timeline.flushes();
    while (next_ < static_cast<int>(flushes.size()) && flushes[at(next_)].due <= opened) {
      Flush const& f = flushes[at(next_)];
      for (int u : f.units) {
        if (units_[at(u)].ready == nullptr) return;
      }
      reduce_group(f);
      ++next_;
    }
    if (next_ == static_cast<int>(flushes.size())) reduce_late();
  }

 private:
  struct Unit {
    Slot<D>* slot = nullptr;   // where visits add
    Slot<D>* ready = nullptr;  // complete, to be reduced
    int leases = 0;
    bool complete = false;     // the last backward visit of the schedule is over
    bool handed_over = false;  // ... and no lease was left: what comes now is late
    bool extra = false;        // `slot` is beyond the plan
    bool ready_extra = false;
  };
  struct Late {
    int u;
    Slot<D>* slot;
  };

  void take(int u, Unit& s) {
    int const planned = context_.timeline.gradient_slot(u);
    if (!s.handed_over && !context_.shares.gradient_slots(u)) {
      s.slot = &kept_[u];
    } else if (!s.handed_over && busy_[at(planned)] == 0) {
      busy_[at(planned)] = 1;
      s.slot = &slots_[planned];
    } else {
      s.slot = &context_.extra_gradients.take(context_.layout[u].trainable * Index{sizeof(G)});
      s.extra = true;
    }
  }
  void hand_over(Unit& s) {
    s.ready = std::exchange(s.slot, nullptr);
    s.ready_extra = std::exchange(s.extra, false);
    s.handed_over = true;
  }
  void clear(int u, Slot<D>& slot, bool overwrite) {
    auto claim = slot.template on<G>(context_.compute);
    if (!overwrite) {
      fill_zero(context_.compute, claim.view(0, context_.layout[u].trainable));
      return;
    }
    Index covered = 0;
    auto const clear_until = [&](Index end) {
      if (end > covered) fill_zero(context_.compute, claim.view(covered, end - covered));
    };
    context_.layout.pieces(u, true, 0, context_.layout[u].trainable,
                           [&](PlacedTensor const&, Piece const& p) {
                             clear_until(p.begin);
                             covered = p.begin + p.elements;
                           });
    clear_until(context_.layout[u].trainable);
  }

  bool sends() const { return !context_.shares.alone() && (last_ || !context_.shares.boundary()); }
  /// What a reduction leaves to this rank, counted in the unit's trainable part.
  Index own_begin(int u) const { return context_.shares.owned_begin(u, context_.rank()); }
  Index own(int u) const { return context_.shares.owned(u); }

  void reduce_group(Flush const& f) {
    PhaseTimer const timer(context_.seconds.reduce);
    for (int u : f.units) {
      ranges_.begin("reduce", context_.layout[u].name);
      held_.push_back(units_[at(u)].ready->template on<G>(context_.reducing));
      before(u, held_.back(), first_);
    }
    if (sends()) {
      std::size_t const targets = held_.size();
      Group<C> group(communicator_);
      for (std::size_t i = 0; i < f.units.size(); ++i)
        send(f.units[i], held_[i], stays(f.units[i]));
      group.end();
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(targets), held_.end());
    }
    for (std::size_t i = 0; i < f.units.size(); ++i) after(f.units[i], held_[i], first_, false);
    held_.clear();
    for (int u : f.units) {
      Unit& s = units_[at(u)];
      bring_down(u, *s.ready, !first_ && !context_.shares.boundary());
      if (s.ready_extra) {
        context_.extra_gradients.give(*s.ready);
      } else if (context_.shares.gradient_slots(u)) {
        busy_[at(context_.timeline.gradient_slot(u))] = 0;
      }
      s.ready = nullptr;
      s.ready_extra = false;
    }
    ranges_.end();
  }

  /// Gradients of visits that came after their unit was complete: reduced alone, in order, and
  /// added.
  void reduce_late() {
    for (Late const& l : late_) {
      PhaseTimer const timer(context_.seconds.reduce);
      [[maybe_unused]] typename X::Range const range("reduce", context_.layout[l.u].name);
      held_.push_back(l.slot->template on<G>(context_.reducing));
      bool const joins = context_.shares.accumulates() && context_.shares.boundary() && !sends();
      if (joins) before(l.u, held_.back(), false);
      if (sends()) {
        Group<C> group(communicator_);
        send(l.u, held_.front(), true);
        group.end();
      }
      if (!joins) after(l.u, held_.front(), false, true);
      held_.clear();
      bring_down(l.u, *l.slot, true);
      context_.extra_gradients.give(*l.slot);
    }
    late_.clear();
  }

  /// The sums of a unit stay in its slot, or go from there below the device.
  bool stays(int u) const {
    return !context_.shares.gradient_slots(u) || context_.shares.offloads(u);
  }
  /// Where the optimizer's state of a unit lies below the device, its reduced gradients go there.
  void bring_down(int u, Slot<D>& slot, bool adds) {
    if constexpr (S::optimizer_tier != Tier::device) {
      if (context_.shares.offloads(u) && (last_ || !context_.shares.boundary()))
        context_.tiers.receive(u, context_.mark(u), slot, own_begin(u), adds, last_);
    }
  }

  /// Boundary: this rank's micro-batches are added in float; the last one's sum is rounded for the
  /// wire.
  void before(int u, Claim<G, D>& gradients, bool overwrite) {
    if (!context_.shares.accumulates() || !context_.shares.boundary()) return;
    Index const n = context_.layout[u].trainable;
    auto sum = accumulators_[u].template on<float>(context_.reducing);
    combine(sum.view(0, n), gradients.view(0, n), overwrite);
    if (sends())
      assign(context_.reducing, gradients.view(0, n), View<float const, D>(sum.view(0, n)));
  }

  /// In place the sums stay in the slot; else they go into what is kept.
  void send(int u, Claim<G, D>& gradients, bool in_place) {
    Index const n = context_.layout[u].trainable;
    Where const where = context_.where(2, "reduce", u);
    if constexpr (S::shards_optimizer) {
      if (in_place || context_.shares.accumulates()) {
        communicator_.reduce_scatter(gradients.source(0, n), gradients.target(own_begin(u), own(u)),
                                     where);
      } else {
        auto& kept = held_.emplace_back(kept_[u].template on<G>(context_.reducing));
        communicator_.reduce_scatter(gradients.source(0, n), kept.target(0, own(u)), where);
      }
    } else {
      communicator_.all_reduce(gradients.target(0, n), where);
    }
  }

  /// Brings the sums that a slot holds into what is kept, where they are not there already.
  void after(int u, Claim<G, D>& gradients, bool overwrite, bool late) {
    if (context_.shares.offloads(u)) return;
    Index const n = own(u);
    auto const sums = gradients.view(own_begin(u), n);
    Index const begin = context_.shares.owned_in_gradients(u, context_.rank());
    if (!context_.shares.accumulates()) {
      if (!late) return;  // the slot is what is kept, or the reduction wrote there
      auto kept = kept_[u].template on<G>(context_.reducing);
      add(context_.reducing, kept.view(begin, n), View<G const, D>(sums));
    } else if (!context_.shares.boundary()) {
      auto sum = accumulators_[u].template on<float>(context_.reducing);
      combine(sum.view(begin, n), sums, overwrite);
    } else if (sends()) {
      auto sum = accumulators_[u].template on<float>(context_.reducing);
      combine(sum.view(begin, n), sums, !late);
    }
  }

  template <class T>
  void combine(View<T, D> to, View<G, D> from, bool overwrite) {
    if (overwrite) {
      assign(context_.reducing, to, View<G const, D>(from));
    } else {
      add(context_.reducing, to, View<G const, D>(from));
    }
  }

  X& context_;
  SlotArray<D>& kept_;
  SlotArray<D>& accumulators_;
  C communicator_;
  SlotArray<D> slots_;
  std::vector<char> busy_;
  std::vector<Unit> units_;
  std::vector<Claim<G, D>> held_;
  std::vector<Late> late_;
  [[no_unique_address]] OpenRanges<D> ranges_;
  int next_ = 0;
  bool first_ = true;
  bool last_ = true;
};

}  // namespace zero
