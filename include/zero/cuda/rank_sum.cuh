// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels that read what several ranks hold: sums in rank order, in float (double for double),
// rounded once, and slices put in rank order. The host references are core/rank_order_sum.hpp and
// comm/threads.hpp; bits are the same.

#include <zero/cuda/pack.cuh>

#include <algorithm>
#include <type_traits>

namespace zero::cuda::detail {

/// Ranks that one kernel reads.
inline constexpr int most_ranks = 64;

/// One address a rank, passed by value.
template <class T>
struct RankPointers {
  T* of[most_ranks];
};

template <class T>
using SumType = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
__device__ SumType<T> summand(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return widen(x);
  }
}
template <class T>
__device__ T rounded_sum(SumType<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return narrow<T>(x);
  }
}

/// For i in [0, n): sum of from[q][i] over q, written to each of to[0..targets).
/// Bytes an element: ranks x sizeof(T) read, targets x sizeof(T) written.
/// @tparam Width elements of one access
template <int Width, class T>
__global__ void __launch_bounds__(block_threads)
    rank_sum_kernel(RankPointers<T const> from, int ranks, RankPointers<T> to, int targets,
                    Index n) {
  Index const i = (Index{blockIdx.x} * block_threads + Index{threadIdx.x}) * Width;
  if (i >= n) return;
  SumType<T> sum[Width];
  for (int q = 0; q < ranks; ++q) {
    // No streaming hint: what another GPU or stream has just written is read.
    Pack<T, Width> const p = *reinterpret_cast<Pack<T, Width> const*>(from.of[q] + i);
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      if (q == 0) {
        sum[j] = summand(p.x[j]);
      } else {
        sum[j] += summand(p.x[j]);
      }
    }
  }
  Pack<T, Width> result;
#pragma unroll
  for (int j = 0; j < Width; ++j) result.x[j] = rounded_sum<T>(sum[j]);
  for (int q = 0; q < targets; ++q) *reinterpret_cast<Pack<T, Width>*>(to.of[q] + i) = result;
}

/// to[q * n + i] = from[q][i]; a slice that lies there already is left alone.
/// Bytes an element: sizeof(T) read and written.
template <int Width, class T>
__global__ void __launch_bounds__(block_threads)
    rank_copy_kernel(RankPointers<T const> from, T* to, Index n) {
  T const* const source = from.of[blockIdx.y];
  T* const target = to + Index{blockIdx.y} * n;
  Index const i = (Index{blockIdx.x} * block_threads + Index{threadIdx.x}) * Width;
  if (i >= n || source == target) return;
  *reinterpret_cast<Pack<T, Width>*>(target + i) =
      *reinterpret_cast<Pack<T, Width> const*>(source + i);
}

/// Calls f(std::integral_constant<int, Width>) with 16 bytes where all of it allows it, else
/// with 1.
template <class T, class F>
void with_width(bool packed, F f) {
  if (packed) {
    f(std::integral_constant<int, static_cast<int>(16 / sizeof(T))>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

template <class T>
bool packs(RankPointers<T> const& pointers, int count, Index n) {
  constexpr int width = 16 / sizeof(T);
  bool result = n % width == 0;
  for (int q = 0; q < count; ++q) result = result && aligned<width>(pointers.of[q]);
  return result;
}

template <class T>
void rank_sum(cudaStream_t stream, RankPointers<T const> const& from, int ranks,
              RankPointers<T> const& to, int targets, Index n) {
  if (n == 0) return;
  with_width<T>(packs(from, ranks, n) && packs(to, targets, n), [&](auto width) {
    rank_sum_kernel<width.value>
        <<<blocks(n, Index{block_threads} * width.value, "rank_sum"), block_threads, 0, stream>>>(
            from, ranks, to, targets, n);
  });
  launched("rank_sum");
}

template <class T>
void rank_copy(cudaStream_t stream, RankPointers<T const> const& from, int ranks, T* to, Index n) {
  if (n == 0) return;
  bool const packed = packs(from, ranks, n) && aligned<16 / sizeof(T)>(to);
  with_width<T>(packed, [&](auto width) {
    dim3 const grid(blocks(n, Index{block_threads} * width.value, "rank_copy"),
                    static_cast<unsigned int>(ranks));
    rank_copy_kernel<width.value><<<grid, block_threads, 0, stream>>>(from, to, n);
  });
  launched("rank_copy");
}

}  // namespace zero::cuda::detail
