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
inline constexpr Index update_taken = Index{block_threads} * update_width;

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

/// The last segment of `count` that begins at or before element i, or the first one.
__device__ inline Segment segment_of(Segment const* segments, Index count, Index i) {
  Index low = 0;
  while (count > 1) {
    Index const half = count / 2;
    if (segments[low + half].begin <= i) low += half;
    count -= half;
  }
  return segments[low];
}

/// The value that the warp's thread `lane` has.
template <class T>
__device__ T of_lane(T value, int lane) {
  static_assert(sizeof(T) % 4 == 0 && std::is_trivially_copyable_v<T>);
  unsigned int words[sizeof(T) / 4];
  std::memcpy(words, &value, sizeof(T));
#pragma unroll
  for (unsigned int& word : words) word = __shfl_sync(0xffffffffu, word, lane);
  std::memcpy(&value, words, sizeof(T));
  return value;
}

/// segment_of for a whole warp, whose elements rise by thread: up to 32 segments take one read in
/// place of one after the other. Each thread reads one, and all are given that of the first
/// element.
class SegmentsOfWarp {
 public:
  /// Reads. @param i the thread's element
  __device__ SegmentsOfWarp(Segment const* segments, Index count, Index i)
      : segments_(segments), count_(count), first_(of_lane(i, 0)) {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    Index low = 0;
    Index end = count;
    while (end - low > 32) {  // a thread looks at every 32nd part of what is left
      Index const apart = (end - low + 31) / 32;
      Index const at = low + lane * apart;
      there_ = at < end;
      low += last(segments[there_ ? at : low].begin) * apart;
      end = min(end, low + apart);
    }
    there_ = low + lane < end;
    mine_ = segments[there_ ? low + lane : low];
  }
  /// The segment with the thread's element. Behind the end of the first element's it is searched.
  __device__ Segment with(Index i) const {
    Segment const given = of_lane(mine_, last(mine_.begin));
    return i < given.end ? given : segment_of(segments_, count_, i);
  }

 private:
  /// The last of the threads whose segments begin at or before the first element, or 0.
  __device__ int last(Index begin) const {
    return max(__popc(__ballot_sync(0xffffffffu, there_ && begin <= first_)) - 1, 0);
  }

  Segment const* segments_;
  Index count_;
  Index first_;  // of the warp's elements
  bool there_;   // this thread has read a segment of its own
  Segment mine_;
};

/// What of an update depends on the step alone.
template <class O>
struct UpdateConstants {
  using OfOptimizer = decltype(std::declval<O const&>().constants(Index{}));
  OfOptimizer of_optimizer;
  float factor;
  float learning_rate;
  Index updates;
  bool skip;
};

/// A thread's elements of one access, in registers, and the update of them.
template <class O, class G, class P>
struct UpdatePack {
  using Storage = StorageOf<P>;
  static constexpr int held = O::num_states > 0 ? O::num_states : 1;

  Pack<G, update_width> stored_gradients;
  float gradients[update_width];  // the same, once arithmetic() was called
  Pack<typename Storage::Master, update_width> weights;
  Pack<typename Storage::State, update_width> states[held];
  Pack<typename Storage::Parameter, update_width> rounded;

  /// Asks for elements [i, i + update_width) of all arrays, and waits for none.
  __device__ void read(UpdateArguments<O, G, P> const& u, Index i) {
    stored_gradients = load<update_width>(u.gradients + i);
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
#pragma unroll
    for (int e = 0; e < update_width; ++e) gradients[e] = widen(stored_gradients.x[e]);
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

/// Called by a whole thread block. The optimizer's constants are those that the decision keeps;
/// where it keeps none of this update, one thread makes them. On a skip they are zeros.
template <class O>
__device__ UpdateConstants<O> update_constants(O const& optimizer, Decision const& d) {
  using OfOptimizer = typename UpdateConstants<O>::OfOptimizer;
  static_assert(std::is_trivially_copyable_v<OfOptimizer>,
                "an optimizer's constants must be trivially copyable to be used on a GPU");
  __shared__ Room<OfOptimizer> made;
  Room<OfOptimizer> kept = {};
  bool keeps = false;
  if constexpr (KeptConstants::keeps<OfOptimizer>) {
    keeps = d.updates > 0 && d.constants.update == d.updates;
    std::memcpy(kept.bytes, d.constants.words, sizeof(OfOptimizer));
  }
  if (!keeps && d.skip == 0) {
    // Optimizers count from 1; a decision that nobody has made says 0.
    if (threadIdx.x == 0) *made = optimizer.constants(d.updates > 0 ? d.updates : 1);
    __syncthreads();
    std::memcpy(kept.bytes, made.bytes, sizeof(OfOptimizer));
  }
  return {*kept, d.factor, d.learning_rate, d.updates, d.skip != 0};
}

/// Bytes an element, S states of size s, master of size m: sizeof(G) + m + S s read, m + S s +
/// sizeof(parameter) written; AdamW with 16-bit gradients and parameters: 28. With up
/// to 32 segments all reads are under way before the first is waited for.
template <class O, class G, class P>
__global__ void __launch_bounds__(block_threads) update_kernel(UpdateArguments<O, G, P> u) {
  Index const i = Index{blockIdx.x} * update_taken + Index{threadIdx.x} * update_width;
  UpdatePack<O, G, P> pack;
  pack.read(u, i < u.n ? i : 0);
  SegmentsOfWarp const segments(u.segments, u.num_segments, i);
  Decision const decision = *u.decision;
  Segment const segment = segments.with(i);
  UpdateConstants<O> const step = update_constants(u.optimizer, decision);
  if (step.skip || i < segment.begin || i >= segment.end || i >= u.n) return;  // or padding

  float const rate =
      segment_rate(u.optimizer, step.learning_rate, segment, u.sums, u.ranks, u.tensors);
  auto const arithmetic = pack.arithmetic(u.optimizer, step, u.seed, i, segment, rate);
#pragma unroll
  for (int e = 0; e < update_width; ++e) arithmetic(e);
  pack.write(u, i);
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
