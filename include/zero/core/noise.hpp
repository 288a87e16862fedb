// SPDX-License-Identifier: Apache-2.0
#pragma once
// Noise keyed by what it is for, never by rank, world or launch shape: the same (seed, tensor,
// element) gives the same number everywhere. Counter-based: each value is a function of its key
// alone, by the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014).

#include <zero/core/host_device.hpp>
#include <zero/core/size.hpp>

#include <cmath>
#include <cstdint>

namespace zero {

/// A bijection of 64 bits in which every input bit moves every output bit.
ZERO_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// A hash of an ordered pair; chains to any number of words.
ZERO_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return mix(mix(a) ^ b);
}

/// 64 random bits for one element of one tensor.
ZERO_HOST_DEVICE constexpr std::uint64_t noise_bits(std::uint64_t seed, Index tensor,
                                                    Index element) {
  return mix(mix(seed, static_cast<std::uint64_t>(tensor)), static_cast<std::uint64_t>(element));
}

/// Uniform in the open interval (0, 1), at the middles of 2^52 equal steps, which doubles hold
/// exactly.
ZERO_HOST_DEVICE constexpr double noise_uniform(std::uint64_t seed, Index tensor, Index element) {
  return (static_cast<double>(noise_bits(seed, tensor, element) >> 12) + 0.5) / 4503599627370496.0;
}

/// Standard normal, by the Box-Muller transform.
ZERO_HOST_DEVICE inline double noise_normal(std::uint64_t seed, Index tensor, Index element) {
  std::uint64_t const first = noise_bits(seed, tensor, element);
  double const u = (static_cast<double>(first >> 11) + 0.5) / 9007199254740992.0;
  double const v = static_cast<double>(mix(first) >> 11) / 9007199254740992.0;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586476925 * v);
}

}  // namespace zero
