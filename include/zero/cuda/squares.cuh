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

inline constexpr Index squares_few = 16 * squares_group;  // below, a thread block takes a tile
static_assert(squares_few <= squares_tile * squares_fan * squares_fan);

/// What the thread blocks of a launch leave for the last of them.
struct SquaresWorkspace {
  unsigned int arrived;                    // blocks; 0 between launches
  double carried;                          // sum of the earlier launches of one call
  double sums[squares_fan * squares_fan];  // of groups, or of tiles
};

static_assert(sizeof(SquaresWorkspace) <= Stream::workspace_bytes);

/// Neighbouring lanes that a thread of the large kernel holds, so that enough threads are there.
template <class T>
inline constexpr int squares_width = sizeof(T) == 4 ? 2 : 4;
/// Threads of a tile, and of a group.
template <class T>
inline constexpr int squares_parts = squares_lanes / squares_width<T>;
template <class T>
inline constexpr int squares_threads = squares_fan* squares_parts<T>;

/// sum + x^2. The square is exact, so that the fused operation rounds as the sum alone would.
template <class T>
__device__ double plus_square(double sum, T x) {
  double const v = static_cast<double>(widen(x));
  return __fma_rn(v, v, sum);
}

/// A thread's part of a tile in global memory. Returns lane 0's sum of the whole tile, in the
/// tile's first thread.
template <class T>
__device__ double tile_sum(T const* x, Index begin, Index end, int part) {
  constexpr int width = squares_width<T>;
  constexpr int parts = squares_parts<T>;
  constexpr int deep = 16;
  double sum[width] = {};
  Index i = begin + part * width;
  for (; i + (deep - 1) * squares_lanes < end; i += deep * squares_lanes) {
    Pack<T, width> p[deep];
#pragma unroll
    for (int k = 0; k < deep; ++k) p[k] = load<width>(x + i + k * squares_lanes);
#pragma unroll
    for (int k = 0; k < deep; ++k) {
#pragma unroll
      for (int j = 0; j < width; ++j) sum[j] = plus_square(sum[j], p[k].x[j]);
    }
  }
  for (; i < end; i += squares_lanes) {
    Pack<T, width> const p = load<width>(x + i);
#pragma unroll
    for (int j = 0; j < width; ++j) sum[j] = plus_square(sum[j], p.x[j]);
  }
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

/// Says that this block has left its sum, once `store` has. Whether it is the last one.
template <class Store>
__device__ bool leave_sum(SquaresWorkspace* workspace, Store store) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    store();
    __threadfence();
    is_last = atomicAdd(&workspace->arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

/// In order, the sums of up to `fan` neighbours of what the blocks have left, one a thread.
__device__ inline double fold(double const* sums, int count, int begin) {
  double result = 0;
#pragma unroll 8
  for (int k = begin; k < min(begin + squares_fan, count); ++k)
    result = __dadd_rn(result, __ldcg(sums + k));
  return result;
}

__device__ inline void add_to_record(double* record, double total, double unit) {
  record[0] = __dadd_rn(record[0], total);
  if (!isfinite(total)) record[1] = unit + 1;
}

/// A thread block makes the sum of one group; the last one that is done adds the groups up.
/// Bytes an element: sizeof(T) read.
/// @param first, last launch of a call
template <class T>
__global__ void __launch_bounds__(squares_threads<T>)
    squares_kernel(T const* x, Index n, SquaresWorkspace* workspace, double* record, double unit,
                   bool first, bool last) {
  __shared__ double sums[squares_fan];
  int const thread = static_cast<int>(threadIdx.x);
  int const tile = thread / squares_parts<T>;
  Index const begin = Index{blockIdx.x} * squares_group + tile * squares_tile;
  Index const end = min(begin + squares_tile, n);
  double const sum = tile_sum(x, min(begin, end), end, thread % squares_parts<T>);
  if (thread % squares_parts<T> == 0) sums[tile] = sum;
  __syncthreads();
  bool const is_last = leave_sum(workspace, [&] {
    double group = 0;
#pragma unroll 16
    for (int k = 0; k < squares_fan; ++k) group = __dadd_rn(group, sums[k]);
    workspace->sums[blockIdx.x] = group;
  });
  if (!is_last) return;

  int const groups = static_cast<int>(gridDim.x);
  if (thread < squares_fan) sums[thread] = fold(workspace->sums, groups, thread * squares_fan);
  __syncthreads();
  if (thread != 0) return;
  // The last block of the sum may not be whole; it comes after the others either way.
  double total = first ? 0.0 : workspace->carried;
  for (int k = 0; k * squares_fan < groups; ++k) total = __dadd_rn(total, sums[k]);
  workspace->carried = total;
  workspace->arrived = 0;
  if (last) add_to_record(record, total, unit);
}

/// The same sum of up to one block of the sum, where few groups would leave the GPU idle: a thread
/// block a tile, which is read at once. The last one that is done adds the tiles up.
template <class T>
__global__ void __launch_bounds__(block_threads)
    squares_tile_kernel(T const* x, Index n, SquaresWorkspace* workspace, double* record,
                        double unit) {
  constexpr int width = 16 / sizeof(T);
  constexpr int packs = static_cast<int>(squares_tile) / width;  // of a whole tile
  __shared__ Pack<T, width> tile[packs];
  __shared__ double sums[squares_fan];
  int const thread = static_cast<int>(threadIdx.x);
  Index const begin = Index{blockIdx.x} * squares_tile;
  int const elements = static_cast<int>(min(squares_tile, n - begin));
#pragma unroll
  for (int k = 0; k < packs / block_threads; ++k) {
    int const i = thread + k * block_threads;
    if (i * width < elements) tile[i] = load<width>(x + begin + i * width);
  }
  __syncthreads();
  double sum = 0;
  if (thread < 32) {
    if (thread < squares_lanes) {
      T const* const cells = tile[0].x;
#pragma unroll 16
      for (int i = thread; i < elements; i += squares_lanes) sum = plus_square(sum, cells[i]);
    }
#pragma unroll
    for (int apart = squares_lanes / 2; apart > 0; apart /= 2)
      sum = __dadd_rn(sum, __shfl_down_sync(0xffffffffu, sum, apart, squares_lanes));
  }
  if (!leave_sum(workspace, [&] { workspace->sums[blockIdx.x] = sum; })) return;

  int const tiles = static_cast<int>(gridDim.x);
  if (thread < squares_fan) sums[thread] = fold(workspace->sums, tiles, thread * squares_fan);
  __syncthreads();
  if (thread != 0) return;
  double total = 0;
  for (int k = 0; k * squares_fan < tiles; ++k) total = __dadd_rn(total, sums[k]);
  workspace->arrived = 0;
  add_to_record(record, total, unit);
}

}  // namespace cuda::detail

/// record[0] += sum of from[i]^2; where the sum is not finite, record[1] = unit + 1.
/// Ordering: uses the stream's workspace.
/// from: a multiple of 64 elements at a multiple of 16 bytes
/// @throws InvalidArgument for another address or size
template <class T, cuda::RunsKernels D>
void add_squares(typename D::Stream& stream, View<T const, D> from, View<double, D> record,
                 Index unit) {
  if (from.size() == 0) return;
  if (!cuda::detail::aligned<16 / sizeof(T)>(from.address()) ||
      from.size() % alignment_elements != 0) {
    throw InvalidArgument("add_squares: " + std::to_string(from.size()) +
                          " elements that start at a multiple of " +
                          std::to_string(reinterpret_cast<std::uintptr_t>(from.address()) % 16) +
                          " bytes; expected a multiple of 64 elements, at a multiple of 16 bytes");
  }
  auto* const workspace = reinterpret_cast<cuda::detail::SquaresWorkspace*>(
      stream.workspace(Index{sizeof(cuda::detail::SquaresWorkspace)}));
  double const number = static_cast<double>(unit);
  if (from.size() <= cuda::detail::squares_few) {
    unsigned int const tiles =
        cuda::detail::blocks(from.size(), cuda::detail::squares_tile, "add_squares");
    cuda::detail::squares_tile_kernel<<<tiles, cuda::detail::block_threads, 0, stream.native()>>>(
        from.address(), from.size(), workspace, record.address(), number);
    cuda::detail::launched("add_squares");
    return;
  }
  for (Index begin = 0; begin < from.size(); begin += cuda::detail::squares_launch) {
    Index const count = std::min(cuda::detail::squares_launch, from.size() - begin);
    cuda::detail::squares_kernel<T>
        <<<cuda::detail::blocks(count, cuda::detail::squares_group, "add_squares"),
           cuda::detail::squares_threads<T>, 0, stream.native()>>>(
            from.address() + begin, count, workspace, record.address(), number, begin == 0,
            begin + count == from.size());
    cuda::detail::launched("add_squares");
  }
}

}  // namespace zero
