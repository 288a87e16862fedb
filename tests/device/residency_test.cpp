// SPDX-License-Identifier: Apache-2.0
// Which slot a residency gets, by hand and against a selection that is written out.

#include <zero/core/noise.hpp>
#include <zero/device/residency.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace {

using zero::Index;
using zero::Residency;

std::vector<int> slots(std::vector<Residency> const& residencies) {
  std::vector<int> result;
  for (Residency const& r : residencies) result.push_back(r.slot);
  return result;
}

/// The largest residency that has no slot yet, the first of equal ones, into the first slot whose
/// users it does not meet; until all have one.
std::vector<Index> by_hand(std::vector<Residency>& residencies, int ahead,
                           std::vector<Index> const& sizes) {
  std::vector<Index> result;
  for (;;) {
    Residency* next = nullptr;
    for (Residency& r : residencies) {
      if (r.slot >= 0) continue;
      if (next == nullptr || sizes[zero::at(r.unit)] > sizes[zero::at(next->unit)]) next = &r;
    }
    if (next == nullptr) return result;
    int slot = 0;
    auto const taken = [&] {
      for (Residency const& r : residencies) {
        bool const apart = r.last < next->first - ahead || next->last < r.first - ahead;
        if (r.slot == slot && !apart) return true;
      }
      return false;
    };
    while (taken()) ++slot;
    next->slot = slot;
    if (slot == static_cast<int>(result.size())) result.push_back(sizes[zero::at(next->unit)]);
  }
}

}  // namespace

TEST_CASE("residencies of equal size get their slots in order") {
  std::vector<Residency> all{{0, 0, 1}, {1, 1, 2}, {2, 2, 3}, {3, 3, 4}, {4, 0, 4}};
  auto const sizes = zero::colour(all, 0, [](int) { return Index{64}; });
  CHECK(slots(all) == std::vector<int>{0, 1, 0, 1, 2});
  CHECK(sizes == std::vector<Index>{64, 64, 64});
}

TEST_CASE("the largest residency is placed first, and gives its slot the size") {
  std::vector<Residency> all{{0, 0, 0}, {1, 1, 1}, {2, 2, 2}};
  Index const elements[] = {64, 256, 128};
  auto const sizes = zero::colour(all, 1, [&](int u) { return elements[u]; });
  CHECK(slots(all) == std::vector<int>{1, 0, 1});
  CHECK(sizes == std::vector<Index>{256, 128});
}

TEST_CASE("slots are those of a selection by hand, also where most sizes are equal") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto const below = [&](Index place, std::uint64_t n) {
      return static_cast<int>(zero::noise_bits(seed, 0, place) % n);
    };
    std::vector<Residency> all;
    std::vector<Index> sizes;
    for (int u = 0; u < 30; ++u) {
      int const first = below(3 * u, 40);
      all.push_back({u, first, first + below(3 * u + 1, 6)});
      sizes.push_back(64 * (1 + below(3 * u + 2, 3)));
    }
    int const ahead = static_cast<int>(seed % 4);
    std::vector<Residency> expected = all;
    auto const expected_sizes = by_hand(expected, ahead, sizes);
    auto const found = zero::colour(all, ahead, [&](int u) { return sizes[zero::at(u)]; });
    CAPTURE(seed);
    CHECK(slots(all) == slots(expected));
    CHECK(found == expected_sizes);
  }
}
