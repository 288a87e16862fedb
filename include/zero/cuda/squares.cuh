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
inline constexpr int squares_blocks = 4;      // of a processor at once: 64 registers a thread
inline constexpr Index squares_slots = 8192;  // for sums of one launch
/// Up to here a warp takes its part of a tile: so few elements are bound by the latency of reads
/// and conversions, not by bandwidth. A thread of the block that adds takes a tile's sums.
inline constexpr Index squares_fewest_tiles = 128;
inline constexpr Index squares_fewest = squares_fewest_tiles * squares_tile;
inline constexpr unsigned squares_fewest_blocks = 128;  // at most; large GPUs have a processor each
static_assert(squares_fewest_tiles <= block_threads);
static_assert(squares_fewest_tiles * squares_warps <= squares_slots);
/// Up to here a thread block takes a tile: the last blocks end sooner than with groups.
inline constexpr Index squares_few = squares_slots * squares_tile;
/// Beyond it, a group; up to here by one launch.
inline constexpr Index squares_launch = squares_slots * squares_group;

/// A place for a sum of squares on its way to the thread block that adds: the complement of the
/// sum's bits. 0 says that nothing has come yet. No sum gives it: only a NaN of all ones would, and
/// the last 29 bits of a NaN that was widened from a float are zeros.
using SumSlot = unsigned long long;

/// What the thread blocks of a launch leave for the one that adds.
struct SquaresWorkspace {
  double totals[squares_totals];  // of the earlier launches of one call
  SumSlot slots[squares_slots];   // 0 between launches
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
/// The same of sums in order.
template <int N>
__device__ double pairwise(double const (&sums)[N]) {
  static_assert(N > 1 && (N & (N - 1)) == 0);
  double left[N];
#pragma unroll
  for (int i = 0; i < N; ++i) left[i] = sums[i];
#pragma unroll
  for (int apart = 1; apart < N; apart *= 2) {
#pragma unroll
    for (int i = 0; i < N; i += 2 * apart) left[i] = __dadd_rn(left[i], left[i + apart]);
  }
  return left[0];
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
#pragma unroll 1
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
  return pairwise(sum);
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
/// Waits until the first `count` of these sums are there, takes them and leaves their slots as
/// zeros; the others are 0. Whoever sends them waits for nobody.
template <int N>
__device__ void receive_sums(SumSlot* slots, int count, double (&sums)[N]) {
  SumSlot bits[N];
  bool all;
  do {
    all = true;
#pragma unroll
    for (int i = 0; i < N; ++i) bits[i] = i < count ? load_slot(slots + i) : ~SumSlot{0};
#pragma unroll
    for (int i = 0; i < N; ++i) all = all && bits[i] != 0;
  } while (!all);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    sums[i] = __longlong_as_double(static_cast<long long>(~bits[i]));
    if (i < count) store_slot(slots + i, 0);
  }
}

/// What a call adds to. The thread that adds reads it first, while sums are on their way.
struct SquaresRecord {
  double* record;
  double mark;

  struct Before {
    double sum, mark;
  };
  __device__ Before before() const { return {record[0], record[1]}; }
  __device__ void add(Before before, double all) const {
    record[0] = __dadd_rn(before.sum, all);
    if (!isfinite(all)) record[1] = fmax(before.mark, mark + 1);
  }
};

/// The first thread block adds up, while sums come: what is left to add when the last one has come
/// is little. It alone of its launch waits: the others need room for one block beside those that
/// wait, one a stream, as every GPU has for some streams. Every other block leaves the sum of its
/// tiles, the tiles in order. Bytes an element: sizeof(T) read.
/// @tparam Tiles of a thread block: 1, or those of a group
/// @param first, last launch of a call
template <class T, int Tiles>
__global__ void __launch_bounds__(block_threads, squares_blocks)
    squares_kernel(T const* x, Index n, SquaresWorkspace* workspace, SquaresRecord record,
                   bool first, bool last) {
  __shared__ double warps[Tiles][squares_warps];
  int const thread = static_cast<int>(threadIdx.x);
  if (blockIdx.x > 0) {
    Index const start = (Index{blockIdx.x} - 1) * Tiles * squares_tile;
    for (int tile = 0; tile < Tiles; ++tile) {
      double const sum = warp_pairwise(lanes_sum(x, start + tile * squares_tile, n));
      if (thread % 32 == 0) warps[tile][thread / 32] = sum;
    }
    __syncthreads();
    if (thread != 0) return;
    double sum = 0;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) sum = __dadd_rn(sum, pairwise(warps[tile]));
    send_sum(workspace->slots + blockIdx.x - 1, sum);
    return;
  }

  constexpr int left = static_cast<int>(squares_tiles) / Tiles;  // sums that are left of a group
  int const count = static_cast<int>(gridDim.x) - 1;
  SquaresRecord::Before const before = record.before();
  double total = first ? 0.0 : workspace->totals[thread];
  for (int k = thread * left; k < count; k += block_threads * left) {
    double sums[left];
    receive_sums(workspace->slots + k, count - k, sums);
    double group = 0;
#pragma unroll
    for (int i = 0; i < left; ++i) group = __dadd_rn(group, sums[i]);
    total = __dadd_rn(total, group);
  }
  if (!last) workspace->totals[thread] = total;
  double const sum = warp_pairwise(total);
  if (thread % 32 == 0) warps[0][thread / 32] = sum;
  __syncthreads();
  if (thread == 0 && last) record.add(before, pairwise(warps[0]));
}

/// A thread's lanes of a tile in global memory, added pairwise, with all its accesses under way.
/// @param first the thread's first element
template <class T>
__device__ double lanes_sum_at_once(T const* x, Index first, Index n) {
  constexpr int most = static_cast<int>(squares_tile / squares_lanes);
  if (first >= n) return 0;
  int const rows =
      static_cast<int>(min((n - first + squares_lanes - 1) / squares_lanes, Index{most}));
  Pack<T, squares_width> p[most];
  if (rows == most) {
#pragma unroll
    for (int row = 0; row < most; ++row)
      p[row] = load<squares_width>(x + first + row * squares_lanes);
  } else {  // the last row stands in for those that are not there, so that no read waits in line
#pragma unroll
    for (int row = 0; row < most; ++row)
      p[row] = load<squares_width>(x + first + min(row, rows - 1) * squares_lanes);
  }
  double sum[squares_width] = {};
#pragma unroll
  for (int row = 0; row < most; ++row) {
#pragma unroll
    for (int j = 0; j < squares_width; ++j) {
      double const next = plus_square(sum[j], p[row].x[j]);
      if (row < rows) sum[j] = next;
    }
  }
  return pairwise(sum);
}

/// squares_kernel for few elements, whose time is that of reads that wait for each other: all of a
/// thread's are under way at once, and warps are spread over the processors. Bytes an element:
/// sizeof(T) read.
/// @param warps of a block that have a tile's part
template <class T>
__global__ void __launch_bounds__(block_threads, 1)
    fewest_squares_kernel(T const* x, Index n, SquaresWorkspace* workspace, SquaresRecord record,
                          int warps) {
  __shared__ double of_tiles[squares_fewest_tiles];
  int const thread = static_cast<int>(threadIdx.x);
  int const tiles = static_cast<int>((n + squares_tile - 1) / squares_tile);
  if (blockIdx.x > 0) {
    int const part = (static_cast<int>(blockIdx.x) - 1) * warps + thread / 32;
    if (thread / 32 >= warps || part >= tiles * squares_warps) return;
    Index const lane = Index{part % squares_warps * 32 + thread % 32} * squares_width;
    double const sum =
        warp_pairwise(lanes_sum_at_once(x, part / squares_warps * squares_tile + lane, n));
    if (thread % 32 == 0) send_sum(workspace->slots + part, sum);
    return;
  }

  SquaresRecord::Before const before = record.before();
  if (thread < tiles) {
    double sums[squares_warps];
    receive_sums(workspace->slots + thread * squares_warps, squares_warps, sums);
    of_tiles[thread] = pairwise(sums);
  }
  __syncthreads();
  constexpr int group = static_cast<int>(squares_tiles);
  static_assert(squares_fewest_tiles <= 32 * squares_tiles);  // groups: a thread of a warp each
  if (thread >= 32) return;
  double total = 0;
#pragma unroll
  for (int i = 0; i < group; ++i) {
    int const tile = thread * group + i;
    if (tile < tiles) total = __dadd_rn(total, of_tiles[tile]);
  }
  if (tiles > group) total = warp_pairwise(total);  // of one group it would add zeros
  if (thread == 0) record.add(before, total);
}

/// A call of few elements.
template <class T>
void fewest_squares_launched(cudaStream_t stream, T const* x, Index n, SquaresWorkspace* workspace,
                             SquaresRecord record) {
  unsigned int const tiles = blocks(n, squares_tile, "add_squares");
  unsigned int const parts = tiles * squares_warps;
  unsigned int const warps = (parts + squares_fewest_blocks - 1) / squares_fewest_blocks;
  unsigned int const threads = std::max(32 * warps, (tiles + 31) / 32 * 32);
  static_assert(squares_fewest_tiles <= squares_fewest_blocks);  // no block has more than its warps
  fewest_squares_kernel<<<1 + (parts + warps - 1) / warps, threads, 0, stream>>>(
      x, n, workspace, record, static_cast<int>(warps));
  launched("add_squares");
}

/// One launch of a call.
template <int Tiles, class T>
void squares_launched(cudaStream_t stream, T const* x, Index n, SquaresWorkspace* workspace,
                      SquaresRecord record, bool first, bool last) {
  squares_kernel<T, Tiles>
      <<<1 + blocks(n, Tiles * squares_tile, "add_squares"), block_threads, 0, stream>>>(
          x, n, workspace, record, first, last);
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
  cuda::detail::SquaresRecord const to{record.address(), static_cast<double>(mark)};
  if (from.size() <= cuda::detail::squares_fewest) {
    cuda::detail::fewest_squares_launched(stream.native(), from.address(), from.size(), workspace,
                                          to);
    return;
  }
  if (from.size() <= cuda::detail::squares_few) {
    cuda::detail::squares_launched<1>(stream.native(), from.address(), from.size(), workspace, to,
                                      true, true);
    return;
  }
  for (Index begin = 0; begin < from.size(); begin += cuda::detail::squares_launch) {
    Index const count = std::min(cuda::detail::squares_launch, from.size() - begin);
    cuda::detail::squares_launched<cuda::detail::squares_tiles>(
        stream.native(), from.address() + begin, count, workspace, to, begin == 0,
        begin + count == from.size());
  }
}

}  // namespace zero
