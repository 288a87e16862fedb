// SPDX-License-Identifier: Apache-2.0
#pragma once
// update: any element-wise optimizer over a flat slice in one pass: mean, loss scale and clip in
// one factor, states, weights, and rounding to the gathered parameters. The decision is read on the
// GPU; where it skips, nothing is written. The host reference is in optim/optimizer.hpp. Compiled
// with -fmad=false, both give the same bits, but where the constants of an optimizer round
// differently (double's pow); else the GPU fuses multiplications with additions.

#include <zero/cuda/pack.cuh>
#include <zero/cuda/transfer.hpp>
#include <zero/optim/optimizer.hpp>

#include <algorithm>

namespace zero {

namespace cuda::detail {

inline constexpr int update_width = 4;  // floats of 16 bytes
inline constexpr int update_depth = 2;  // accesses that a thread has under way, an array
inline constexpr Index update_taken = Index{block_threads} * update_width * update_depth;

template <class O, class G, class P>
struct UpdateArguments {
  O optimizer;
  G const* gradients;
  float* weights;
  float* states;
  P* rounded;  // null where the weights are the parameters
  Segment const* segments;
  Index num_segments;
  Decision const* decision;
  Index n;
};

/// The segment with element i: the last that begins at or before it.
__device__ inline Segment segment_of(Segment const* segments, Index count, Index i) {
  Index low = 0;
  while (count > 1) {
    Index const half = count / 2;
    if (segments[low + half].begin <= i) low += half;
    count -= half;
  }
  return segments[low];
}

/// Bytes an element, S states: sizeof(G) + 4 + 4 S read, 4 + 4 S + sizeof(P) written; AdamW with
/// 16-bit gradients and parameters: 28. Data is asked for before the decision and the segments, so
/// that their latency is hidden; one thread a block computes what depends on the step alone.
template <class O, class G, class P>
__global__ void __launch_bounds__(block_threads) update_kernel(UpdateArguments<O, G, P> u) {
  constexpr int states = O::num_states;
  constexpr int held = states > 0 ? states : 1;
  constexpr Index stride = Index{block_threads} * update_width;
  using Constants = decltype(u.optimizer.constants(Index{}));
  __shared__ Constants constants;
  __shared__ float factor;
  __shared__ float learning_rate;
  __shared__ bool skip;

  Index const first = Index{blockIdx.x} * update_taken + Index{threadIdx.x} * update_width;
  Pack<G, update_width> g[update_depth];
  Pack<float, update_width> w[update_depth];
  Pack<float, update_width> s[update_depth][held];
#pragma unroll
  for (int k = 0; k < update_depth; ++k) {
    Index const i = first + k * stride;
    if (i >= u.n) continue;
    g[k] = load_cached<update_width>(u.gradients + i);
    w[k] = load_cached<update_width>(static_cast<float const*>(u.weights) + i);
#pragma unroll
    for (int j = 0; j < states; ++j)
      s[k][j] = load_cached<update_width>(static_cast<float const*>(u.states) + j * u.n + i);
  }
  if (threadIdx.x == 0) {
    skip = u.decision->skip != 0;
    factor = u.decision->factor;
    learning_rate = u.decision->learning_rate;
    constants = u.optimizer.constants(u.decision->updates);
  }
  Segment segment[update_depth];
#pragma unroll
  for (int k = 0; k < update_depth; ++k)
    segment[k] = segment_of(u.segments, u.num_segments, first + k * stride);
  __syncthreads();
  if (skip) return;

#pragma unroll
  for (int k = 0; k < update_depth; ++k) {
    Index const i = first + k * stride;
    if (i < segment[k].begin || i >= segment[k].end || i >= u.n) continue;  // padding
    float const rate = learning_rate * segment[k].lr_scale;
    Pack<P, update_width> rounded;
#pragma unroll
    for (int e = 0; e < update_width; ++e) {
      float state[held];
#pragma unroll
      for (int j = 0; j < states; ++j) state[j] = s[k][j].x[e];
      float const gradient = factor * widen(g[k].x[e]);
      w[k].x[e] = w[k].x[e] - rate * u.optimizer.direction(constants, w[k].x[e], gradient, state,
                                                           segment[k].decay);
#pragma unroll
      for (int j = 0; j < states; ++j) s[k][j].x[e] = state[j];
      rounded.x[e] = narrow<P>(w[k].x[e]);
    }
    store_cached(u.weights + i, w[k]);
#pragma unroll
    for (int j = 0; j < states; ++j) store_cached(u.states + j * u.n + i, s[k][j]);
    if (u.rounded != nullptr) store_cached(u.rounded + i, rounded);
  }
}

}  // namespace cuda::detail

/// Applies an update; touches nothing when the decision skips.
/// @throws InvalidArgument unless all arrays start at multiples of 16 bytes and hold a multiple of
///   64 elements
template <class O, class G, class P, cuda::RunsKernels D>
void update(typename D::Stream& stream, Update<O, G, P, D> u) {
  Index const n = u.weights.size();
  if (n == 0 || u.segments.size() == 0) return;
  bool const packed = cuda::detail::aligned<16 / sizeof(G)>(u.gradients.address()) &&
                      cuda::detail::aligned<4>(u.weights.address()) &&
                      cuda::detail::aligned<4>(u.states.address()) &&
                      cuda::detail::aligned<16 / sizeof(P)>(u.rounded.address());
  if (!packed || n % alignment_elements != 0) {
    throw InvalidArgument("update: " + std::to_string(n) +
                          " elements; expected a multiple of 64, every array at a multiple of 16 "
                          "bytes, as a layout's slices are");
  }
  cuda::detail::UpdateArguments<O, G, P> const arguments{
      u.optimizer,
      u.gradients.address(),
      u.weights.address(),
      u.states.address(),
      u.rounded.size() > 0 ? u.rounded.address() : nullptr,
      u.segments.address(),
      u.segments.size(),
      u.decision.address(),
      n};
  cuda::detail::update_kernel<<<cuda::detail::blocks(n, cuda::detail::update_taken, "update"),
                                cuda::detail::block_threads, 0, stream.native()>>>(arguments);
  cuda::detail::launched("update");
}

}  // namespace zero
