// SPDX-License-Identifier: Apache-2.0
#pragma once
// In which order the tiles below the device are updated, and how far that goes while the gradients
// of other units are still made.

#include <zero/core/error.hpp>
#include <zero/model/visit.hpp>
#include <zero/shard/layout.hpp>
#include <zero/tier/tier_plan.hpp>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace zero {

/// The order of one rank's updates, a function of schedule and plan: no matter of time. Once all
/// gradients are known, units go as the next forward pass comes to them. Where updates begin before
/// that, the first ones are of units whose gradients come first, as long as backward takes, a third
/// of the elements; then those that the next pass needs first. So the host works while both passes
/// do, and each waits for little.
struct UpdateOrder {
  std::vector<int> units{};    ///< that have tiles
  std::vector<Index> tiles{};  ///< all of the plan
  /// So many units of the first ones may be updated before the pass is over: the schedule does not
  /// come back to them.
  Index early = 0;

  /// @param timeline of the step: schedule(), flushes() and last_backward(u)
  /// @param plan of the rank @param begins updates begin before all gradients are known
  template <class Timeline>
  UpdateOrder(Timeline const& timeline, TierPlan const& plan, bool begins) {
    if (begins) {
      Index all = 0;
      Index taken = 0;
      for (Tile const& tile : plan.tiles) all += tile.elements;
      for (auto const& flush : timeline.flushes()) {
        for (int u : flush.units) {
          if (3 * taken < all) taken += add(plan, u);
        }
      }
      while (early < std::ssize(units) && is_over(timeline, units[at(early)])) ++early;
    }
    for (Visit const& visit : timeline.schedule()) add(plan, visit.unit);
    for (int u = 0; u + 1 < std::ssize(plan.first_tile); ++u) add(plan, u);
  }

 private:
  /// @return elements of the unit
  Index add(TierPlan const& plan, int u) {
    Index const first = plan.first_tile[at(u)];
    Index const end = plan.first_tile[at(u) + 1];
    if (first == end || std::find(units.begin(), units.end(), u) != units.end()) return 0;
    units.push_back(u);
    Index elements = 0;
    for (Index t = first; t < end; ++t) {
      tiles.push_back(t);
      elements += plan.tiles[at(t)].elements;
    }
    return elements;
  }
  template <class Timeline>
  static bool is_over(Timeline const& timeline, int u) {
    auto const& schedule = timeline.schedule();
    auto const last = std::find_if(schedule.rbegin(), schedule.rend(),
                                   [u](Visit const& visit) { return visit.unit == u; });
    return schedule.rend() - last - 1 == timeline.last_backward(u);
  }
};

/// Updates that are enqueued while the step's last pass still goes on: what enqueues them waits
/// where a device takes so many pieces of work ahead and no more, and would come to them late. Used
/// from one host thread.
class EarlyUpdates {
 public:
  /// @param layout outlives this
  explicit EarlyUpdates(Layout const& layout) : layout_(layout), down_(at(layout.size()), 0) {}

  /// A step begins that will be updated whatever its gradients are.
  /// @param units that may be, in order; outlives the step
  /// @param update (int u) -> bool: enqueues the update of a unit whose gradients are on their way
  ///   down, or says that its parameters are still in use
  /// @throws Error where a step before was broken off behind some of its updates
  void begin(std::span<int const> units, std::function<bool(int)> update) {
    require_whole();
    units_ = units;
    update_ = std::move(update);
    std::fill(down_.begin(), down_.end(), char{0});
  }
  /// Between steps. @throws Error where one was broken off behind some of its updates
  void require_whole() const {
    if (done_ > 0) {
      throw Error("step: one before was broken off when " + std::to_string(done_) + " of " +
                  std::to_string(units_.size()) +
                  " units that are updated below the device during backward had been updated; "
                  "expected a new trainer, which loads a checkpoint");
    }
  }
  /// The last gradients of a unit come down. Units before it are updated: its own may be in use.
  void comes_down(int u) {
    while (update_ && done_ < units_.size() && down_[at(units_[done_])] != 0) {
      ++done_;  // before: an update that breaks off has begun
      if (update_(units_[done_ - 1])) continue;
      --done_;
      break;
    }
    down_[at(u)] = 1;
  }
  /// A visit outside the schedule may bring a further gradient, or want what is updated already.
  /// No more units are updated early in this step.
  /// @throws Error where the unit's update has begun
  void extra_visit(int u) {
    auto const done = units_.first(done_);
    if (std::find(done.begin(), done.end(), u) != done.end()) {
      throw Error("visit of unit '" + layout_[u].name +
                  "' outside the schedule: its state below the device is updated already; expected "
                  "none behind its last visit of the schedule with UncheckedGradients");
    }
    update_ = {};
  }
  /// All other units are updated now. @return how many have been
  Index end() {
    update_ = {};
    return static_cast<Index>(std::exchange(done_, 0));
  }

 private:
  Layout const& layout_;
  std::span<int const> units_{};
  std::function<bool(int)> update_{};  // none: not in this step
  std::vector<char> down_;             // of each unit: comes_down was called
  std::size_t done_ = 0;               // of units_
};

}  // namespace zero
