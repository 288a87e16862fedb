// SPDX-License-Identifier: Apache-2.0
#pragma once
// exp for layers. In float a polynomial without branches, which compilers vectorise: softmax and
// GELU take one exponential an element, and the library's expf would cost more than the matrix
// products do. In double std::exp.

#include <bit>
#include <cmath>
#include <cstdint>

namespace gpt2 {

namespace detail {

/// x kept within [-limit, limit]; NaN stays NaN. Compared as whole numbers, in which the order of
/// positive floats is that of their bits: a comparison of floats may trap, and compilers then keep
/// a branch.
inline float within(float x, float limit) {
  auto const bits = std::bit_cast<std::int32_t>(x);
  auto const most = std::bit_cast<std::int32_t>(limit);
  std::int32_t const magnitude = bits & 0x7fffffff;
  std::int32_t const infinity = 0x7f800000;
  std::int32_t const kept =
      magnitude > most ? (magnitude > infinity ? magnitude : most) : magnitude;
  return std::bit_cast<float>((bits ^ magnitude) | kept);
}

}  // namespace detail

/// e^x within 2 units in the last place for x in [-87, 87]; beyond, the value at the nearer end.
/// NaN stays NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its series to r^7 / 7! (remainder below 6e-9 of the
/// value), and 2^n by writing n into the exponent. ln 2 is subtracted in two parts, of which the
/// upper has few enough bits that n times it is exact.
inline float exponential(float x) {
  x = detail::within(x, 87.0f);
  constexpr float to_integer = 12582912.0f;  // 1.5 x 2^23: the sum's lowest bits are a whole number
  float const shifted = x * 1.44269504f + to_integer;
  float const n = shifted - to_integer;
  float const r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = (p * r) * r + r + 1.0f;
  std::uint32_t const exponent = (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u;
  return p * std::bit_cast<float>(exponent);
}

inline double exponential(double x) { return std::exp(x); }

}  // namespace gpt2
