// SPDX-License-Identifier: Apache-2.0
#include <zero/core/dtype.hpp>
#include <zero/core/noise.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using zero::bf16;
using zero::fp16;

constexpr std::uint32_t num_patterns = 65536;

/// A format by its numbers alone. Sign, then exponent, then fraction.
struct Format {
  int fraction_bits;
  int bias;
  std::uint32_t infinity;  ///< bits of +infinity; above it, NaN

  /// The value of non-negative bits up to infinity's; infinity's own stand for the value that would
  /// follow the largest finite one, which is what rounding compares with.
  double value(std::uint32_t bits) const {
    int const exponent = static_cast<int>(bits >> fraction_bits);
    double const fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1u));
    if (exponent == 0) return std::ldexp(fraction, 1 - bias - fraction_bits);
    return std::ldexp(fraction + std::ldexp(1.0, fraction_bits), exponent - bias - fraction_bits);
  }

  /// Nearest, ties to even, by search among all values in double.
  std::uint16_t nearest(float x) const {
    std::uint32_t const sign = std::signbit(x) ? 0x8000u : 0u;
    double const magnitude = std::abs(double{x});
    std::uint32_t low = 0;
    std::uint32_t high = infinity;
    if (magnitude >= value(high)) return static_cast<std::uint16_t>(sign | infinity);
    while (high - low > 1) {
      std::uint32_t const middle = (low + high) / 2;
      (magnitude >= value(middle) ? low : high) = middle;
    }
    double const below = magnitude - value(low);
    double const above = value(high) - magnitude;
    bool const up = below > above || (below == above && (low & 1u) != 0);
    return static_cast<std::uint16_t>(sign | (up ? high : low));
  }
};

template <class T>
constexpr Format format_of =
    std::is_same_v<T, bf16> ? Format{7, 127, 0x7f80u} : Format{10, 15, 0x7c00u};

template <class T>
T from_bits(std::uint32_t bits) {
  T x(0.0f);
  x.bits = static_cast<std::uint16_t>(bits);
  return x;
}

template <class T>
constexpr bool is_nan(std::uint16_t bits) {
  return (bits & 0x7fffu) > format_of<T>.infinity;
}

TEST_CASE_TEMPLATE("every pattern of a 16-bit type has its value and comes back", T, bf16, fp16) {
  constexpr Format format = format_of<T>;
  std::uint32_t wrong_values = 0;
  std::uint32_t lost = 0;
  for (std::uint32_t bits = 0; bits < num_patterns; ++bits) {
    float const x = static_cast<float>(from_bits<T>(bits));
    std::uint16_t const back = T(x).bits;
    std::uint32_t const magnitude = bits & 0x7fffu;
    bool const negative = (bits & 0x8000u) != 0;
    if (magnitude > format.infinity) {
      wrong_values += !std::isnan(x) || std::signbit(x) != negative ? 1u : 0u;
      // Sign and payload stay; a signalling NaN becomes quiet.
      std::uint32_t const quiet = 1u << (format.fraction_bits - 1);
      lost += back != (bits | quiet) ? 1u : 0u;
      continue;
    }
    double const expected = magnitude == format.infinity ? std::numeric_limits<double>::infinity()
                                                         : format.value(magnitude);
    wrong_values += double{x} != (negative ? -expected : expected) || std::signbit(x) != negative;
    lost += back != bits ? 1u : 0u;
  }
  CHECK(wrong_values == 0);
  CHECK(lost == 0);
}

TEST_CASE_TEMPLATE("a float becomes the nearest value, ties to even", T, bf16, fp16) {
  constexpr Format format = format_of<T>;
  std::uint32_t tried = 0;
  std::uint32_t wrong = 0;
  float first_wrong = 0;
  auto const check = [&](float x) {
    for (float signed_x : {x, -x}) {
      ++tried;
      if (T(signed_x).bits == format.nearest(signed_x)) continue;
      if (wrong++ == 0) first_wrong = signed_x;
    }
  };
  float const infinity = std::numeric_limits<float>::infinity();
  // Every value, every tie between neighbours (the last: where infinity begins), and the floats
  // beside them.
  for (std::uint32_t bits = 0; bits < format.infinity; ++bits) {
    double const here = format.value(bits);
    double const tie = (here + format.value(bits + 1)) / 2;
    for (double centre : {here, tie}) {
      auto const x = static_cast<float>(centre);
      check(x);
      check(std::nextafter(x, 0.0f));
      check(std::nextafter(x, infinity));
    }
  }
  check(infinity);
  check(std::numeric_limits<float>::max());
  check(std::numeric_limits<float>::denorm_min());
  for (zero::Index i = 0; i < 200'000; ++i) {
    auto const bits = static_cast<std::uint32_t>(zero::noise_bits(1, 0, i)) & 0x7fffffffu;
    if (bits <= 0x7f800000u) check(std::bit_cast<float>(bits));
  }
  CAPTURE(first_wrong);
  CHECK(wrong == 0);
  CHECK(tried > 500'000);
}

TEST_CASE_TEMPLATE("every NaN becomes a quiet NaN of its sign", T, bf16, fp16) {
  // Payloads in the bits that are cut off, too: those must not become an infinity.
  for (std::uint32_t payload = 1; payload < 0x800000u; payload = payload * 3 + 1) {
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      std::uint16_t const bits = T(std::bit_cast<float>(sign | 0x7f800000u | payload)).bits;
      CAPTURE(payload);
      CHECK(is_nan<T>(bits));
      CHECK((bits >> 15) == (sign >> 31));
      CHECK((bits & (1u << (format_of<T>.fraction_bits - 1))) != 0);
    }
  }
}

static_assert(is_nan<fp16>(fp16(std::numeric_limits<float>::quiet_NaN()).bits));
static_assert(is_nan<bf16>(bf16(std::numeric_limits<float>::quiet_NaN()).bits));
static_assert(fp16(5.9604645e-8f).bits == 1 && static_cast<float>(fp16(0x1.8p-24f)) == 0x1p-23f);

TEST_CASE("known values") {
  CHECK(bf16(1.0f).bits == 0x3f80);
  CHECK(bf16(-2.0f).bits == 0xc000);
  CHECK(bf16(3.38953139e38f).bits == 0x7f7f);   // the largest
  CHECK(bf16(3.3961777e38f).bits == 0x7f80);    // above the tie with infinity
  CHECK(bf16(1.00390625f).bits == 0x3f80);      // 1 + 2^-8, a tie, down to even
  CHECK(bf16(1.01171875f).bits == 0x3f82);      // 1 + 3 x 2^-8, a tie, up to even
  CHECK(bf16(1.000244140625f).bits == 0x3f80);  // case N06
  CHECK(fp16(1.0f).bits == 0x3c00);
  CHECK(fp16(65504.0f).bits == 0x7bff);  // the largest
  CHECK(fp16(65519.996f).bits == 0x7bff);
  CHECK(fp16(65520.0f).bits == 0x7c00);       // the tie with infinity
  CHECK(fp16(5.9604645e-8f).bits == 0x0001);  // 2^-24, the smallest
  CHECK(fp16(2.9802322e-8f).bits == 0x0000);  // 2^-25, a tie with 0
  CHECK(fp16(2.9802326e-8f).bits == 0x0001);
  CHECK(fp16(6.097555e-5f).bits == 0x03ff);   // the largest subnormal
  CHECK(fp16(6.1035156e-5f).bits == 0x0400);  // 2^-14, the smallest normal
  CHECK(fp16(-0.0f).bits == 0x8000);
}

TEST_CASE("conversions are constant expressions and never implicit") {
  static_assert(bf16(1.5f).bits == 0x3fc0 && static_cast<float>(bf16(1.5f)) == 1.5f);
  static_assert(fp16(1.5f).bits == 0x3e00 && static_cast<float>(fp16(1.5f)) == 1.5f);
  static_assert(!std::is_convertible_v<float, bf16> && !std::is_convertible_v<bf16, float>);
  static_assert(!std::is_convertible_v<float, fp16> && !std::is_convertible_v<fp16, float>);
  static_assert(zero::Scalar<float> && zero::Scalar<bf16> && zero::Scalar<fp16>);
  static_assert(!zero::Scalar<double> && !zero::Scalar<int>);
}

}  // namespace
