// SPDX-License-Identifier: Apache-2.0
#pragma once
// A float cut into two halves of 16 bits: a bfloat16 to compute with, and a remainder that nobody
// reads but the optimizer. Together they are the float's own 32 bits.
//
// The lower half is the lower 16 bits. The upper half is the upper 16 bits plus the highest bit of
// the lower half, that is, the float rounded to the nearest bfloat16, ties away from zero. Ties to
// even, as bf16 rounds, would need a 17th bit: from an even upper half alone it cannot be seen
// which way a tie went. So an upper half differs from bf16(x) only where x lies exactly between two
// bfloat16 numbers. Of a NaN only the bits are kept, not that the upper half is one.

#include <zero/core/dtype.hpp>

#include <cstdint>

namespace zero {

/// The upper half of a float: the bits of a bf16.
struct UpperHalf {
  std::uint16_t bits = 0;  ///< of the float

  UpperHalf() = default;
  /// Rounded to nearest, away from 0 where the value lies between two.
  ZERO_HOST_DEVICE constexpr explicit UpperHalf(float value) {
    auto const u = detail::bits_as<std::uint32_t>(value);
    bits = static_cast<std::uint16_t>((u >> 16) + ((u >> 15) & 1u));
  }
  /// As a number.
  ZERO_HOST_DEVICE constexpr bf16 rounded() const { return detail::bits_as<bf16>(bits); }
};

/// The lower half of a float.
struct LowerHalf {
  std::uint16_t bits = 0;  ///< of the float

  LowerHalf() = default;
  /// The lower 16 bits of a float.
  ZERO_HOST_DEVICE constexpr explicit LowerHalf(float value)
      : bits(static_cast<std::uint16_t>(detail::bits_as<std::uint32_t>(value) & 0xffffu)) {}
};

/// The float whose halves these are, bit for bit.
ZERO_HOST_DEVICE constexpr float join(bf16 upper, LowerHalf lower) {
  std::uint32_t const carried = std::uint32_t{upper.bits} - (std::uint32_t{lower.bits} >> 15);
  return detail::bits_as<float>((carried << 16) | lower.bits);
}

static_assert(sizeof(UpperHalf) == 2 && sizeof(LowerHalf) == 2);

}  // namespace zero
