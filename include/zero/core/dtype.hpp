// SPDX-License-Identifier: Apache-2.0
#pragma once
// The 16-bit floating-point types, as bits with explicit conversions. All arithmetic is done in
// float: a 16-bit value is a way to store and to send a number, never to compute with it.
// Conversions from float round to nearest, ties to even (IEEE 754-2019, 4.3.1), keep infinities and
// turn every NaN into a quiet NaN; so in the processor's default rounding mode, and in any other but
// for fp16's subnormal numbers, which round as that mode says.

#include <zero/core/host_device.hpp>

#include <concepts>
#include <cstdint>

namespace zero {

namespace detail {

/// std::bit_cast, which kernels may not call.
template <class To, class From>
ZERO_HOST_DEVICE constexpr To bits_as(From const& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

/// yes where `condition` holds, else no, without a branch: several can be chosen at once.
ZERO_HOST_DEVICE constexpr std::uint32_t choose(bool condition, std::uint32_t yes,
                                                std::uint32_t no) {
  std::uint32_t const mask = 0u - static_cast<std::uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

}  // namespace detail

/// bfloat16: the upper half of a float. 8 bits of exponent, 8 significant bits.
struct bf16 {
  std::uint16_t bits = 0;  ///< sign, 8 of exponent, 7 of fraction

  bf16() = default;
  /// Rounded to nearest, ties to even; infinities stay, NaN becomes quiet.
  ZERO_HOST_DEVICE constexpr explicit bf16(float value) {
    auto const u = detail::bits_as<std::uint32_t>(value);
    bool const nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40u
                                          : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  /// Exact.
  ZERO_HOST_DEVICE constexpr explicit operator float() const {
    return detail::bits_as<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE binary16: 5 bits of exponent, 11 significant bits, largest finite value 65504.
struct fp16 {
  std::uint16_t bits = 0;  ///< sign, 5 of exponent, 10 of fraction

  fp16() = default;
  /// Rounded to nearest, ties to even; beyond 65519.99 infinite, NaN becomes quiet.
  ZERO_HOST_DEVICE constexpr explicit fp16(float value) {
    auto const u = detail::bits_as<std::uint32_t>(value);
    std::uint32_t const sign = (u >> 16) & 0x8000u;
    std::uint32_t const magnitude = u & 0x7fffffffu;
    // Each range's answer, then one of them.
    std::uint32_t const quiet = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    std::uint32_t const rebiased = magnitude - 0x38000000u;
    std::uint32_t const normal = (rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13;
    // Neighbours of 0.5 lie 2^-24 apart, as subnormal numbers do: the sum rounds to one of them.
    auto const small =
        detail::bits_as<float>(detail::choose(magnitude < 0x38800000u, magnitude, 0));
    std::uint32_t const subnormal = detail::bits_as<std::uint32_t>(small + 0.5f) - 0x3f000000u;
    // Normal from 2^-14 on; below 65536, rounding carries into infinity.
    std::uint32_t const finite = detail::choose(magnitude < 0x38800000u, subnormal, normal);
    std::uint32_t const number = detail::choose(magnitude < 0x47800000u, finite, 0x7c00u);
    bits =
        static_cast<std::uint16_t>(sign | detail::choose(magnitude > 0x7f800000u, quiet, number));
  }
  /// Exact.
  ZERO_HOST_DEVICE constexpr explicit operator float() const {
    std::uint32_t const sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    std::uint32_t const shifted = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
    // A subnormal number's fraction, put behind 2^-14 and that taken away again: exact.
    float const behind = detail::bits_as<float>(shifted | 0x38800000u) - 0x1p-14f;
    std::uint32_t const normal = shifted + 0x38000000u;
    std::uint32_t const finite =
        detail::choose(shifted < 0x00800000u, detail::bits_as<std::uint32_t>(behind), normal);
    return detail::bits_as<float>(
        sign | detail::choose(shifted < 0x0f800000u, finite, shifted | 0x7f800000u));
  }
};

/// The types that parameters and gradients may have.
template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, bf16> || std::same_as<T, fp16>;

static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2);

}  // namespace zero
