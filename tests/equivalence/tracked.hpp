// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers in double that know how far the same computation in float may be from them.
//
// A float operation returns the true result of its operands times (1 + d), |d| <= u, u = 2^-24
// (round to nearest), or within 2^-150 of it where it underflows. With operands a and b known to
// within ea and eb, to first and second order:
//   a + b   off by at most  ea + eb                               =: e, and u (|a + b| + e) for
//                                                                     the rounding of what is there
//   a b     off by at most  |a| eb + |b| ea + ea eb               =: e, and u (|a b| + e) + 2^-150
//   a / b   off by at most  (ea + |a / b| eb) / (|b| - eb)        =: e, and u (|a / b| + e) +
//   2^-150 |a|     off by at most  ea to 16 bits: bf16 keeps 8 significant bits, so u16 = 2^-8: off
//   by ea, and u16 (|a| + ea)
// and a result that is known exactly and that the type holds is not rounded at all.
// The doubles themselves are off by some 2^-53 a operation, which `slack` covers.

#include <cmath>

namespace zero_test {

inline constexpr double u32 = 0x1p-24;
inline constexpr double u16 = 0x1p-8;
inline constexpr double underflow = 0x1p-150;
inline constexpr double slack = 1 + 1e-6;

/// A value, and a bound on the distance of float's value from it.
struct Tracked {
  double value = 0;
  double error = 0;

  Tracked() = default;
  /// A float that is known exactly.
  explicit Tracked(double exact) : value(exact) {}
  Tracked(double v, double e) : value(v), error(e) {}
  explicit operator double() const { return value; }

  /// Rounded to float (u32) or bf16 (u16).
  Tracked rounded(double u) const {
    if (error == 0 && held(u)) return *this;
    return {value, error + u * (std::fabs(value) + error)};
  }

  friend Tracked operator-(Tracked const& a) { return {-a.value, a.error}; }
  friend bool operator<(Tracked const& a, Tracked const& b) { return a.value < b.value; }
  friend Tracked operator+(Tracked const& a, Tracked const& b) {
    return Tracked(a.value + b.value, a.error + b.error).rounded(u32);
  }
  friend Tracked operator-(Tracked const& a, Tracked const& b) { return a + -b; }
  friend Tracked operator*(Tracked const& a, Tracked const& b) {
    double const e =
        std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error;
    return Tracked(a.value * b.value, e + underflow).rounded(u32);
  }
  friend Tracked operator/(Tracked const& a, Tracked const& b) {
    double const quotient = a.value / b.value;
    double const e = (a.error + std::fabs(quotient) * b.error) / (std::fabs(b.value) - b.error);
    return Tracked(quotient, e + underflow).rounded(u32);
  }

 private:
  /// Whether a type of that roundoff holds the value: a multiple of its last place.
  bool held(double u) const {
    if (value == 0) return true;
    double const places = std::ldexp(value / std::exp2(std::ilogb(value)), u == u16 ? 7 : 23);
    return places == std::nearbyint(places) && std::fabs(value) > 0x1p-100;
  }
};

/// A gradient that a model adds to: float sums, kept in float or in 16 bits.
template <bool Halves>
struct TrackedGradient {
  Tracked sum;

  TrackedGradient() = default;
  explicit TrackedGradient(float exact) : sum(static_cast<double>(exact)) {}
};

template <bool Halves>
TrackedGradient<Halves> added(TrackedGradient<Halves> const& gradient, Tracked const& value) {
  TrackedGradient<Halves> result;
  result.sum = gradient.sum + value;
  if (Halves) result.sum = result.sum.rounded(u16);
  return result;
}

}  // namespace zero_test
