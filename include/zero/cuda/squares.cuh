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

using zero::detail::squares_lanes;
using zero::detail::squares_tile;
using zero::detail::squares_tiles;
using zero::detail::squares_totals;

inline constexpr int squares_width = 4;  // neighbouring lanes of a thread
static_assert(block_threads * squares_width == squares_lanes && block_threads == squares_totals);
inline constexpr int squares_warps = block_threads / 32;  // that share a tile
inline constexpr Index squares_group = squares_tile * squares_tiles;
inline constexpr Index squares_sums = 8192;                            // that a launch leaves
inline constexpr Index squares_launch = squares_sums * squares_group;  // elements
/// Up to here a thread block takes a tile, else a group: few groups would leave the GPU idle.
inline constexpr Index squares_few = squares_totals * squares_group;
static_assert(squares_few / squares_tile <= squares_sums);
/// Up to here a warp takes its part of a tile: so few reads are bound by latency, not by bandwidth.
/// A thread of the block that adds takes a tile's sums.
inline constexpr Index squares_fewest_tiles = 128;
inline constexpr Index squares_fewest = squares_fewest_tiles * squares_tile;
inline constexpr unsigned squares_fewest_blocks = 128;  // at most; large GPUs have a processor each
static_assert(squares_fewest_tiles <= block_threads);

/// A place for a sum of squares on its way from a warp to the thread block that adds: the
/// complement of the sum's bits. 0 says that nothing has come yet. No sum gives it: only a NaN of
/// all ones would, and the last 29 bits of a NaN that was widened from a float are zeros.
using SumSlot = unsigned long long;

/// What the thread blocks of a launch leave for the last of them.
struct SquaresWorkspace {
  unsigned int arrived;                                 // blocks; 0 between launches
  double totals[squares_totals];                        // of the earlier launches of one call
  double sums[squares_sums];                            // of groups, or of tiles
  SumSlot slots[squares_fewest_tiles * squares_warps];  // 0 between launches
};

static_assert(sizeof(SquaresWorkspace) <= Stream::workspace_bytes);

/// sum + x^2. The square is exact, so that the fused operation rounds as the sum alone would.
template <class T>
__device__ double plus_square(double sum, T x) {
  double const v = static_cast<double>(widen(x));
  return __fma_rn(v, v, sum);
}

/// Neighbouring threads' sums of a warp, added pairwise; every thread gets the result.
__device__ inline double warp_pairwise(double sum) {
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2)
    sum = __dadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, apart));
  return sum;
}
/// The same of the eight warps' sums.
__device__ inline double pairwise_of_warps(double const* sums) {
  static_assert(squares_warps == 8);
  return __dadd_rn(__dadd_rn(__dadd_rn(sums[0], sums[1]), __dadd_rn(sums[2], sums[3])),
                   __dadd_rn(__dadd_rn(sums[4], sums[5]), __dadd_rn(sums[6], sums[7])));
}

/// A thread's lanes of a tile in global memory, added pairwise.
template <class T>
__device__ double lanes_sum(T const* x, Index begin, Index n) {
  constexpr int deep = 8;  // accesses under way
  constexpr int rows = static_cast<int>(squares_tile / squares_lanes);
  double sum[squares_width] = {};
  Index const first = begin + Index{threadIdx.x} * squares_width;
  auto const add = [&](Pack<T, squares_width> const& p) {
#pragma unroll
    for (int j = 0; j < squares_width; ++j) sum[j] = plus_square(sum[j], p.x[j]);
  };
  if (begin + squares_tile <= n) {
#pragma unroll
    for (int row = 0; row < rows; row += deep) {
      Pack<T, squares_width> p[deep];
#pragma unroll
      for (int k = 0; k < deep; ++k)
        p[k] = load<squares_width>(x + first + (row + k) * squares_lanes);
#pragma unroll
      for (int k = 0; k < deep; ++k) add(p[k]);
    }
  } else {
#pragma unroll 4
    for (Index i = first; i < n; i += squares_lanes) add(load<squares_width>(x + i));
  }
  return __dadd_rn(__dadd_rn(sum[0], sum[1]), __dadd_rn(sum[2], sum[3]));
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

/// A thread block leaves the sum of its tiles, the tiles in order; the last one that is done adds
/// all up. Bytes an element: sizeof(T) read.
/// @tparam Tiles of a thread block: 1, or those of a group
/// @param first, last launch of a call
template <class T, int Tiles>
__global__ void __launch_bounds__(block_threads)
    squares_kernel(T const* x, Index n, SquaresWorkspace* workspace, double* record, double mark,
                   bool first, bool last) {
  __shared__ double warps[Tiles][squares_warps];
  int const thread = static_cast<int>(threadIdx.x);
  Index const start = Index{blockIdx.x} * Tiles * squares_tile;
  for (int tile = 0; tile < Tiles; ++tile) {
    double const sum = warp_pairwise(lanes_sum(x, start + tile * squares_tile, n));
    if (thread % 32 == 0) warps[tile][thread / 32] = sum;
  }
  __syncthreads();
  bool const is_last = leave_sum(workspace, [&] {
    double sum = 0;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) sum = __dadd_rn(sum, pairwise_of_warps(warps[tile]));
    workspace->sums[blockIdx.x] = sum;
  });
  if (!is_last) return;

  constexpr int left = static_cast<int>(squares_tiles) / Tiles;  // sums that are left of a group
  int const count = static_cast<int>(gridDim.x);
  double total = first ? 0.0 : workspace->totals[thread];
#pragma unroll 4
  for (int k = thread * left; k < count; k += block_threads * left) {
    double group = 0;
#pragma unroll
    for (int i = 0; i < left; ++i)
      group = __dadd_rn(group, k + i < count ? __ldcg(workspace->sums + k + i) : 0.0);
    total = __dadd_rn(total, group);
  }
  if (!last) workspace->totals[thread] = total;
  double const sum = warp_pairwise(total);
  if (thread % 32 == 0) warps[0][thread / 32] = sum;
  __syncthreads();
  if (thread != 0) return;
  workspace->arrived = 0;
  if (!last) return;
  double const all = pairwise_of_warps(warps[0]);
  record[0] = __dadd_rn(record[0], all);
  if (!isfinite(all)) record[1] = fmax(record[1], mark + 1);
}

/// Both ways are relaxed: a plain store would not be ordered behind the other one to that place.
__device__ inline void store_slot(SumSlot* slot, SumSlot bits) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slot), "l"(bits) : "memory");
}
__device__ inline SumSlot load_slot(SumSlot const* slot) {
  SumSlot bits;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(slot) : "memory");
  return bits;
}
/// Leaves a sum for the block that adds. The value itself says that it is there: no fence, no
/// count.
__device__ inline void send_sum(SumSlot* slot, double sum) {
  store_slot(slot, ~static_cast<SumSlot>(__double_as_longlong(sum)));
}
/// Waits until all sums of a tile's warps are there, takes them and leaves their slots as zeros.
/// Whoever sends them waits for nobody.
__device__ inline void receive_sums(SumSlot* slots, double (&sums)[squares_warps]) {
  SumSlot bits[squares_warps];
  bool all;
  do {
    all = true;
#pragma unroll
    for (int i = 0; i < squares_warps; ++i) bits[i] = load_slot(slots + i);
#pragma unroll
    for (int i = 0; i < squares_warps; ++i) all = all && bits[i] != 0;
  } while (!all);
#pragma unroll
  for (int i = 0; i < squares_warps; ++i) {
    sums[i] = __longlong_as_double(static_cast<long long>(~bits[i]));
    store_slot(slots + i, 0);
  }
}

/// A thread's lanes of a tile in global memory, added pairwise, with all its accesses under way.
/// @param first the thread's first element
template <class T>
__device__ double lanes_sum_at_once(T const* x, Index first, Index n) {
  constexpr int rows = static_cast<int>(squares_tile / squares_lanes);
  Pack<T, squares_width> p[rows];
  // What is not there is read elsewhere and left out: branches would let reads wait in line.
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    Index const i = first + row * squares_lanes;
    p[row] = load<squares_width>(x + (i < n ? i : 0));
  }
  double sum[squares_width] = {};
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    bool const there = first + row * squares_lanes < n;
#pragma unroll
    for (int j = 0; j < squares_width; ++j) sum[j] = plus_square(sum[j], there ? p[row].x[j] : T{});
  }
  return __dadd_rn(__dadd_rn(sum[0], sum[1]), __dadd_rn(sum[2], sum[3]));
}

/// squares_kernel for few elements, whose time is that of reads that wait for each other: all of a
/// thread's are under way at once, and warps are spread over the processors. The last thread block
/// adds all up. It alone waits, so that the others need room for one block beside it; that blocks
/// begin in their order, as on GPUs they do, is not relied on. Bytes an element: sizeof(T) read.
/// @param warps of a block that have a tile's part; the others help to add
template <class T>
__global__ void __launch_bounds__(block_threads, 1)
    fewest_squares_kernel(T const* x, Index n, SquaresWorkspace* workspace, double* record,
                          double mark, int warps) {
  __shared__ double of_tiles[squares_fewest_tiles];
  __shared__ double of_warps[squares_warps];
  int const thread = static_cast<int>(threadIdx.x);
  int const tiles = static_cast<int>((n + squares_tile - 1) / squares_tile);
  int const part = static_cast<int>(blockIdx.x) * warps + thread / 32;
  if (thread / 32 < warps && part < tiles * squares_warps) {
    Index const lane = Index{part % squares_warps * 32 + thread % 32} * squares_width;
    double const sum =
        warp_pairwise(lanes_sum_at_once(x, part / squares_warps * squares_tile + lane, n));
    if (thread % 32 == 0) send_sum(workspace->slots + part, sum);
  }
  if (blockIdx.x != gridDim.x - 1) return;

  double const before[2] = {record[0], record[1]};  // asked for while sums are on their way
  if (thread < tiles) {
    double sums[squares_warps];
    receive_sums(workspace->slots + thread * squares_warps, sums);
    of_tiles[thread] = pairwise_of_warps(sums);
  }
  __syncthreads();
  double total = 0;
#pragma unroll
  for (int i = 0; i < static_cast<int>(squares_tiles); ++i) {
    int const tile = thread * static_cast<int>(squares_tiles) + i;
    if (tile < tiles) total = __dadd_rn(total, of_tiles[tile]);
  }
  double const sum = warp_pairwise(total);
  if (thread % 32 == 0) of_warps[thread / 32] = sum;
  __syncthreads();
  if (thread != 0) return;
  double const all = pairwise_of_warps(of_warps);
  record[0] = __dadd_rn(before[0], all);
  if (!isfinite(all)) record[1] = fmax(before[1], mark + 1);
}

/// A call of few elements.
template <class T>
void fewest_squares_launched(cudaStream_t stream, T const* x, Index n, SquaresWorkspace* workspace,
                             double* record, double mark) {
  unsigned int const parts = blocks(n, squares_tile, "add_squares") * squares_warps;
  unsigned int const warps = (parts + squares_fewest_blocks - 1) / squares_fewest_blocks;
  static_assert(squares_fewest_tiles <= squares_fewest_blocks);  // no block has more than its warps
  fewest_squares_kernel<<<(parts + warps - 1) / warps, block_threads, 0, stream>>>(
      x, n, workspace, record, mark, static_cast<int>(warps));
  launched("add_squares");
}

/// One launch of a call.
template <int Tiles, class T>
void squares_launched(cudaStream_t stream, T const* x, Index n, SquaresWorkspace* workspace,
                      double* record, double mark, bool first, bool last) {
  squares_kernel<T, Tiles>
      <<<blocks(n, Tiles * squares_tile, "add_squares"), block_threads, 0, stream>>>(
          x, n, workspace, record, mark, first, last);
  launched("add_squares");
}

}  // namespace cuda::detail

/// record[0] += sum of from[i]^2; not finite: record[1] = max(record[1], mark + 1).
///
/// Ordering: uses the stream's workspace. `from` is a multiple of 64 elements at a multiple of 16
/// bytes.
/// @throws InvalidArgument for another address or size
template <class T, cuda::RunsKernels D>
void add_squares(typename D::Stream& stream, View<T const, D> from, View<double, D> record,
                 Index mark) {
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
  double const number = static_cast<double>(mark);
  if (from.size() <= cuda::detail::squares_fewest) {
    cuda::detail::fewest_squares_launched(stream.native(), from.address(), from.size(), workspace,
                                          record.address(), number);
    return;
  }
  if (from.size() <= cuda::detail::squares_few) {
    cuda::detail::squares_launched<1>(stream.native(), from.address(), from.size(), workspace,
                                      record.address(), number, true, true);
    return;
  }
  for (Index begin = 0; begin < from.size(); begin += cuda::detail::squares_launch) {
    Index const count = std::min(cuda::detail::squares_launch, from.size() - begin);
    cuda::detail::squares_launched<cuda::detail::squares_tiles>(
        stream.native(), from.address() + begin, count, workspace, record.address(), number,
        begin == 0, begin + count == from.size());
  }
}

}  // namespace zero
