// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes moved as they are: what device/elementwise.hpp asks for that needs no kernel.

#include <zero/cuda/device.hpp>
#include <zero/device/view.hpp>

namespace zero {

/// to[i] = 0. Bytes: writes sizeof(T) an element.
template <class T, cuda::RunsKernels D>
void fill_zero(typename D::Stream& stream, View<T, D> to) {
  if (to.size() == 0) return;
  cuda::check(cudaMemsetAsync(to.address(), 0, at(to.size()) * sizeof(T), stream.native()),
              "fill_zero: cudaMemsetAsync");
}

namespace detail {

template <class T>
void transfer(cudaStream_t stream, T* to, T const* from, Index n, cudaMemcpyKind kind,
              char const* what) {
  if (n == 0) return;
  cuda::check(cudaMemcpyAsync(to, from, at(n) * sizeof(T), kind, stream), what);
}

inline bool pinned(void const* host) {
  cudaPointerAttributes attributes{};
  cuda::check(cudaPointerGetAttributes(&attributes, host), "cudaPointerGetAttributes");
  return attributes.type != cudaMemoryTypeUnregistered;
}

}  // namespace detail

/// The bits of from. Bytes: reads and writes sizeof(T) an element.
template <class T, cuda::RunsKernels D>
void copy(typename D::Stream& stream, View<T, D> to, View<T const, D> from) {
  detail::transfer<T>(stream.native(), to.address(), from.address(), to.size(),
                      cudaMemcpyDeviceToDevice, "copy: cudaMemcpyAsync");
}

/// From host memory that outlives the work. Where that memory is not pinned, CUDA may let the host
/// wait for the stream.
template <class T, cuda::RunsKernels D>
void copy_in(typename D::Stream& stream, View<T, D> to, T const* host) {
  detail::transfer<T>(stream.native(), to.address(), host, to.size(), cudaMemcpyHostToDevice,
                      "copy_in: cudaMemcpyAsync");
}

/// To host memory that outlives the work. Where that memory is not pinned the host waits, as
/// synchronize() does, so that other ranks' failures are seen meanwhile.
template <class T, cuda::RunsKernels D>
void copy_out(typename D::Stream& stream, std::remove_const_t<T>* host, View<T, D> from) {
  if (from.size() > 0 && !detail::pinned(host)) stream.synchronize();
  detail::transfer<std::remove_const_t<T>>(stream.native(), host, from.address(), from.size(),
                                           cudaMemcpyDeviceToHost, "copy_out: cudaMemcpyAsync");
}

}  // namespace zero
