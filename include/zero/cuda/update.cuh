// SPDX-License-Identifier: Apache-2.0
#pragma once
// update: any element-wise optimizer over a flat slice in one pass: mean, loss scale and clip in
// one factor, states, weights, and rounding to the gathered parameters. The decision is read on the
// GPU; where it skips, nothing is written. The arithmetic is the host's own, ElementUpdate of
// optim/optimizer.hpp, on elements in registers: the bits are the host's, but where an optimizer's
// sums of products are not written with product() and nvcc may fuse them (-fmad=false forbids it).

#include <zero/cuda/pack.cuh>
#include <zero/cuda/transfer.hpp>
#include <zero/optim/optimizer.hpp>

#include <algorithm>

namespace zero {

namespace cuda::detail {

inline constexpr int update_width = 4;  // floats of 16 bytes
inline constexpr int update_depth = 1;  // accesses that a thread has under way, an array
inline constexpr Index update_taken = Index{block_threads} * update_width * update_depth;

template <class O, class G, class P>
struct UpdateArguments {
  using Storage = StorageOf<P>;
  O optimizer;
  G const* gradients;
  typename Storage::Master* weights;
  typename Storage::State* states;
  typename Storage::Parameter* rounded;  // null where the weights are the parameters
  Segment const* segments;
  Index num_segments;
  Decision const* decision;
  Index n;
  std::uint64_t seed;
  double const* sums;  // of TensorNorms, where the optimizer has trust ratios
  Index ranks;
  Index tensors;
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

/// What of an update depends on the step alone.
template <class O>
struct UpdateConstants {
  decltype(std::declval<O const&>().constants(Index{})) of_optimizer;
  float factor;
  float learning_rate;
  Index updates;
  bool skip;
};

/// A thread's elements of one access, in registers, and the update of them.
template <class O, class P>
struct UpdatePack {
  using Storage = StorageOf<P>;
  static constexpr int held = O::num_states > 0 ? O::num_states : 1;

  float gradients[update_width];
  Pack<typename Storage::Master, update_width> weights;
  Pack<typename Storage::State, update_width> states[held];
  Pack<typename Storage::Parameter, update_width> rounded;

  template <class G>
  __device__ void read(UpdateArguments<O, G, P> const& u, Index i) {
    Pack<G, update_width> const g = load<update_width>(u.gradients + i);
#pragma unroll
    for (int e = 0; e < update_width; ++e) gradients[e] = widen(g.x[e]);
    weights = load<update_width>(static_cast<typename Storage::Master const*>(u.weights) + i);
    if constexpr (Storage::splits)
      rounded = load<update_width>(static_cast<typename Storage::Parameter const*>(u.rounded) + i);
#pragma unroll
    for (int j = 0; j < O::num_states; ++j)
      states[j] =
          load<update_width>(static_cast<typename Storage::State const*>(u.states) + j * u.n + i);
  }
  /// The arithmetic of the host's reference over these elements.
  /// @param i where they start
  /// @param segment that they lie in
  __device__ ElementUpdate<O, float, P> arithmetic(O const& optimizer,
                                                   UpdateConstants<O> const& step,
                                                   std::uint64_t seed, Index i, Segment segment,
                                                   float rate) {
    segment.begin -= i;
    segment.end -= i;
    typename Storage::Parameter* parameters = nullptr;
    if constexpr (Storage::splits) parameters = rounded.x;
    return {optimizer,
            step.of_optimizer,
            gradients,
            weights.x,
            states[0].x,
            parameters,
            update_width,
            step.factor,
            {seed, step.updates},
            segment,
            rate};
  }
  template <class G>
  __device__ void write(UpdateArguments<O, G, P> const& u, Index i) {
    store(u.weights + i, weights);
#pragma unroll
    for (int j = 0; j < O::num_states; ++j) store(u.states + j * u.n + i, states[j]);
    if constexpr (Storage::splits) {
      store(u.rounded + i, rounded);
    } else if (u.rounded != nullptr) {
#pragma unroll
      for (int e = 0; e < update_width; ++e)
        rounded.x[e] = narrow<typename Storage::Parameter>(weights.x[e]);
      store(u.rounded + i, rounded);
    }
  }
};

/// Read by one thread a block.
template <class O, class G, class P>
__device__ UpdateConstants<O> update_constants(UpdateArguments<O, G, P> const& u) {
  Decision const& d = *u.decision;
  // Asked for on a skip, too, where there may have been no update yet; optimizers count from 1.
  return {u.optimizer.constants(d.updates > 0 ? d.updates : 1), d.factor, d.learning_rate,
          d.updates, d.skip != 0};
}

/// Bytes an element, S states of size s, master of size m: sizeof(G) + m + S s read, m + S s +
/// sizeof(parameter) written; AdamW with 16-bit gradients and parameters: 28. Data is asked for
/// before the decision and the segments, so that their latency is hidden; one thread a block
/// computes what depends on the step alone.
template <class O, class G, class P>
__global__ void __launch_bounds__(block_threads) update_kernel(UpdateArguments<O, G, P> u) {
  constexpr Index stride = Index{block_threads} * update_width;
  __shared__ Shared<UpdateConstants<O>> shared;
  UpdateConstants<O>& step = *shared;

  Index const first = Index{blockIdx.x} * update_taken + Index{threadIdx.x} * update_width;
  UpdatePack<O, P> packs[update_depth];
#pragma unroll
  for (int k = 0; k < update_depth; ++k) {
    if (first + k * stride < u.n) packs[k].read(u, first + k * stride);
  }
  if (threadIdx.x == 0) step = update_constants(u);
  Segment segment[update_depth];
#pragma unroll
  for (int k = 0; k < update_depth; ++k)
    segment[k] = segment_of(u.segments, u.num_segments, first + k * stride);
  __syncthreads();
  if (step.skip) return;

#pragma unroll
  for (int k = 0; k < update_depth; ++k) {
    Index const i = first + k * stride;
    if (i < segment[k].begin || i >= segment[k].end || i >= u.n) continue;  // padding
    float const rate =
        segment_rate(u.optimizer, step.learning_rate, segment[k], u.sums, u.ranks, u.tensors);
    auto const arithmetic = packs[k].arithmetic(u.optimizer, step, u.seed, i, segment[k], rate);
#pragma unroll
    for (int e = 0; e < update_width; ++e) arithmetic(e);
    packs[k].write(u, i);
  }
}

/// @throws InvalidArgument unless all arrays start at multiples of 16 bytes and hold a multiple of
///   64 elements
template <class O, class G, class P, class D>
UpdateArguments<O, G, P> update_arguments(Update<O, G, P, D> const& u, char const* who) {
  Index const n = u.weights.size();
  auto const packed = [](auto view) {
    return aligned<16 / sizeof(typename decltype(view)::Element)>(view.address());
  };
  if (!packed(u.gradients) || !packed(u.weights) || !packed(u.states) || !packed(u.rounded) ||
      n % alignment_elements != 0) {
    throw InvalidArgument(std::string(who) + ": " + std::to_string(n) +
                          " elements; expected a multiple of 64, every array at a multiple of 16 "
                          "bytes, as a layout's slices are");
  }
  UpdateArguments<O, G, P> arguments{u.optimizer,
                                     u.gradients.address(),
                                     u.weights.address(),
                                     u.states.address(),
                                     u.rounded.size() > 0 ? u.rounded.address() : nullptr,
                                     u.segments.address(),
                                     u.segments.size(),
                                     u.decision.address(),
                                     n,
                                     u.seed,
                                     nullptr,
                                     0,
                                     0};
  if constexpr (HasTrustRatio<O>) {
    arguments.sums = u.norms.sums.address();
    arguments.ranks = u.norms.ranks;
    arguments.tensors = u.norms.tensors;
  }
  return arguments;
}

}  // namespace cuda::detail

/// Applies an update; touches nothing when the decision skips.
/// @throws InvalidArgument unless all arrays start at multiples of 16 bytes and hold a multiple of
///   64 elements
template <class O, class G, class P, cuda::RunsKernels D>
void update(typename D::Stream& stream, Update<O, G, P, D> u) {
  if (u.weights.size() == 0 || u.segments.size() == 0) return;
  auto const arguments = cuda::detail::update_arguments(u, "update");
  unsigned int const grid = cuda::detail::blocks(arguments.n, cuda::detail::update_taken, "update");
  cuda::detail::update_kernel<<<grid, cuda::detail::block_threads, 0, stream.native()>>>(arguments);
  cuda::detail::launched("update");
}

}  // namespace zero
