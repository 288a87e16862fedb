// SPDX-License-Identifier: Apache-2.0
#include <zero/core/stochastic.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

namespace {

using zero::bf16;
using zero::round_by_chance;

}  // namespace

TEST_CASE("of 2^16 noises as many round up as the value lies above its lower neighbour") {
  for (float x : {1.0f + 0x1p-10f, -3.14159f, 1e-30f, 0x1.fffffep-130f, 12345.678f}) {
    CAPTURE(x);
    std::uint32_t const lower = std::bit_cast<std::uint32_t>(x) >> 16;
    int up = 0;
    for (std::uint32_t noise = 0; noise < 0x10000u; ++noise) {
      std::uint32_t const bits = round_by_chance(x, noise).bits;
      up += bits == lower + 1 ? 1 : 0;
      if (bits != lower && bits != lower + 1) FAIL("not a neighbour");
    }
    CHECK(up == static_cast<int>(std::bit_cast<std::uint32_t>(x) & 0xffffu));
  }
}

TEST_CASE("what bfloat16 holds is kept, finite stays finite, and the rest stays what it is") {
  for (std::uint32_t noise : {0u, 1u, 0x8000u, 0xffffu}) {
    CHECK(static_cast<float>(round_by_chance(1.5f, noise)) == 1.5f);
    CHECK(round_by_chance(0.0f, noise).bits == 0);
    CHECK(round_by_chance(-0.0f, noise).bits == 0x8000);
    CHECK(round_by_chance(std::numeric_limits<float>::max(), noise).bits == 0x7f7f);
    CHECK(round_by_chance(-std::numeric_limits<float>::max(), noise).bits == 0xff7f);
    CHECK(std::isinf(static_cast<float>(round_by_chance(HUGE_VALF, noise))));
    CHECK(std::isnan(static_cast<float>(round_by_chance(std::nanf(""), noise))));
  }
}

TEST_CASE("noise of a state depends on each part of its key") {
  zero::StateNoise const noise{1, 1};
  std::set<std::uint64_t> seen;
  auto const add = [&seen](zero::StateNoise const& of, zero::Index tensor, int state) {
    std::uint64_t row = 0;  // four neighbouring elements
    for (zero::Index element = 0; element < 4; ++element)
      row = (row << 16) | of(tensor, element, state);
    seen.insert(row);
  };
  for (int state = 0; state < 6; ++state) add(noise, 0, state);
  for (zero::Index tensor = 1; tensor < 4; ++tensor) add(noise, tensor, 0);
  add({2, 1}, 0, 0);
  add({1, 2}, 0, 0);
  CHECK(seen.size() == 11);
}
