// SPDX-License-Identifier: Apache-2.0
#pragma once
// The 16-bit floating-point types, as bits with explicit conversions. All arithmetic is done in
// float: a 16-bit value is a way to store and to send a number, never to compute with it.
// Conversions from float round to nearest, ties to even (IEEE 754-2019, 4.3.1), keep infinities and
// turn every NaN into a quiet NaN.

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
    std::uint32_t result = 0;
    if (magnitude > 0x7f800000u) {
      result = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    } else if (magnitude >=
               0x47800000u) {  // 65536 and above; what lies below rounds by carrying into infinity
      result = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // normal numbers: from 2^-14
      std::uint32_t const rebiased = magnitude - 0x38000000u;
      result = (rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13;
    } else if (magnitude >= 0x33000000u) {  // subnormal numbers: from half of the smallest, 2^-25
      std::uint32_t const shift = 126u - (magnitude >> 23);
      std::uint32_t const mantissa = (magnitude & 0x7fffffu) | 0x800000u;
      std::uint32_t const half = 1u << (shift - 1u);
      result = (mantissa + half - 1u + ((mantissa >> shift) & 1u)) >> shift;
    }
    bits = static_cast<std::uint16_t>(sign | result);
  }
  /// Exact.
  ZERO_HOST_DEVICE constexpr explicit operator float() const {
    std::uint32_t const sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    std::uint32_t const exponent = (bits >> 10) & 0x1fu;
    std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1fu) return detail::bits_as<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0u)
      return detail::bits_as<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    if (mantissa == 0u) return detail::bits_as<float>(sign);
    std::uint32_t shift = 0;
    for (; (mantissa & 0x400u) == 0u; ++shift) mantissa <<= 1;
    return detail::bits_as<float>(sign | ((113u - shift) << 23) | ((mantissa & 0x3ffu) << 13));
  }
};

/// The types that parameters and gradients may have.
template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, bf16> || std::same_as<T, fp16>;

static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2);

}  // namespace zero
