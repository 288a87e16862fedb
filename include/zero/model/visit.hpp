// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order in which a model visits its units in one micro-batch, known before the first step.
// Everything that is communicated ahead of time, and every slot, follows from it.

#include <zero/core/hash.hpp>
#include <zero/model/unit.hpp>

#include <string>
#include <vector>

namespace zero {

/// Which pass a visit belongs to.
enum class Phase {
  forward,  ///< parameters alone are at hand
  backward  ///< parameters and gradients are
};

/// One use of a unit.
struct Visit {
  int unit;      ///< number in the model, from 0
  Phase phase;   ///< of the pass
  int held = 0;  ///< how many further visits open before this one's lease ends
};

/// The visits of one micro-batch in order. A unit may be visited several times in each phase; its
/// gradient is reduced after its last backward visit.
using Schedule = std::vector<Visit>;

/// Number `number`, from 0, of the `count` micro-batches of a step.
struct MicroBatch {
  Index number = 0;  ///< from 0
  Index count = 1;   ///< at least 1
};

/// How a backward visit treats the gradients of the unit's first visit.
enum class Fill {
  add,       ///< they are zeroed before, and the model adds
  overwrite  ///< they are not: the model assigns where the lease's first() says so, and adds
             ///< elsewhere
};

/// Forward 0..n-1, then backward n-1..0.
inline Schedule default_schedule(int num_units) {
  Schedule s;
  for (int u = 0; u < num_units; ++u) s.push_back({u, Phase::forward});
  for (int u = num_units; u-- > 0;) s.push_back({u, Phase::backward});
  return s;
}

/// Checks a schedule against the model that it is of.
/// @throws InvalidArgument naming the visit or unit: a unit that does not exist, a negative `held`,
///   a unit with trainable elements that no backward visit reaches
inline void validate(Schedule const& schedule, Units const& units) {
  std::vector<char> reached(units.size(), 0);
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    Visit const& v = schedule[i];
    if (v.unit < 0 || at(v.unit) >= units.size()) {
      throw InvalidArgument("schedule: visit " + std::to_string(i) + " is of unit " +
                            std::to_string(v.unit) + "; the model has units 0 to " +
                            std::to_string(units.size() - 1));
    }
    if (v.held < 0)
      throw InvalidArgument("schedule: visit " + std::to_string(i) +
                            " is held for a negative count");
    if (v.phase == Phase::backward) reached[at(v.unit)] = 1;
  }
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].trains() && reached[u] == 0) {
      throw InvalidArgument("schedule: unit '" + units[u].name +
                            "' is trainable but has no backward visit");
    }
  }
}

/// Equal where schedules are, on every machine.
inline std::uint64_t hash(Schedule const& schedule) {
  Hash h;
  for (Visit const& v : schedule)
    h.add(Index{v.unit}).add(Index{v.phase == Phase::backward}).add(Index{v.held});
  return h.value();
}

}  // namespace zero
