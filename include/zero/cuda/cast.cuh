// SPDX-License-Identifier: Apache-2.0
#pragma once
// assign and add: element by element through float, rounded once. The host reference is in
// device/host_elementwise.hpp; bits are the same.

#include <zero/cuda/pack.cuh>
#include <zero/cuda/transfer.hpp>

#include <algorithm>

namespace zero {

namespace cuda::detail {

/// Elements of one access, of which the wider of two types takes 16 bytes.
template <class A, class B>
inline constexpr int shared_width = static_cast<int>(16 / std::max(sizeof(A), sizeof(B)));
/// Accesses that a thread has under way.
inline constexpr int cast_depth = 4;

template <bool Adds, class A, class B>
__device__ A combined(A const& old, B const& value) {
  if constexpr (Adds) {
    return narrow<A>(widen(old) + widen(value));
  } else {
    return narrow<A>(widen(value));
  }
}

/// One block's elements [begin, begin + threads * depth * width), those below n.
/// Bytes an element: sizeof(B) read, sizeof(A) written, and sizeof(A) read where it adds.
template <bool Adds, class A, class B>
__device__ void cast_block(A* to, B const* from, Index begin, Index n, bool packed) {
  constexpr int width = shared_width<A, B>;
  constexpr Index stride = Index{block_threads} * width;
  constexpr Index taken = stride * cast_depth;
  if (packed && begin + taken <= n) {
    Index const first = begin + Index{threadIdx.x} * width;
    Pack<B, width> values[cast_depth];
    Pack<A, width> results[cast_depth];
#pragma unroll
    for (int k = 0; k < cast_depth; ++k) {
      values[k] = load<width>(from + first + k * stride);
      if constexpr (Adds) results[k] = load<width>(static_cast<A const*>(to) + first + k * stride);
    }
#pragma unroll
    for (int k = 0; k < cast_depth; ++k) {
#pragma unroll
      for (int j = 0; j < width; ++j)
        results[k].x[j] = combined<Adds>(results[k].x[j], values[k].x[j]);
      store(to + first + k * stride, results[k]);
    }
    return;
  }
  Index const end = min(begin + taken, n);
  for (Index i = begin + Index{threadIdx.x}; i < end; i += block_threads)
    to[i] = combined<Adds>(to[i], from[i]);
}

template <bool Adds, class A, class B>
__global__ void __launch_bounds__(block_threads)
    cast_kernel(A* to, B const* from, Index n, bool packed) {
  constexpr Index taken = Index{block_threads} * shared_width<A, B> * cast_depth;
  cast_block<Adds>(to, from, Index{blockIdx.x} * taken, n, packed);
}

template <bool Adds, class A, class B>
void cast(cudaStream_t stream, A* to, B const* from, Index n, char const* name) {
  if (n == 0) return;
  constexpr int width = shared_width<A, B>;
  constexpr Index taken = Index{block_threads} * width * cast_depth;
  bool const packed = aligned<width>(to) && aligned<width>(from);
  cast_kernel<Adds><<<blocks(n, taken, name), block_threads, 0, stream>>>(to, from, n, packed);
  launched(name);
}

}  // namespace cuda::detail

/// to[i] = from[i]
template <class A, class B, cuda::RunsKernels D>
void assign(typename D::Stream& stream, View<A, D> to, View<B const, D> from) {
  cuda::detail::cast<false>(stream.native(), to.address(), from.address(), from.size(), "assign");
}

/// to[i] += from[i]
template <class A, class B, cuda::RunsKernels D>
void add(typename D::Stream& stream, View<A, D> to, View<B const, D> from) {
  cuda::detail::cast<true>(stream.native(), to.address(), from.address(), from.size(), "add");
}

}  // namespace zero
