// SPDX-License-Identifier: Apache-2.0
#include <zero/core/halves.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace {

using zero::bf16;
using zero::join;
using zero::LowerHalf;
using zero::UpperHalf;

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

}  // namespace

TEST_CASE("the halves of every kind of float join to its very bits") {
  bool same = true;
  // Every upper half with lower halves on both sides of each border: signs, NaN, infinities,
  // subnormal numbers.
  for (std::uint32_t upper = 0; upper <= 0xffffu; ++upper) {
    for (std::uint32_t lower : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      float const x = std::bit_cast<float>((upper << 16) | lower);
      same = same && bits_of(join(UpperHalf(x).rounded(), LowerHalf(x))) == ((upper << 16) | lower);
    }
  }
  CHECK(same);
}

TEST_CASE("the upper half is the nearest bfloat16, ties away from zero") {
  auto const upper = [](float x) { return static_cast<float>(UpperHalf(x).rounded()); };
  CHECK(upper(1.0f) == 1.0f);
  CHECK(upper(1.0f + 0x1p-9f) == 1.0f);
  CHECK(upper(1.0f + 0x1p-8f) == 1.0f + 0x1p-7f);  // a tie: bf16 would go to even, 1
  CHECK(static_cast<float>(bf16(1.0f + 0x1p-8f)) == 1.0f);
  CHECK(upper(-1.0f - 0x1p-8f) == -1.0f - 0x1p-7f);
  CHECK(upper(1.0f + 0x1p-8f + 0x1p-23f) == 1.0f + 0x1p-7f);
  CHECK(std::isinf(upper(std::numeric_limits<float>::max())));
  bool nearest = true;
  for (std::uint32_t u = 1; u < 0x7f800000u; u += 65521) {
    float const x = std::bit_cast<float>(u);
    bool const tie = (u & 0xffffu) == 0x8000u;
    nearest = nearest && (tie || UpperHalf(x).bits == bf16(x).bits);
  }
  CHECK(nearest);
}

TEST_CASE("zeros have zero halves, so that cleared memory is 0") {
  CHECK(UpperHalf(0.0f).bits == 0);
  CHECK(LowerHalf(0.0f).bits == 0);
  CHECK(bits_of(join(bf16(0.0f), LowerHalf(0.0f))) == 0);
}
