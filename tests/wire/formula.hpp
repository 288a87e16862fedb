// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank sends in a step, as docs/architecture.md's table says it, from sizes and schedule
// alone: none of the library's layout, timeline or shares is asked.

#include <archetypes/rig.hpp>

#include <algorithm>
#include <vector>

namespace formula {

using zero::Index;

/// Elements of a unit's trainable, or frozen, part with all padding: tensors begin at multiples of
/// 64, the part ends at one of 64 times the world.
inline Index padded(zero::Unit const& unit, bool trainable, Index world) {
  Index end = 0;
  for (zero::Tensor const& tensor : unit.tensors) {
    if (tensor.trainable != trainable) continue;
    Index n = 1;
    for (Index extent : tensor.shape) n *= extent;
    end += (n + 63) / 64 * 64;
  }
  Index const step = 64 * world;
  return (end + step - 1) / step * step;
}

inline Index whole(zero::Unit const& unit, Index world) {
  return padded(unit, true, world) + padded(unit, false, world);
}

inline Index trainable(zero::Units const& units, Index world) {
  Index sum = 0;
  for (zero::Unit const& unit : units) sum += padded(unit, true, world);
  return sum;
}

/// Stage 3 keeps a unit gathered, for good, when it is not larger than the threshold.
inline bool resident(rig::Setup const& setup, int unit, Index world) {
  return whole(setup.units[zero::at(unit)], world) <= setup.options.persistence_threshold;
}

/// The visits at which a unit is gathered: all but those that find it still there. It is still
/// there at a visit that comes no more than max(prefetch, 1) visits after its last one ended, or
/// after any of its visits in a micro-batch where nothing is released.
inline std::vector<int> gathering_visits(rig::Setup const& setup, Index world) {
  zero::Schedule const schedule = rig::schedule_of(setup);
  int const last_visit = static_cast<int>(schedule.size()) - 1;
  std::vector<int> result;
  for (int i = 0; i <= last_visit; ++i) {
    int const unit = schedule[zero::at(i)].unit;
    if (resident(setup, unit, world) || whole(setup.units[zero::at(unit)], world) == 0) continue;
    bool there = false;
    int ended = -1;  // of the visits so far, one after the other
    for (int j = 0; j < i; ++j) {
      if (schedule[zero::at(j)].unit != unit) continue;
      ended = std::max(ended, std::min(j + schedule[zero::at(j)].held, last_visit));
      there =
          !setup.options.release_after_forward || i - ended <= std::max(setup.options.prefetch, 1);
    }
    if (!there) result.push_back(i);
  }
  return result;
}

inline Index gathered(rig::Setup const& setup, Index world, bool forward_only = false) {
  zero::Schedule const schedule = rig::schedule_of(setup);
  auto const first_backward =
      std::find_if(schedule.begin(), schedule.end(),
                   [](zero::Visit const& v) { return v.phase == zero::Phase::backward; });
  Index sum = 0;
  for (int i : gathering_visits(setup, world)) {
    if (forward_only && i >= first_backward - schedule.begin()) break;
    sum += whole(setup.units[zero::at(schedule[zero::at(i)].unit)], world);
  }
  return sum;
}

inline bool at_boundary(rig::Setup const& setup) {
  if (setup.options.reduction) return *setup.options.reduction == zero::Reduction::boundary;
  return setup.stage <= 1;
}

/// Elements sent a rank in a step over A micro-batches.
inline Index step_elements(rig::Setup const& setup, Index world, Index A) {
  Index const R = at_boundary(setup) ? 1 : A;
  Index const Pt = trainable(setup.units, world);
  Index full = 0;
  if (setup.stage == 0) full = 2 * R * Pt;
  if (setup.stage == 1 || setup.stage == 2) full = (R + 1) * Pt;
  if (setup.stage == 3) {
    full = R * Pt + A * gathered(setup, world);
    for (std::size_t u = 0; u < setup.units.size(); ++u) {
      if (resident(setup, static_cast<int>(u), world))
        full += padded(setup.units[u], true, world);  // published
    }
  }
  return full / world * (world - 1);
}

}  // namespace formula
