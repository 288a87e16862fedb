// SPDX-License-Identifier: Apache-2.0
#pragma once
// Token and position embeddings; the host reference is gpt2/embedding.hpp. Shapes: ids [rows];
// tokens [vocabulary, width]; positions [context, width]; out [rows, width].
//
// The gradient of a token's row is the sum over the rows it stands in, which a block makes in their
// order: the host sorts the rows by token when it sends them.

#include <gpt2/cuda/pack.cuh>

#include <cstdint>

namespace gpt2::cuda {

/// out[row] = tokens[ids[row]] + positions[row mod length]. Bytes an element: 2 sizeof(T) read,
/// sizeof(T) written.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    embed_kernel(T* __restrict__ out, std::int32_t const* __restrict__ ids,
                 T const* __restrict__ tokens, T const* __restrict__ positions, Index elements,
                 Index length, Index width) {
  Index const i = (Index{blockIdx.x} * block_threads + threadIdx.x) * N;
  if (i >= elements) return;
  Index const row = i / width;
  Index const c = i % width;
  Pack<T, N> values = load<N>(tokens + Index{ids[row]} * width + c);
  Pack<T, N> const position = load<N>(positions + row % length * width + c);
#pragma unroll
  for (int j = 0; j < N; ++j) values.x[j] = narrow<T>(widen(values.x[j]) + widen(position.x[j]));
  store(out + i, values);
}

/// gradient[place] += the sum of grad_out over the sequences' rows of that place.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    position_gradient_kernel(T* __restrict__ gradient, T const* __restrict__ grad_out,
                             Index sequences, Index elements) {
  Index const i = (Index{blockIdx.x} * block_threads + threadIdx.x) * N;
  if (i >= elements) return;
  float sums[N] = {};
  for (Index s = 0; s < sequences; ++s) {
    Pack<T, N> const values = load<N>(grad_out + s * elements + i);
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] += widen(values.x[j]);
  }
  Pack<T, N> result = load<N>(gradient + i);
#pragma unroll
  for (int j = 0; j < N; ++j) result.x[j] = narrow<T>(widen(result.x[j]) + sums[j]);
  store(gradient + i, result);
}

/// gradient[token] += the sum of grad_out over the token's rows, order[begins[k]] to
/// order[begins[k + 1] - 1] for the k-th distinct token, a block each.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    token_gradient_kernel(T* __restrict__ gradient, T const* __restrict__ grad_out,
                          std::int32_t const* __restrict__ ids,
                          std::int32_t const* __restrict__ order,
                          std::int32_t const* __restrict__ begins, Index width) {
  int const begin = begins[blockIdx.x];
  int const end = begins[blockIdx.x + 1];
  Index const token = ids[order[begin]];
  for (Index c = Index{threadIdx.x} * N; c < width; c += Index{block_threads} * N) {
    float sums[N] = {};
    for (int k = begin; k < end; ++k) {
      Pack<T, N> const values = load<N>(grad_out + Index{order[k]} * width + c);
#pragma unroll
      for (int j = 0; j < N; ++j) sums[j] += widen(values.x[j]);
    }
    Pack<T, N> result = load<N>(gradient + token * width + c);
#pragma unroll
    for (int j = 0; j < N; ++j) result.x[j] = narrow<T>(widen(result.x[j]) + sums[j]);
    store(gradient + token * width + c, result);
  }
}

/// out = tokens[ids] + positions
template <class T>
void embed(cudaStream_t stream, T* out, std::int32_t const* ids, T const* tokens,
           T const* positions, Index rows, Index length, Index width) {
  with_pack<T>(width, [&](auto pack) {
    constexpr int n = decltype(pack)::value;
    embed_kernel<n>
        <<<blocks(rows * width, Index{block_threads} * n, "embed"), block_threads, 0, stream>>>(
            out, ids, tokens, positions, rows * width, length, width);
  });
  launched("embed");
}

/// Adds each row of grad_out to the rows that it came from; null stands for a frozen tensor.
/// @param order the rows, sorted by token; a token's in ascending order
/// @param begins [distinct + 1] where each token's rows begin in `order`
template <class T>
void embed_backward(cudaStream_t stream, T* grad_tokens, T* grad_positions, T const* grad_out,
                    std::int32_t const* ids, std::int32_t const* order, std::int32_t const* begins,
                    Index distinct, Index rows, Index length, Index width) {
  with_pack<T>(width, [&](auto pack) {
    constexpr int n = decltype(pack)::value;
    if (grad_positions != nullptr) {
      position_gradient_kernel<n>
          <<<blocks(length * width, Index{block_threads} * n, "positions"), block_threads, 0,
             stream>>>(grad_positions, grad_out, rows / length, length * width);
    }
    if (grad_tokens != nullptr) {
      token_gradient_kernel<n><<<blocks(distinct, 1, "tokens"), block_threads, 0, stream>>>(
          grad_tokens, grad_out, ids, order, begins, width);
    }
  });
  launched("embed_backward");
}

}  // namespace gpt2::cuda
