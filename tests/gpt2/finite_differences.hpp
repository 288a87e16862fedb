// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gradients held against central differences of the function itself, element by element, with
// bounds that are computed and printed.

#include <zero/core/noise.hpp>
#include <zero/core/size.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace test {

using zero::at;
using zero::Index;

/// Values uniform in [low, high), each a float, so that float and double layers see the same
/// numbers.
inline std::vector<double> values(Index count, std::uint64_t seed, double low = -1,
                                  double high = 1) {
  std::vector<double> result(at(count));
  for (Index i = 0; i < count; ++i) {
    result[at(i)] = static_cast<float>(low + (high - low) * zero::noise_uniform(seed, 0, i));
  }
  return result;
}

template <class T>
std::vector<T> converted(std::span<double const> from) {
  std::vector<T> result(from.size());
  std::ranges::transform(from, result.begin(), [](double v) { return static_cast<T>(v); });
  return result;
}

/// sum of weights[i] * out[i]: the scalar whose gradient by `out` is `weights`.
inline double weighted_sum(std::span<double const> weights, std::span<double const> out) {
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) sum += weights[i] * out[i];
  return sum;
}

/// Checks `gradient` against differences of f by each element of x.
///
/// The difference D(h) = (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / (12 h) is off by
/// - the Taylor remainder, of order h^4: D(2h) has 16 times that of D(h), so |D(2h) - D(h)| is 15
/// times it, up to
///   the next order; allowed are 2/15 of the difference;
/// - rounding: f is computed within `magnitude` x `terms` x 2^-53, where `magnitude` bounds the sum
/// of absolute terms
///   of f and `terms` the operations one result depends on; D takes 18/12 of that over h.
/// The bound must itself stay below 1e-7 x magnitude: a bound that everything passes proves
/// nothing.
template <class F>
void check_differences(std::string const& what, F f, std::span<double> x,
                       std::span<double const> gradient, double magnitude, double terms) {
  REQUIRE(x.size() == gradient.size());
  double const h = 1.0 / 1024;
  double const rounding = 1.5 * terms * magnitude * std::numeric_limits<double>::epsilon() / h;
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const kept = x[i];
    auto const at_offset = [&](double offset) {
      x[i] = kept + offset;
      double const result = f();
      x[i] = kept;
      return result;
    };
    double const one = at_offset(h) - at_offset(-h);
    double const two = at_offset(2 * h) - at_offset(-2 * h);
    double const four = at_offset(4 * h) - at_offset(-4 * h);
    double const narrow = (8 * one - two) / (12 * h);
    double const wide = (8 * two - four) / (24 * h);
    double const bound = std::abs(wide - narrow) * 2 / 15 + rounding;
    double const error = std::abs(gradient[i] - narrow);
    worst = std::max(worst, error / bound);
    INFO(what << "[" << i << "]: gradient " << gradient[i] << ", difference " << narrow
              << ", bound " << bound);
    REQUIRE(bound < 1e-7 * magnitude);
    REQUIRE(error <= bound);
  }
  MESSAGE(what << ": " << x.size() << " elements, largest error / bound " << worst);
}

/// Checks a float result against the double one: |difference| <= terms x 2^-24 x magnitude for each
/// element.
/// @param terms roundings that one element goes through, at most
/// @param magnitude bound of the sum of absolute terms of any element
inline void check_rounding(std::string const& what, std::span<float const> result,
                           std::span<double const> exact, double magnitude, double terms) {
  REQUIRE(result.size() == exact.size());
  double const bound = terms * magnitude * std::numeric_limits<float>::epsilon() / 2;
  double worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double const error = std::abs(static_cast<double>(result[i]) - exact[i]);
    worst = std::max(worst, error / bound);
    INFO(what << "[" << i << "]: float " << result[i] << ", double " << exact[i] << ", bound "
              << bound);
    REQUIRE(error <= bound);
  }
  MESSAGE(what << " in float: " << exact.size() << " elements, largest error / bound " << worst);
}

/// The largest absolute value.
inline double largest(std::span<double const> x) {
  double most = 0;
  for (double v : x) most = std::max(most, std::abs(v));
  return most;
}

}  // namespace test
