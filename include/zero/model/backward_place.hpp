// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a backward pass met something first, as far as a schedule and the units' gradients tell.

#include <zero/model/visit.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace zero {

/// The words for the place in which backward met first what a unit's gradient holds at the end,
/// where no unit that backward is done with earlier holds it, and every visit carries it to those
/// after: "unit 'h.3'". Before its last visit of that unit, backward may have come to others that
/// it visits again: their gradients are sums of both visits and do not tell. Those that could have
/// been the first follow: "unit 'norm' or, visited more than once, 'embedding'".
/// @param schedule, units that agree, as validate() says
/// @param unit number of a unit with a backward visit
inline std::string backward_place(Schedule const& schedule, Units const& units, Index unit) {
  auto const visits_backward = [&](auto from, int u) {
    return std::find_if(from, schedule.rend(),
                        [u](Visit const& v) { return v.phase == Phase::backward && v.unit == u; });
  };
  auto const last = visits_backward(schedule.rbegin(), static_cast<int>(unit));
  std::vector<int> others;
  for (auto v = last; v != schedule.rend(); ++v) {
    if (v->phase != Phase::backward || v->unit == unit || !units[at(v->unit)].trains()) continue;
    // Done with, and without what is looked for: nothing before it held that either.
    if (visits_backward(schedule.rbegin(), v->unit) == v) break;
    if (std::ranges::find(others, v->unit) == others.end()) others.push_back(v->unit);
  }
  std::string text = "unit '" + units[at(unit)].name + "'";
  for (std::size_t i = 0; i < others.size(); ++i) {
    text += (i == 0 ? " or, visited more than once, '" : ", '") + units[at(others[i])].name + "'";
  }
  return text;
}

}  // namespace zero
