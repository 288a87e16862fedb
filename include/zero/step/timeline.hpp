// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is communicated at which visit. A function of schedule, layout, shares and options, equal on
// every rank, so that collectives are issued in one total order whatever a rank's own model does:
// when visit i opens, first gathers of what is used up to `prefetch` visits later, then the
// reductions that are due after visit i.

#include <zero/device/residency.hpp>
#include <zero/model/visit.hpp>
#include <zero/step/shares.hpp>

namespace zero {

/// Units whose gradients are reduced as one group, not before visit `due` has opened.
struct Flush {
  std::vector<int> units;  ///< whose gradients go together
  int due = 0;             ///< visit after which they are sent
};

/// The plan of one micro-batch's communication.
class Timeline {
 public:
  /// @throws InvalidArgument as validate(schedule, units)
  Timeline(Schedule schedule, Layout const& layout, Shares const& shares, Options const& options)
      : schedule_(std::move(schedule)), prefetch_(options.prefetch) {
    while (forward_visits_ < visits() && schedule_[at(forward_visits_)].phase == Phase::forward)
      ++forward_visits_;
    plan_gathers(layout, shares, options);
    plan_flushes(layout, options);
    plan_gradient_slots(layout, shares);
  }

  Schedule const& schedule() const { return schedule_; }             ///< as given
  int visits() const { return static_cast<int>(schedule_.size()); }  ///< of one micro-batch
  /// Visits before the first backward one: what an evaluation makes.
  int forward_visits() const { return forward_visits_; }
  int prefetch() const { return prefetch_; }  ///< visits by which gathers run ahead

  /// Stretches for which units are gathered, in order of their first visit.
  std::vector<Residency> const& gathers() const { return gathers_; }
  /// When `visit` opens in a pass of the schedule's first `visits` visits, residencies [next, end)
  /// are gathered as one group; end == next: nothing is due. A group holds what is used up to
  /// `prefetch` visits later, and up to Options::bucket elements, padding and frozen ones included.
  /// One that may still grow waits until its first use is prefetch / 2 + 1 visits away: then it is
  /// needed in no fewer visits than it has units.
  int gather_group(int visit, int next, int visits) const {
    if (next == static_cast<int>(gathers_.size())) return next;
    int const largest = gather_groups_[at(next)];
    int const until = std::min(visit + prefetch_, visits - 1);
    int end = next;
    while (end < largest && gathers_[at(end)].first <= until) ++end;
    return end < largest && gathers_[at(next)].first > visit + prefetch_ / 2 + 1 ? next : end;
  }
  /// The residency that a visit uses, or -1 where the unit is not gathered.
  int gather_of(int visit) const { return gather_of_[at(visit)]; }
  std::vector<Index> const& gather_slots() const { return gather_slots_; }  ///< elements of each

  /// The reductions of a micro-batch, in the order in which they are issued.
  std::vector<Flush> const& flushes() const { return flushes_; }
  /// A unit's last backward visit, -1 where it has none.
  int last_backward(int u) const { return last_backward_[at(u)]; }
  /// The slot of a unit's gradients, -1 where it needs none.
  int gradient_slot(int u) const { return gradient_slot_[at(u)]; }
  /// Elements of each.
  std::vector<Index> const& gradient_slots() const { return gradient_slots_; }

 private:
  int end_of(int visit) const { return std::min(visit + schedule_[at(visit)].held, visits() - 1); }

  void plan_gathers(Layout const& layout, Shares const& shares, Options const& options) {
    gather_of_.assign(schedule_.size(), -1);
    if (!shares.gathers()) return;
    // A unit that comes back soon is kept: within the distance that a prefetch would look ahead
    // anyway.
    int const near = options.release_after_forward ? std::max(prefetch_, 1) : visits();
    std::vector<int> newest(at(layout.size()), -1);
    for (int i = 0; i < visits(); ++i) {
      int const u = schedule_[at(i)].unit;
      if (!shares.gathers(u)) continue;
      int& r = newest[at(u)];
      if (r >= 0 && i - gathers_[at(r)].last <= near) {
        gathers_[at(r)].last = std::max(gathers_[at(r)].last, end_of(i));
      } else {
        r = static_cast<int>(gathers_.size());
        gathers_.push_back({u, i, end_of(i)});
      }
      gather_of_[at(i)] = r;
    }
    gather_slots_ = colour(gathers_, prefetch_, [&](int u) { return layout.elements(u); });
    auto const n = [&](int r) { return layout.elements(gathers_[at(r)].unit); };
    int const all = static_cast<int>(gathers_.size());
    for (int begin = 0; begin < all; ++begin) {
      int end = begin + 1;
      Index left = shares.alone() ? 0 : options.bucket - n(begin);
      for (; end < std::min(all, begin + prefetch_ + 1) && left >= n(end); ++end) left -= n(end);
      gather_groups_.push_back(end);
    }
  }

  void plan_flushes(Layout const& layout, Options const& options) {
    last_backward_.assign(at(layout.size()), -1);
    for (int i = 0; i < visits(); ++i) {
      if (schedule_[at(i)].phase == Phase::backward) last_backward_[at(schedule_[at(i)].unit)] = i;
    }
    Index in_bucket = 0;
    for (int i = 0; i < visits(); ++i) {
      int const u = schedule_[at(i)].unit;
      Index const n = layout[u].trainable;
      if (last_backward_[at(u)] != i || n == 0) continue;
      bool const fits = !flushes_.empty() && in_bucket + n <= options.bucket;
      if (!fits) {
        int const after =
            flushes_.empty() ? 0 : flushes_.back().due;  // due never falls, so the order is total
        flushes_.push_back({{}, after});
        in_bucket = 0;
      }
      in_bucket += n;
      flushes_.back().units.push_back(u);
      flushes_.back().due = std::max(flushes_.back().due, end_of(i));
    }
  }

  void plan_gradient_slots(Layout const& layout, Shares const& shares) {
    gradient_slot_.assign(at(layout.size()), -1);
    std::vector<int> first(at(layout.size()), -1);
    for (int i = visits(); i-- > 0;) {
      if (schedule_[at(i)].phase == Phase::backward) first[at(schedule_[at(i)].unit)] = i;
    }
    std::vector<Residency> residencies;
    for (Flush const& flush : flushes_) {
      // One visit longer, so that the reduction may run while the next visit computes.
      for (int u : flush.units) {
        if (shares.gradient_slots(u)) residencies.push_back({u, first[at(u)], flush.due + 1});
      }
    }
    gradient_slots_ = colour(residencies, 0, [&](int u) { return layout[u].trainable; });
    for (Residency const& r : residencies) gradient_slot_[at(r.unit)] = r.slot;
  }

  Schedule schedule_;
  int prefetch_;
  int forward_visits_ = 0;
  std::vector<Residency> gathers_;
  std::vector<int> gather_of_;
  std::vector<int> gather_groups_;  // [residency], the end of the largest group that it begins
  std::vector<Index> gather_slots_;
  std::vector<Flush> flushes_;
  std::vector<int> last_backward_;
  std::vector<int> gradient_slot_;
  std::vector<Index> gradient_slots_;
};

}  // namespace zero
