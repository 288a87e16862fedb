// SPDX-License-Identifier: Apache-2.0
#pragma once
// initialise: initial values keyed by (seed, tensor, element), made where they are needed. The host
// reference is in model/initial.hpp. Constants and uniform values have its bits (with -fmad=false);
// a normal value may differ by a unit in the last place, since logarithm and cosine are CUDA's own.

#include <zero/cuda/pack.cuh>
#include <zero/cuda/transfer.hpp>

#include <algorithm>
#include <vector>

namespace zero {

namespace cuda::detail {

/// Bytes an element: sizeof(T) written; bound by arithmetic where values are normal.
template <class T, class Formula>
__global__ void __launch_bounds__(block_threads)
    initialise_kernel(T* to, Index n, Formula formula, std::uint64_t seed, Index tensor,
                      Index first) {
  Index const stride = Index{gridDim.x} * block_threads;
  for (Index i = Index{blockIdx.x} * block_threads + Index{threadIdx.x}; i < n; i += stride)
    to[i] = narrow<T>(formula.value(seed, tensor, first + i));
}

}  // namespace cuda::detail

/// to[i] = initial value of element first + i of the tensor. A function is called on the host,
/// which then waits for the copies.
/// @tparam Kinds as zero::Initial, with which a room above this one describes tensors
template <class T, class Kinds, cuda::RunsKernels D>
void initialise(typename D::Stream& stream, View<T, D> to, Kinds const& initial, std::uint64_t seed,
                Index tensor, Index first) {
  if (to.size() == 0) return;
  if (initial.formula().kind != Kinds::Kind::function) {
    Index const grid = std::min(Index{1} << 16, (to.size() + cuda::detail::block_threads - 1) /
                                                    cuda::detail::block_threads);
    cuda::detail::initialise_kernel<<<static_cast<unsigned int>(grid), cuda::detail::block_threads,
                                      0, stream.native()>>>(to.address(), to.size(),
                                                            initial.formula(), seed, tensor, first);
    cuda::detail::launched("initialise");
    return;
  }
  constexpr Index at_once = Index{1} << 20;
  std::vector<T> values(at(std::min(at_once, to.size())));
  for (Index begin = 0; begin < to.size(); begin += at_once) {
    Index const count = std::min(at_once, to.size() - begin);
    for (Index i = 0; i < count; ++i)
      values[at(i)] = static_cast<T>(initial.value(seed, tensor, first + begin + i));
    copy_in(stream, to.sub(begin, count), values.data());
    stream.synchronize();
  }
}

}  // namespace zero
