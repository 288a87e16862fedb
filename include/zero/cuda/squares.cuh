// SPDX-License-Identifier: Apache-2.0
#pragma once
// add_squares: the sum of squares and whether all is finite, in one pass and one launch. The host
// reference is in device/host_elementwise.hpp; the order of sums is the same, and so are the bits.

#include <zero/cuda/pack.cuh>
#include <zero/cuda/transfer.hpp>
#include <zero/device/host_elementwise.hpp>

#include <algorithm>

namespace zero {

namespace cuda::detail {

inline constexpr Index squares_tile = 4096;  // elements
inline constexpr int squares_fan = 64;       // tiles of a group, groups of a block of the sum
inline constexpr int squares_lanes = 16;     // running sums of a tile
inline constexpr Index squares_group = squares_tile * squares_fan;
inline constexpr Index squares_launch = squares_group * squares_fan * squares_fan;  // elements

/// What the thread blocks of a launch leave for the last of them.
struct SquaresWorkspace {
  unsigned int arrived;  // blocks; 0 between launches
  double carried;        // sum of the earlier launches of one call
  double groups[squares_fan * squares_fan];
};

/// A thread's part of a tile: it reads 16 bytes at a time, so it holds as many neighbouring lanes
/// as that has elements. Returns lane 0's sum of the whole tile, in the tile's first thread.
template <class T>
__device__ double tile_sum(T const* x, Index begin, Index end, int part) {
  constexpr int width = 16 / sizeof(T);
  constexpr int parts = squares_lanes / width;
  double sum[width] = {};
  auto const take = [&](Pack<T, width> const& p) {
#pragma unroll
    for (int j = 0; j < width; ++j) {
      // The square is exact, so that the fused operation rounds as the sum of it would.
      double const v = static_cast<double>(widen(p.x[j]));
      sum[j] = __fma_rn(v, v, sum[j]);
    }
  };
  Index i = begin + part * width;
  constexpr int deep = 16;
  for (; i + (deep - 1) * squares_lanes < end; i += deep * squares_lanes) {
    Pack<T, width> p[deep];
#pragma unroll
    for (int k = 0; k < deep; ++k) p[k] = load<width>(x + i + k * squares_lanes);
#pragma unroll
    for (int k = 0; k < deep; ++k) take(p[k]);
  }
  for (; i < end; i += squares_lanes) take(load<width>(x + i));
#pragma unroll
  for (int apart = parts / 2; apart > 0; apart /= 2) {
#pragma unroll
    for (int j = 0; j < width; ++j)
      sum[j] = __dadd_rn(sum[j], __shfl_down_sync(0xffffffffu, sum[j], apart, parts));
  }
#pragma unroll
  for (int apart = width / 2; apart > 0; apart /= 2) {
#pragma unroll
    for (int j = 0; j < apart; ++j) sum[j] = __dadd_rn(sum[j], sum[j + apart]);
  }
  return sum[0];
}

template <class T>
inline constexpr int squares_threads = squares_fan* squares_lanes* static_cast<int>(sizeof(T)) / 16;

/// A block makes the sum of one group; the last one that is done adds the groups up.
/// Bytes an element: sizeof(T) read.
/// @param first, last launch of a call
template <class T>
__global__ void __launch_bounds__(squares_threads<T>)
    squares_kernel(T const* x, Index n, SquaresWorkspace* workspace, double* record, double unit,
                   bool first, bool last) {
  constexpr int parts = squares_lanes * static_cast<int>(sizeof(T)) / 16;
  __shared__ double sums[squares_fan];
  __shared__ bool is_last;
  int const thread = static_cast<int>(threadIdx.x);
  int const tile = thread / parts;
  Index const begin = Index{blockIdx.x} * squares_group + tile * squares_tile;
  Index const end = min(begin + squares_tile, n);
  double const sum = tile_sum(x, min(begin, end), end, thread % parts);
  if (thread % parts == 0) sums[tile] = sum;
  __syncthreads();
  if (thread == 0) {
    double group = 0;
#pragma unroll 16
    for (int k = 0; k < squares_fan; ++k) group = __dadd_rn(group, sums[k]);
    workspace->groups[blockIdx.x] = group;
    __threadfence();
    is_last = atomicAdd(&workspace->arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;

  __threadfence();
  int const groups = static_cast<int>(gridDim.x);
  if (thread < squares_fan) {
    double block = 0;
    for (int k = thread * squares_fan; k < min((thread + 1) * squares_fan, groups); ++k)
      block = __dadd_rn(block, __ldcg(&workspace->groups[k]));
    sums[thread] = block;
  }
  __syncthreads();
  if (thread != 0) return;
  // The last block of the sum may not be whole; it comes after the others either way.
  double total = first ? 0.0 : workspace->carried;
  for (int k = 0; k * squares_fan < groups; ++k) total = __dadd_rn(total, sums[k]);
  workspace->carried = total;
  workspace->arrived = 0;
  if (!last) return;
  record[0] = __dadd_rn(record[0], total);
  if (!isfinite(total) && record[1] == 0.0) record[1] = unit + 1;
}

}  // namespace cuda::detail

/// record[0] += sum of from[i]^2; where the sum is not finite and record[1] is 0, record[1] = unit
/// +
/// 1. Ordering: uses the stream's workspace. @param from a multiple of 64 elements at a multiple of
/// 16 bytes
/// @throws InvalidArgument for another address or size
template <class T, cuda::RunsKernels D>
void add_squares(typename D::Stream& stream, View<T const, D> from, View<double, D> record,
                 Index unit) {
  using namespace cuda::detail;
  if (from.size() == 0) return;
  if (!aligned<16 / sizeof(T)>(from.address()) || from.size() % alignment_elements != 0) {
    throw InvalidArgument("add_squares: " + std::to_string(from.size()) +
                          " elements that start at a multiple of " +
                          std::to_string(reinterpret_cast<std::uintptr_t>(from.address()) % 16) +
                          " bytes; expected a multiple of 64 elements, at a multiple of 16 bytes");
  }
  auto* const workspace =
      reinterpret_cast<SquaresWorkspace*>(stream.workspace(Index{sizeof(SquaresWorkspace)}));
  for (Index begin = 0; begin < from.size(); begin += squares_launch) {
    Index const count = std::min(squares_launch, from.size() - begin);
    squares_kernel<T>
        <<<blocks(count, squares_group, "add_squares"), squares_threads<T>, 0, stream.native()>>>(
            from.address() + begin, count, workspace, record.address(), static_cast<double>(unit),
            begin == 0, begin + count == from.size());
    launched("add_squares");
  }
}

}  // namespace zero
