// SPDX-License-Identifier: Apache-2.0
#pragma once
// measure_norms: the sums of squares of each tensor's weights and directions, for optimizers with
// trust ratios. The host reference is in optim/trust_ratio.hpp; the order of sums is the same.

#include <zero/cuda/squares.cuh>
#include <zero/cuda/update.cuh>
#include <zero/optim/trust_ratio.hpp>

namespace zero {

namespace cuda::detail {

inline constexpr Index norm_tile = zero::detail::norm_tile;
inline constexpr int norm_lanes = zero::detail::norm_lanes;
/// Tiles of a launch: each leaves two sums in the workspace.
inline constexpr int norm_tiles = static_cast<int>(squares_slots / 2);

/// A stretch of one segment that lies in one slice, cut into tiles from its start.
struct NormStretch {
  Segment segment;
  Index begin;
  Index end;
  Index first_tile;  // of all stretches' tiles, in order
  Index entry;       // of the sums
};

/// Calls f(stretch) for all of them, in order, until it returns false.
template <class F>
__device__ void for_stretches(Segment const* segments, Index num_segments, NormSlices slices, F f) {
  Index tile = 0;
  for (Index s = 0; s < slices.count; ++s) {
    for (Index k = 0; k < num_segments; ++k) {
      Segment const segment = segments[k];
      Index const begin = max(segment.begin, s * slices.elements);
      Index const end = min(segment.end, (s + 1) * slices.elements);
      if (begin >= end) continue;
      Index const entry = 2 * ((slices.first + s) * slices.tensors + segment.trained);
      if (!f(NormStretch{segment, begin, end, tile, entry})) return;
      tile += (end - begin + norm_tile - 1) / norm_tile;
    }
  }
}

/// Adds a launch's tiles to the tensors' sums, in order.
template <class O, class G, class P>
__device__ void add_norms(UpdateArguments<O, G, P> const& u, NormSlices slices, SumSlot* slots,
                          double* sums, Index first_tile) {
  constexpr int at_once = 16;
  Index const end_tile = first_tile + Index{gridDim.x} - 1;
  int number = 0;
  for_stretches(u.segments, u.num_segments, slices, [&](NormStretch const& stretch) {
    if (number++ % block_threads != static_cast<int>(threadIdx.x)) return true;
    Index const tiles = (stretch.end - stretch.begin + norm_tile - 1) / norm_tile;
    Index const from = max(first_tile, stretch.first_tile);
    Index const to = min(end_tile, stretch.first_tile + tiles);
    if (from >= to) return true;
    for (int which = 0; which < 2; ++which) {
      double total = from == stretch.first_tile ? 0.0 : sums[stretch.entry + which];
      for (Index t = from; t < to; t += at_once) {
        double some[at_once];
        receive_sums(slots + which * norm_tiles + (t - first_tile),
                     static_cast<int>(min(to - t, Index{at_once})), some);
#pragma unroll
        for (double const sum : some) total = __dadd_rn(total, sum);
      }
      sums[stretch.entry + which] = total;
    }
    return true;
  });
}

/// The first block adds the launch's tiles to the tensors' sums, a thread a stretch, as they come.
/// Every other one makes both sums of one tile. Bytes an element: as the update reads.
/// @param first_tile of the launch
template <class O, class G, class P>
__global__ void __launch_bounds__(block_threads)
    norms_kernel(UpdateArguments<O, G, P> u, NormSlices slices, SquaresWorkspace* workspace,
                 double* sums, Index first_tile) {
  __shared__ Room<NormStretch> shared_stretch;
  NormStretch& mine = *shared_stretch;
  __shared__ bool found;
  __shared__ float values[2][norm_tile];
  SumSlot* const slots = workspace->slots;
  int const thread = static_cast<int>(threadIdx.x);
  UpdateConstants<O> const step = update_constants(u.optimizer, *u.decision);
  if (step.skip) return;
  if (blockIdx.x == 0) {
    add_norms(u, slices, slots, sums, first_tile);
    return;
  }
  Index const tile = first_tile + Index{blockIdx.x} - 1;
  if (thread == 0) {
    found = false;
    for_stretches(u.segments, u.num_segments, slices, [&](NormStretch const& stretch) {
      if (tile < stretch.first_tile) return false;
      mine = stretch;
      found = tile < stretch.first_tile + (stretch.end - stretch.begin + norm_tile - 1) / norm_tile;
      return true;
    });
  }
  __syncthreads();
  if (!found) return;  // behind the last tile
  Index const begin = mine.begin + (tile - mine.first_tile) * norm_tile;
  int const n = static_cast<int>(min(norm_tile, mine.end - begin));
  for (int i = thread * update_width; i < n; i += block_threads * update_width) {
    UpdatePack<O, G, P> pack;
    pack.read(u, begin + i);
    auto const arithmetic =
        pack.arithmetic(u.optimizer, step, u.seed, begin + i, mine.segment, 0.0f);
#pragma unroll
    for (int e = 0; e < update_width; ++e) {
      float state[UpdatePack<O, G, P>::held];
      values[0][i + e] = arithmetic.weight(e);
      values[1][i + e] = arithmetic.direction(e, state);
    }
  }
  __syncthreads();
  if (thread >= 32) return;  // sixteen lanes each
  int const which = thread / norm_lanes;
  double sum = 0;
  for (int i = thread % norm_lanes; i < n; i += norm_lanes)
    sum = plus_square(sum, values[which][i]);
#pragma unroll
  for (int apart = norm_lanes / 2; apart > 0; apart /= 2)
    sum = __dadd_rn(sum, __shfl_down_sync(0xffffffffu, sum, apart, norm_lanes));
  if (thread % norm_lanes == 0) send_sum(slots + which * norm_tiles + blockIdx.x - 1, sum);
}

}  // namespace cuda::detail

/// The sums of squares of what an update covers, a tensor and a slice: see NormSlices. Touches
/// nothing when the decision skips. Ordering: uses the stream's workspace.
/// @throws InvalidArgument as update
template <class O, class G, class P, cuda::RunsKernels D>
void measure_norms(typename D::Stream& stream, Update<O, G, P, D> u, View<double, D> sums,
                   NormSlices slices) {
  using cuda::detail::norm_tiles;
  if (u.weights.size() == 0 || u.segments.size() == 0 || slices.count == 0) return;
  auto arguments = cuda::detail::update_arguments(u, "measure_norms");
  auto* const workspace = reinterpret_cast<cuda::detail::SquaresWorkspace*>(
      stream.workspace(Index{sizeof(cuda::detail::SquaresWorkspace)}));
  // Each stretch may end with a tile that is not whole. Blocks behind the last tile send nothing.
  Index const most = arguments.n / cuda::detail::norm_tile + slices.count * u.segments.size();
  for (Index first = 0; first < most; first += norm_tiles) {
    Index const count = std::min<Index>(norm_tiles, most - first);
    cuda::detail::norms_kernel<<<1 + cuda::detail::blocks(count, 1, "measure_norms"),
                                 cuda::detail::block_threads, 0, stream.native()>>>(
        arguments, slices, workspace, sums.address(), first);
    cuda::detail::launched("measure_norms");
  }
}

}  // namespace zero
