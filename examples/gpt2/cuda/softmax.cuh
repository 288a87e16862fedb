// SPDX-License-Identifier: Apache-2.0
#pragma once
// The softmax of causal attention's scores and its gradient, where attention is made of plain
// products. Shapes: scores, weights [matrices, length, length]; row i of a matrix sees columns 0 to
// i, and weights beyond are 0.

#include <gpt2/cuda/pack.cuh>

#include <cmath>

namespace gpt2::cuda {

/// A block a row. scores may be weights where T is float.
template <class T>
__global__ void __launch_bounds__(block_threads)
    causal_softmax_kernel(T* weights, float const* scores, Index length) {
  __shared__ float shared[warp];
  Index const row = Index{blockIdx.x};
  Index const seen = row % length + 1;
  float const* const in = scores + row * length;
  float largest = -INFINITY;
  for (Index i = threadIdx.x; i < seen; i += block_threads) largest = fmaxf(largest, in[i]);
  largest = over_block(largest, -INFINITY, shared, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (Index i = threadIdx.x; i < seen; i += block_threads) sum += expf(in[i] - largest);
  sum = over_block(sum, 0, shared, [](float a, float b) { return a + b; });
  float const inverse = 1.0f / sum;
  for (Index i = threadIdx.x; i < length; i += block_threads)
    weights[row * length + i] = narrow<T>(i < seen ? expf(in[i] - largest) * inverse : 0.0f);
}

/// out = weights (gradient - sum(weights gradient)): the gradient of the scores from that of the
/// weights. out may be gradient where T is float.
template <class T>
__global__ void __launch_bounds__(block_threads)
    causal_softmax_backward_kernel(T* out, float const* gradient, T const* __restrict__ weights,
                                   Index length) {
  __shared__ float shared[warp];
  Index const row = Index{blockIdx.x};
  Index const seen = row % length + 1;
  float const* const in = gradient + row * length;
  T const* const weight = weights + row * length;
  float sum = 0;
  for (Index i = threadIdx.x; i < seen; i += block_threads) sum += widen(weight[i]) * in[i];
  sum = over_block(sum, 0, shared, [](float a, float b) { return a + b; });
  for (Index i = threadIdx.x; i < length; i += block_threads)
    out[row * length + i] = narrow<T>(i < seen ? widen(weight[i]) * (in[i] - sum) : 0.0f);
}

/// weights = softmax of each row's seen scores. @param rows of all matrices
template <class T>
void causal_softmax(cudaStream_t stream, T* weights, float const* scores, Index rows,
                    Index length) {
  causal_softmax_kernel<<<blocks(rows, 1, "causal_softmax"), block_threads, 0, stream>>>(
      weights, scores, length);
  launched("causal_softmax");
}

/// out = the gradient of the scores. @param rows of all matrices
template <class T>
void causal_softmax_backward(cudaStream_t stream, T* out, float const* gradient, T const* weights,
                             Index rows, Index length) {
  causal_softmax_backward_kernel<<<blocks(rows, 1, "causal_softmax_backward"), block_threads, 0,
                                   stream>>>(out, gradient, weights, length);
  launched("causal_softmax_backward");
}

}  // namespace gpt2::cuda
