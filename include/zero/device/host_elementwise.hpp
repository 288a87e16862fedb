// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element-wise work for every device that runs host code. These loops are also the reference for
// other devices. Where a stream has workers they share what reads or writes much; no bit depends on
// how many they are.

#include <zero/core/instruction_set.hpp>
#include <zero/device/elementwise.hpp>
#include <zero/device/host.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace zero {

// Views of no elements may lie nowhere, and memset and memcpy take no null, even for no bytes.

/// to[i] = 0, on the stream, in the device's memory.
template <class T, RunsHostCode D>
void fill_zero(typename D::Stream& stream, View<T, D> to) {
  if (to.size() == 0) return;
  stream.enqueue([to] {
    std::memset(static_cast<void*>(D::resolve(to.address())), 0, at(to.size()) * sizeof(T));
  });
}

/// The bits of `from`, of equal size, on the stream, within the device's memory.
template <class T, RunsHostCode D>
void copy(typename D::Stream& stream, View<T, D> to, View<T const, D> from) {
  if (to.size() == 0) return;
  stream.enqueue([to, from] {
    std::memcpy(static_cast<void*>(D::resolve(to.address())), D::resolve(from.address()),
                at(to.size()) * sizeof(T));
  });
}

/// to[i] = from[i], through float, rounded once; sizes are equal. On the stream.
template <class A, class B, RunsHostCode D>
void assign(typename D::Stream& stream, View<A, D> to, View<B const, D> from) {
  stream.enqueue([to, from, workers = workers_of(stream)] {
    A* const a = D::resolve(to.address());
    B const* const b = D::resolve(from.address());
    workers.run(from.size(), [=](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) a[i] = static_cast<A>(static_cast<float>(b[i]));
    });
  });
}

/// to[i] += from[i] in float, rounded once; sizes are equal. On the stream.
template <class A, class B, RunsHostCode D>
void add(typename D::Stream& stream, View<A, D> to, View<B const, D> from) {
  stream.enqueue([to, from, workers = workers_of(stream)] {
    A* const a = D::resolve(to.address());
    B const* const b = D::resolve(from.address());
    workers.run(from.size(), [=](Index begin, Index end) {
      for (Index i = begin; i < end; ++i)
        a[i] = static_cast<A>(static_cast<float>(a[i]) + static_cast<float>(b[i]));
    });
  });
}

/// to.size() elements from host memory, which outlives the work, on the stream.
template <class T, RunsHostCode D>
void copy_in(typename D::Stream& stream, View<T, D> to, T const* host) {
  if (to.size() == 0) return;
  stream.enqueue([to, host] {
    std::memcpy(static_cast<void*>(D::resolve(to.address())), host, at(to.size()) * sizeof(T));
  });
}

/// from.size() elements to host memory, which outlives the work, on the stream.
template <class T, RunsHostCode D>
void copy_out(typename D::Stream& stream, std::remove_const_t<T>* host, View<T, D> from) {
  if (from.size() == 0) return;
  stream.enqueue([host, from] {
    std::memcpy(static_cast<void*>(host), D::resolve(from.address()), at(from.size()) * sizeof(T));
  });
}

namespace detail {

inline constexpr Index squares_lanes = 1024;               // running sums of a tile
inline constexpr Index squares_tile = 16 * squares_lanes;  // elements
inline constexpr Index squares_tiles = 8;                  // of a group
inline constexpr Index squares_totals = 256;               // running sums of groups

/// Neighbours added until one sum is left. @param count a power of two
inline double add_pairwise(double* sums, Index count) {
  for (; count > 1; count /= 2) {
    for (Index k = 0; k < count / 2; ++k) sums[k] = sums[2 * k] + sums[2 * k + 1];
  }
  return sums[0];
}

#if ZERO_HOST_VECTORS
#define ZERO_ALWAYS_INLINE __attribute__((always_inline)) inline
#else
#define ZERO_ALWAYS_INLINE inline
#endif

/// Of at most one tile. What is not there counts as 0, which changes no bit of a sum of squares.
template <class T>
ZERO_ALWAYS_INLINE double squares_of_tile(T const* x, Index n) {
  constexpr Index held = 16;  // sums that stay in registers over all rows: less to read and write
  double sums[squares_lanes];
  Index const lanes = static_cast<Index>(std::bit_ceil(at(std::min(n, squares_lanes))));
  Index const rows_end = n - n % squares_lanes;  // of whole rows
  if (rows_end == 0) std::fill_n(sums, at(lanes), 0.0);
  for (Index lane = 0; rows_end > 0 && lane < squares_lanes; lane += held) {
    double kept[held] = {};
    for (Index row = lane; row < rows_end; row += squares_lanes) {
      for (Index k = 0; k < held; ++k) {
        double const v = static_cast<double>(static_cast<float>(x[row + k]));
        kept[k] += v * v;
      }
    }
    std::copy_n(kept, held, sums + lane);
  }
  for (Index i = rows_end; i < n; ++i) {
    double const v = static_cast<double>(static_cast<float>(x[i]));
    sums[i - rows_end] += v * v;
  }
  return add_pairwise(sums, lanes);
}

/// Of at most one group: its tiles, in order.
template <class T>
ZERO_ALWAYS_INLINE double squares_of_tiles(T const* x, Index n) {
  double sum = 0;
  for (Index begin = 0; begin < n; begin += squares_tile)
    sum += squares_of_tile(x + begin, std::min(squares_tile, n - begin));
  return sum;
}

#undef ZERO_ALWAYS_INLINE

#if ZERO_HOST_VECTORS
// The same loop for wider registers.
template <class T>
__attribute__((target("avx2"))) double squares_of_group_avx2(T const* x, Index n) {
  return squares_of_tiles(x, n);
}
#endif

/// Of at most one group, with the instructions of `set`: the same bits with each.
template <class T>
double squares_of_group(T const* x, Index n, InstructionSet set) {
#if ZERO_HOST_VECTORS
  if (set != InstructionSet::plain) return squares_of_group_avx2(x, n);
#endif
  return squares_of_tiles(x, n);
}

/// Sum of x[i]^2 over n elements. A tile of 16,384 has 1,024 running sums, element i goes to sum i
/// mod 1,024, and neighbours are added pairwise; 8 tiles in order are a group; group g goes to
/// running total g mod 256, and totals are added pairwise as well. A device can make many of these
/// sums at once, and reads memory a tile after the other. Squares of floats are exact in double and
/// cannot overflow it, so the sum is finite exactly when every element is.
/// @param workers share the groups, which are added in their order whoever has made them
/// @param set one that this processor has
template <class T>
double sum_of_squares(T const* x, Index n, WorkersOf const& workers = {},
                      InstructionSet set = widest_instruction_set()) {
  constexpr Index group = squares_tiles * squares_tile;
  double totals[squares_totals] = {};
  double sums[squares_totals];
  for (Index begin = 0; begin < n; begin += squares_totals * group) {
    T const* const turn = x + begin;
    Index const count = std::min(n - begin, squares_totals * group);
    workers.run(count, [&](Index from, Index to) {
      for (Index g = (from + group - 1) / group; g * group < to; ++g)
        sums[g] = squares_of_group(turn + g * group, std::min(group, count - g * group), set);
    });
    for (Index g = 0; g * group < count; ++g) totals[g] += sums[g];
  }
  Index const groups = (n + group - 1) / group;
  return add_pairwise(
      totals, static_cast<Index>(std::bit_ceil(at(std::clamp(groups, Index{1}, squares_totals)))));
}

}  // namespace detail

/// record[0] += the sum of from[i]^2, in double, in an order that depends on from.size() alone, a
/// multiple of 64; record[1] = max(record[1], mark + 1) where that is not finite. On the stream.
template <class T, RunsHostCode D>
void add_squares(typename D::Stream& stream, View<T const, D> from, View<double, D> record,
                 Index mark) {
  stream.enqueue([from, record, mark, workers = workers_of(stream)] {
    double* const out = D::resolve(record.address());
    double const sum = detail::sum_of_squares(D::resolve(from.address()), from.size(), workers);
    out[0] += sum;
    if (!std::isfinite(sum)) out[1] = std::max(out[1], static_cast<double>(mark + 1));
  });
}

static_assert(HasElementwise<Host, float, float> && HasElementwise<Host, bf16, bf16> &&
              HasElementwise<Host, fp16, fp16>);
static_assert(CanCopy<Host, bf16> && CanCopy<Host, double>);

}  // namespace zero
