// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rounding up or down by chance, so that the mean of what is kept is what was computed: a state
// that moves by less than half of its last bit still moves (Gupta et al., Deep Learning with
// Limited Numerical Precision, ICML 2015, section 3).

#include <zero/core/dtype.hpp>
#include <zero/core/noise.hpp>

#include <cstdint>

namespace zero {

/// One of the two bfloat16 neighbours of value, the nearer one the more likely in proportion; value
/// itself where it is a bfloat16. A finite value stays finite; infinities and NaN are kept.
/// @param noise uniform in [0, 2^16)
/// @param value to round
ZERO_HOST_DEVICE constexpr bf16 round_by_chance(float value, std::uint32_t noise) {
  auto const u = detail::bits_as<std::uint32_t>(value);
  if ((u & 0x7f800000u) == 0x7f800000u) return bf16(value);
  std::uint32_t up = (u + (noise & 0xffffu)) >> 16;
  if ((up & 0x7f80u) == 0x7f80u) up = u >> 16;  // past the largest one
  return detail::bits_as<bf16>(static_cast<std::uint16_t>(up));
}

/// The noise of one update's rounding: a function of (seed, update, tensor, element, number of the
/// state), never of rank, world or launch shape.
struct StateNoise {
  std::uint64_t seed = 0;  ///< Options::seed
  Index update = 0;        ///< its number, from 1

  /// Uniform in [0, 2^16), for one state of an element. Four states share one draw, 16 bits each.
  ZERO_HOST_DEVICE constexpr std::uint32_t operator()(Index tensor, Index element,
                                                      int state) const {
    std::uint64_t const key =
        mix(mix(seed, static_cast<std::uint64_t>(update)), static_cast<std::uint64_t>(state / 4));
    return static_cast<std::uint32_t>(noise_bits(key, tensor, element) >> (16 * (state % 4))) &
           0xffffu;
  }
};

}  // namespace zero
