// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stretches of visits over which a unit lies in a slot, and how few slots they need.

#include <zero/core/size.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

namespace zero {

/// Unit `unit` lies in slot `slot` from visit `first` to visit `last`.
struct Residency {
  int unit = 0;   ///< of the model
  int first = 0;  ///< visit of the schedule
  int last = 0;   ///< visit of the schedule, not before `first`
  int slot = -1;  ///< given by colour(); -1: none yet
};

/// Gives every residency a slot such that residencies whose stretches, each begun `ahead` visits
/// early, overlap never share one; largest first, each into the first slot that is free for it,
/// which keeps the sum of the slots small where units differ in size. Returns the slots' sizes in
/// elements.
/// @param residencies whose slots are given, in any order
/// @param ahead visits
/// @param elements (unit) -> Index, the size of a unit
template <class Elements>
std::vector<Index> colour(std::vector<Residency>& residencies, int ahead, Elements elements) {
  std::vector<std::size_t> order(residencies.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Equal sizes stay in order, without the memory that std::stable_sort asks for.
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    Index const size_a = elements(residencies[a].unit);
    Index const size_b = elements(residencies[b].unit);
    return size_a != size_b ? size_a > size_b : a < b;
  });
  std::vector<Index> sizes;
  std::vector<std::vector<std::size_t>> users;
  for (std::size_t i : order) {
    Residency& r = residencies[i];
    auto const overlaps = [&](std::size_t j) {
      Residency const& other = residencies[j];
      return r.first - ahead <= other.last && other.first - ahead <= r.last;
    };
    std::size_t slot = 0;
    while (slot < users.size() && std::any_of(users[slot].begin(), users[slot].end(), overlaps))
      ++slot;
    if (slot == users.size()) {
      users.emplace_back();
      sizes.push_back(elements(r.unit));
    }
    users[slot].push_back(i);
    r.slot = static_cast<int>(slot);
  }
  return sizes;
}

}  // namespace zero
