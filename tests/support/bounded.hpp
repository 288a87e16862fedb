// SPDX-License-Identifier: Apache-2.0
#pragma once
// A number in double beside a bound on how far the same formula in float can be from it: running
// error analysis (Higham, Accuracy and Stability of Numerical Algorithms, section 3.3). A formula
// that is written over a type, once for this one, is its own reference and its own bound.

#include <cmath>
#include <limits>

namespace zero_test {

struct Bounded {
  double value = 0;
  double error = 0;

  Bounded() = default;
  /// A float that is met exactly.
  Bounded(double exact) : value(exact) {}
  Bounded(double v, double e) : value(v), error(e) {}

  /// One rounding to float of what may already be off by `error`.
  static Bounded rounded(double v, double e) {
    double const unit = std::ldexp(1.0, -24);
    double const least = std::numeric_limits<float>::denorm_min();
    return {v, e + unit * (std::abs(v) + e) + least};
  }
  friend Bounded operator+(Bounded a, Bounded b) {
    return rounded(a.value + b.value, a.error + b.error);
  }
  friend Bounded operator-(Bounded a, Bounded b) {
    return rounded(a.value - b.value, a.error + b.error);
  }
  friend Bounded operator*(Bounded a, Bounded b) {
    return rounded(a.value * b.value,
                   std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error);
  }
  friend Bounded operator/(Bounded a, Bounded b) {
    double const q = a.value / b.value;
    double const least = std::abs(b.value) - b.error;
    return rounded(q, least > 0 ? (a.error + std::abs(q) * b.error) / least
                                : std::numeric_limits<double>::infinity());
  }
};

/// The root of a number that is not negative.
inline Bounded root(Bounded a) {
  double const low = std::sqrt(std::fmax(a.value - a.error, 0.0));
  double const middle = std::sqrt(a.value);
  return Bounded::rounded(middle, std::fmax(middle - low, std::sqrt(a.value + a.error) - middle));
}
/// -1, 0 or 1; where the float may lie on the other side of 0, off by as much as that makes.
inline Bounded sign(Bounded a) {
  double const s = a.value > 0 ? 1 : a.value < 0 ? -1 : 0;
  return {s, a.error > 0 && std::abs(a.value) <= a.error ? 2.0 : 0.0};
}

}  // namespace zero_test
