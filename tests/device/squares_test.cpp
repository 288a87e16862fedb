// SPDX-License-Identifier: Apache-2.0
// Sums of squares with each set of instructions. Their order is held by conformance/.

#include <zero/core/noise.hpp>
#include <zero/device/host_elementwise.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace {

using zero::Index, zero::InstructionSet;

TEST_CASE_TEMPLATE("sums of squares have the same bits with every set of instructions", T, float,
                   zero::bf16, zero::fp16) {
  constexpr Index tile = zero::detail::squares_tile;
  if (zero::widest_instruction_set() == InstructionSet::plain)
    MESSAGE("this processor has no AVX2: plain instructions stand beside themselves");
  // Zeros, and magnitudes from 2^-16 to 2^7: sums of other orders round otherwise.
  std::vector<T> x;
  for (Index i = 0; i < 9 * tile + 1; ++i) {
    auto const bits = zero::noise_bits(5, 0, i);
    float const size = static_cast<float>(bits % 1021) - 510.0f;
    x.push_back(static_cast<T>(size * static_cast<float>(1u << (bits >> 32) % 15) * 0x1p-16f));
  }
  for (Index n : {Index{0}, Index{1}, Index{63}, Index{1000}, Index{1023}, Index{1024}, Index{1025},
                  Index{5000}, tile - 1, tile, tile + 1, tile + 1040, 9 * tile}) {
    for (Index first : {Index{0}, Index{1}}) {  // aligned, and not
      CAPTURE(n);
      T const* const from = x.data() + first;
      double const plain = zero::detail::sum_of_squares(from, n, {}, InstructionSet::plain);
      double const widest =
          zero::detail::sum_of_squares(from, n, {}, zero::widest_instruction_set());
      CHECK(std::bit_cast<std::uint64_t>(plain) == std::bit_cast<std::uint64_t>(widest));
      CHECK((n == 0) == (plain == 0));
    }
  }
}

}  // namespace
