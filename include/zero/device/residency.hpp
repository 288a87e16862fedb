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
  int unit = 0;
  int first = 0;
  int last = 0;
  int slot = -1;
};

/// Gives every residency a slot such that residencies whose stretches, each begun `ahead` visits
/// early, overlap never share one; largest first, each into the first slot that is free for it,
/// which keeps the sum of the slots small where units differ in size. Returns the slots' sizes in
/// elements.
/// @param elements(unit) the size of a unit
template <class Elements>
std::vector<Index> colour(std::vector<Residency>& residencies, int ahead, Elements elements) {
  std::vector<std::size_t> order(residencies.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return elements(residencies[a].unit) > elements(residencies[b].unit);
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
