// SPDX-License-Identifier: Apache-2.0
#include <zero/core/noise.hpp>

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <vector>

namespace {

using zero::at;
using zero::Index;

constexpr Index many = 200'000;

TEST_CASE("mix is SplitMix64: its published first output for seed 1234567") {
  static_assert(zero::mix(1234567) == 6457827717110365317u);
  static_assert(zero::mix(0) == 16294208416658607535u);
  static_assert(zero::mix(1, 2) == 0xbcd9dbb49673066bu);
  static_assert(zero::mix(2, 1) == 0xe06dd043328bd285u);
}

TEST_CASE("noise is fixed for all time: a later library starts a model from the same values") {
  struct Golden {
    std::uint64_t seed;
    Index tensor;
    Index element;
    std::uint64_t bits;
    double uniform;
    double normal;
  };
  // Computed apart, in exact integers and double.
  std::array const goldens{
      Golden{1, 0, 0, 0xe28195ddd9ee4956u, 0.8847898165349133, 0.13724914932873378},
      Golden{1, 0, 1, 0x3fa25e1657e024c1u, 0.2485712818669304, 1.287962862854164},
      Golden{1, 1, 0, 0xc965d6348c188782u, 0.7867101553239042, 0.6660347093886095},
      Golden{2, 0, 0, 0x90a5cb3b55b40acfu, 0.5650298137531566, -1.062949543878761},
      Golden{0xdeadbeefu, 12345, (Index{1} << 40) + 7, 0x5fad61cd4d35f6c6u, 0.37373934995886043,
             -0.07682432028084635}};
  for (Golden const& g : goldens) {
    CHECK(zero::noise_bits(g.seed, g.tensor, g.element) == g.bits);
    CHECK(std::abs(zero::noise_uniform(g.seed, g.tensor, g.element) - g.uniform) < 3e-16);
    CHECK(std::abs(zero::noise_normal(g.seed, g.tensor, g.element) - g.normal) < 1e-14);
  }
}

TEST_CASE("uniform noise has the moments of the uniform distribution and fills its bins evenly") {
  double sum = 0;
  double squares = 0;
  double neighbours = 0;
  double before = 0.5;
  std::array<Index, 64> bins{};
  for (Index i = 0; i < many; ++i) {
    double const u = zero::noise_uniform(3, 5, i);
    sum += u;
    squares += u * u;
    neighbours += (u - 0.5) * (before - 0.5);
    before = u;
    ++bins[at(static_cast<Index>(u * 64))];
  }
  double const n = many;
  // Six deviations: of the mean sqrt(1/12n), of the mean square sqrt(4/45n), of the mean product of
  // neighbours 1/(12 sqrt n).
  CHECK(std::abs(sum / n - 0.5) < 6 * std::sqrt(1 / (12 * n)));
  CHECK(std::abs(squares / n - 1.0 / 3) < 6 * std::sqrt(4 / (45 * n)));
  CHECK(std::abs(neighbours / n) < 6 / (12 * std::sqrt(n)));
  double chi_square = 0;
  for (Index count : bins) {
    double const expected = n / 64;
    chi_square += std::pow(static_cast<double>(count) - expected, 2) / expected;
  }
  CHECK(chi_square > 63 - 6 * std::sqrt(2.0 * 63));
  CHECK(chi_square < 63 + 6 * std::sqrt(2.0 * 63));
}

TEST_CASE("normal noise has the first four moments of the normal distribution") {
  std::array<double, 5> moments{};
  for (Index i = 0; i < many; ++i) {
    double const x = zero::noise_normal(7, 2, i);
    double power = 1;
    for (double& moment : moments) {
      moment += power;
      power *= x;
    }
  }
  double const n = many;
  // The k-th mean power of n normal numbers has the variance (m_2k - m_k^2) / n with m = 1, 0, 1,
  // 0, 3, 0, 15, 0, 105.
  std::array<double, 5> const expected{1, 0, 1, 0, 3};
  std::array<double, 5> const variance{0, 1, 2, 15, 96};
  for (std::size_t k = 1; k < 5; ++k) {
    CAPTURE(k);
    CHECK(std::abs(moments[k] / n - expected[k]) < 6 * std::sqrt(variance[k] / n));
  }
}

TEST_CASE("seed, tensor and element are independent: each bit of each moves half of all bits") {
  auto const moved = [](auto change) {
    std::array<Index, 64> flips{};
    Index const trials = 400;
    for (Index i = 0; i < trials; ++i) {
      auto const seed = static_cast<std::uint64_t>(i);
      std::uint64_t const difference =
          zero::noise_bits(seed, 3 * i, 5 * i) ^ change(seed, 3 * i, 5 * i);
      for (std::size_t b = 0; b < 64; ++b) flips[b] += static_cast<Index>(difference >> b & 1u);
    }
    for (Index count : flips) {  // binomial: mean 200, deviation 10
      if (std::abs(count - trials / 2) > 60) return false;
    }
    return true;
  };
  for (int bit = 0; bit < 63; ++bit) {
    CAPTURE(bit);
    Index const flip = Index{1} << bit;
    CHECK(moved([&](std::uint64_t s, Index t, Index e) {
      return zero::noise_bits(s ^ static_cast<std::uint64_t>(flip), t, e);
    }));
    CHECK(
        moved([&](std::uint64_t s, Index t, Index e) { return zero::noise_bits(s, t ^ flip, e); }));
    CHECK(
        moved([&](std::uint64_t s, Index t, Index e) { return zero::noise_bits(s, t, e ^ flip); }));
  }
}

TEST_CASE("seed, tensor and element are not interchangeable") {
  CHECK(zero::noise_bits(1, 2, 3) != zero::noise_bits(1, 3, 2));
  CHECK(zero::noise_bits(1, 2, 3) != zero::noise_bits(2, 1, 3));
  CHECK(zero::noise_bits(1, 2, 3) != zero::noise_bits(3, 2, 1));
}

/// The number that y = x ^ (x >> shift) came from.
constexpr std::uint64_t unshifted(std::uint64_t y, int shift) {
  std::uint64_t x = y;
  for (int i = 0; i < 64 / shift; ++i) x = y ^ (x >> shift);
  return x;
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration.
constexpr std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}

constexpr std::uint64_t unmixed(std::uint64_t y) {
  std::uint64_t x = unshifted(y, 31) * inverse(0x94d049bb133111ebu);
  x = unshifted(x, 27) * inverse(0xbf58476d1ce4e5b9u);
  return unshifted(x, 30) - 0x9e3779b97f4a7c15u;
}

/// The element of tensor 0 whose noise is `bits`.
constexpr Index element_of(std::uint64_t bits, std::uint64_t seed) {
  return std::bit_cast<Index>(unmixed(bits) ^ zero::mix(zero::mix(seed, 0)));
}

TEST_CASE("uniform noise never is 0 or 1, at the ends of its bits either") {
  static_assert(unmixed(zero::mix(987654321)) == 987654321);
  for (std::uint64_t seed : {2u, 3u, 4u}) {
    for (std::uint64_t bits : {std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0} << 12,
                               ~std::uint64_t{0} << 11, std::uint64_t{1} << 11}) {
      CAPTURE(bits);
      Index const element = element_of(bits, seed);
      REQUIRE(zero::noise_bits(seed, 0, element) == bits);
      double const u = zero::noise_uniform(seed, 0, element);
      CHECK(u > 0);
      CHECK(u < 1);
      double const x = zero::noise_normal(seed, 0, element);
      CHECK(std::isfinite(x));
      CHECK(std::abs(x) < 9);
    }
  }
}

}  // namespace
