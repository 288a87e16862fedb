// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a GPU needs for state in the host's memory beside it: parameters come up by a kernel that
// reads the host's memory over the bus, since whether a step is skipped is known in stream order
// alone. Everything else is copies, and work of the host in the stream's order.

#include <zero/cuda/pack.cuh>
#include <zero/cuda/transfer.hpp>
#include <zero/tier/host_side.hpp>

#include <algorithm>

namespace zero {

namespace cuda::detail {

/// Bytes: 16 read over the bus and 16 written a thread and turn.
template <class Pack>
__global__ void __launch_bounds__(block_threads)
    copy_in_unless_kernel(Pack* __restrict__ to, Pack const* __restrict__ from, Index packs,
                          std::int32_t const volatile* flag) {
  if (*flag != 0) return;
  Index const stride = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < packs; i += stride)
    to[i] = from[i];
}

/// The address by which kernels reach pinned host memory.
template <class T>
T* mapped(T* host) {
  void* address = nullptr;
  // Registered by Device::pin as memory that kernels may use. NOLINTNEXTLINE(*-const-cast)
  check(cudaHostGetDevicePointer(&address, const_cast<std::remove_const_t<T>*>(host), 0),
        "cudaHostGetDevicePointer");
  return static_cast<T*>(address);
}

}  // namespace cuda::detail

/// to[i] = from[i] unless the flag is raised by then; both lie in pinned host memory that outlives
/// the work. On the stream. to.size() is a multiple of 64, and the addresses are of 16 bytes.
template <class T, cuda::RunsKernels D>
void copy_in_unless(typename D::Stream& stream, View<T, D> to, T const* from, std::int32_t* flag) {
  if (to.size() == 0) return;
  Index const packs = to.size() * Index{sizeof(T)} / 16;
  // A few blocks fill the bus; more would take room from the next forward pass.
  auto const blocks = static_cast<unsigned>(
      std::min((packs + cuda::detail::block_threads - 1) / cuda::detail::block_threads, Index{64}));
  cuda::detail::copy_in_unless_kernel<uint4>
      <<<blocks, cuda::detail::block_threads, 0, stream.native()>>>(
          reinterpret_cast<uint4*>(to.address()),
          reinterpret_cast<uint4 const*>(cuda::detail::mapped(from)), packs,
          cuda::detail::mapped(flag));
  cuda::check(cudaGetLastError(), "copy_in_unless");
}

static_assert(CanPin<cuda::Device> && RunsHostCode<HostSide<cuda::Device>>);

}  // namespace zero
