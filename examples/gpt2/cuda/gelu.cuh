// SPDX-License-Identifier: Apache-2.0
#pragma once
// GPT-2's activation and its gradient, where no product does them on the way; the host reference is
// gpt2/gelu.hpp.

#include <gpt2/cuda/pack.cuh>

namespace gpt2::cuda {

/// x times it is gelu(x).
__device__ inline float gelu_gate(float x) {
  return 1.0f / (1.0f + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
}

/// out = gelu(x). Bytes an element: sizeof(T) read, sizeof(T) written.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    gelu_kernel(T* __restrict__ out, T const* __restrict__ x, Index n) {
  Index const i = (Index{blockIdx.x} * block_threads + threadIdx.x) * N;
  if (i >= n) return;
  Pack<T, N> values = load<N>(x + i);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float const v = widen(values.x[j]);
    values.x[j] = narrow<T>(v * gelu_gate(v));
  }
  store(out + i, values);
}

/// gradient *= gelu'(x). Bytes an element: 2 sizeof(T) read, sizeof(T) written.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    gelu_backward_kernel(T* __restrict__ gradient, T const* __restrict__ x, Index n) {
  Index const i = (Index{blockIdx.x} * block_threads + threadIdx.x) * N;
  if (i >= n) return;
  Pack<T, N> const values = load<N>(x + i);
  Pack<T, N> result = load<N>(gradient + i);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    float const v = widen(values.x[j]);
    float const gate = gelu_gate(v);
    float const inner = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * v * v);
    result.x[j] = narrow<T>(widen(result.x[j]) * (gate + v * gate * (1.0f - gate) * inner));
  }
  store(gradient + i, result);
}

/// out[i] = gelu(x[i])
template <class T>
void gelu(cudaStream_t stream, T* out, T const* x, Index n) {
  with_pack<T>(n, [&](auto pack) {
    constexpr int width = decltype(pack)::value;
    gelu_kernel<width>
        <<<blocks(n, Index{block_threads} * width, "gelu"), block_threads, 0, stream>>>(out, x, n);
  });
  launched("gelu");
}

/// gradient[i] *= gelu'(x[i])
template <class T>
void gelu_backward(cudaStream_t stream, T* gradient, T const* x, Index n) {
  with_pack<T>(n, [&](auto pack) {
    constexpr int width = decltype(pack)::value;
    gelu_backward_kernel<width>
        <<<blocks(n, Index{block_threads} * width, "gelu_backward"), block_threads, 0, stream>>>(
            gradient, x, n);
  });
  launched("gelu_backward");
}

}  // namespace gpt2::cuda
