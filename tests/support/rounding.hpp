// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rounding to the 16-bit types without the library: from the definition, in double, where every
// step is exact.

#include <zero/core/dtype.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace zero_test {

/// x to `digits` significant binary digits, nearest, ties to even; below 2^least_exponent to
/// multiples of the smallest subnormal; from halfway beyond `largest` on to infinity.
inline double rounded(double x, int digits, int least_exponent, double largest) {
  if (x == 0.0 || !std::isfinite(x)) return x;
  int const exponent = std::max(std::ilogb(x), least_exponent);
  double const quantum = std::ldexp(1.0, exponent - (digits - 1));
  double const y = std::nearbyint(x / quantum) * quantum;
  if (std::abs(y) <= largest) return y;
  return std::copysign(std::numeric_limits<double>::infinity(), y);
}

/// The value that T keeps of x.
template <class T>
float stored(float x) {
  if constexpr (std::is_same_v<T, zero::bf16>) {
    return static_cast<float>(rounded(x, 8, -126, 0x1.fep127));
  } else if constexpr (std::is_same_v<T, zero::fp16>) {
    return static_cast<float>(rounded(x, 11, -14, 65504.0));
  } else {
    return x;
  }
}

}  // namespace zero_test
