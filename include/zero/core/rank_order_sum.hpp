// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sum over ranks as this library's host communicators make it: in rank order, in float (double
// for double), rounded once. So the bits of a sum depend on the world size and on nothing else.

#include <zero/core/dtype.hpp>
#include <zero/core/size.hpp>

#include <algorithm>
#include <type_traits>

namespace zero {

/// Adds `n` elements of every rank's input in blocks; store(begin, count, values) takes each
/// block's sums, and may write over the inputs that it has read.
/// @tparam T element type; sums are float, or double for double, and are rounded once
/// @param ranks whose inputs are added, in this order
/// @param n elements
/// @param input (rank) -> T const*, the first of that rank's elements
/// @param store (Index begin, Index count, T const* values)
template <class T, class Input, class Store>
void rank_order_sum(int ranks, Index n, Input input, Store store) {
  using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;
  constexpr Index block = 512;
  Accumulator total[block];
  T rounded[block];
  for (Index begin = 0; begin < n; begin += block) {
    Index const count = std::min(block, n - begin);
    for (int rank = 0; rank < ranks; ++rank) {
      T const* const x = input(rank) + begin;
      if (rank == 0) {
        for (Index k = 0; k < count; ++k) total[k] = static_cast<Accumulator>(x[k]);
      } else {
        for (Index k = 0; k < count; ++k) total[k] += static_cast<Accumulator>(x[k]);
      }
    }
    for (Index k = 0; k < count; ++k) rounded[k] = static_cast<T>(total[k]);
    store(begin, count, rounded);
  }
}

}  // namespace zero
