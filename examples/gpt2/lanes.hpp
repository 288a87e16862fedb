// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums and maxima of a row, in sixteen lanes that are added at the end: a fixed order, so equal
// bits on every instruction set, and one that compilers turn into vector instructions without leave
// to reorder.

#include <gpt2/matrix.hpp>

#include <array>
#include <limits>
#include <span>

namespace gpt2 {

namespace detail {

inline constexpr Index num_lanes = 16;

/// Folds term(i), i < n, into lanes by `combine`, then the lanes into one value.
template <Real T, class Term, class Combine>
T fold(Index n, T start, Term term, Combine combine) {
  std::array<T, num_lanes> lanes;
  lanes.fill(start);
  Index i = 0;
  for (; i + num_lanes <= n; i += num_lanes) {
    for (Index lane = 0; lane < num_lanes; ++lane)
      lanes[at(lane)] = combine(lanes[at(lane)], term(i + lane));
  }
  for (Index lane = 0; i < n; ++i, ++lane) lanes[at(lane)] = combine(lanes[at(lane)], term(i));
  T result = start;
  for (T lane : lanes) result = combine(result, lane);
  return result;
}

}  // namespace detail

/// term(0) + ... + term(n - 1)
template <Real T, class Term>
T sum_of(Index n, Term term) {
  return detail::fold(n, T(0), term, [](T a, T b) { return a + b; });
}

/// The largest of n values; a NaN among them is passed over. Of none: the lowest number.
template <Real T>
T largest(T const* values, Index n) {
  return detail::fold(
      n, std::numeric_limits<T>::lowest(), [=](Index i) { return values[i]; },
      [](T a, T b) { return b > a ? b : a; });
}

}  // namespace gpt2
