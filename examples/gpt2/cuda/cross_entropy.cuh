// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mean cross entropy of the logits' softmax and, in the same buffer, its gradient; the host
// reference is gpt2/cross_entropy.hpp. Shapes: logits [rows, vocabulary]; targets [rows].

#include <gpt2/cuda/pack.cuh>

#include <cmath>
#include <cstdint>

namespace gpt2::cuda {

inline constexpr int classifier_threads = 512;

/// e^x: by the hardware where the result is rounded to 16 bits anyway.
template <class T>
__device__ float exponential(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return expf(x);
  } else {
    return __expf(x);
  }
}

/// losses[row] = log(sum of exp(logits)) - logit of the target; where it trains the row becomes
/// loss_scale / rows (softmax - 1 at the target). One block a row, which goes through it twice: the
/// second time it is in the cache. Bytes an element: sizeof(T) read, sizeof(T) written.
template <int N, class T>
__global__ void __launch_bounds__(classifier_threads)
    cross_entropy_kernel(float* __restrict__ losses, T* __restrict__ logits,
                         std::int32_t const* __restrict__ targets, float const* loss_scale,
                         bool trains, Index vocabulary) {
  __shared__ float shared[warp];
  Index const row = blockIdx.x;
  T* const values = logits + row * vocabulary;
  Index const target = targets[row];
  float const at_target = widen(values[target]);
  // A thread's sum is kept relative to its own largest value so far.
  float largest = -INFINITY;
  float sum = 0;
  for (Index i = Index{threadIdx.x} * N; i < vocabulary; i += Index{classifier_threads} * N) {
    Pack<T, N> const pack = load<N>(values + i);
    float most = largest;
#pragma unroll
    for (int j = 0; j < N; ++j) most = fmaxf(most, widen(pack.x[j]));
    if (most > largest) {
      sum *= exponential<T>(largest - most);
      largest = most;
    }
#pragma unroll
    for (int j = 0; j < N; ++j) sum += exponential<T>(widen(pack.x[j]) - largest);
  }
  float const most =
      over_block(largest, -INFINITY, shared, [](float a, float b) { return fmaxf(a, b); });
  float const mine = sum > 0 ? sum * exponential<T>(largest - most) : 0.0f * sum;
  float const total = over_block(mine, 0, shared, [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) losses[row] = logf(total) + most - at_target;
  if (!trains) return;
  float const factor = *loss_scale / static_cast<float>(gridDim.x);
  float const inverse = 1.0f / total;
  for (Index i = Index{threadIdx.x} * N; i < vocabulary; i += Index{classifier_threads} * N) {
    Pack<T, N> pack = load<N>(values + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float const probability = exponential<T>(widen(pack.x[j]) - most) * inverse;
      pack.x[j] = narrow<T>((probability - (i + j == target ? 1.0f : 0.0f)) * factor);
    }
    store(values + i, pack);
  }
}

/// *loss += the mean of losses, in double: one block, in an order that the number of rows fixes.
template <class Loss>
__global__ void __launch_bounds__(block_threads)
    mean_loss_kernel(Loss* loss, float const* __restrict__ losses, Index rows) {
  __shared__ double sums[block_threads];
  double sum = 0;
  for (Index i = threadIdx.x; i < rows; i += block_threads) sum += losses[i];
  sums[threadIdx.x] = sum;
  for (unsigned int apart = block_threads / 2; apart > 0; apart /= 2) {
    __syncthreads();
    if (threadIdx.x < apart) sums[threadIdx.x] += sums[threadIdx.x + apart];
  }
  if (threadIdx.x == 0) *loss += sums[0] / static_cast<double>(rows);
}

/// Adds the mean loss to *loss; where it trains, logits become loss_scale times the gradient of the
/// mean loss.
/// @param losses room for one float a row
template <class T>
void cross_entropy(cudaStream_t stream, double* loss, T* logits, std::int32_t const* targets,
                   float const* loss_scale, bool trains, Index rows, Index vocabulary,
                   float* losses) {
  with_pack<T>(vocabulary, [&](auto pack) {
    cross_entropy_kernel<decltype(pack)::value>
        <<<blocks(rows, 1, "cross_entropy"), classifier_threads, 0, stream>>>(
            losses, logits, targets, loss_scale, trains, vocabulary);
  });
  launched("cross_entropy");
  mean_loss_kernel<<<1, block_threads, 0, stream>>>(loss, losses, rows);
  launched("mean_loss");
}

}  // namespace gpt2::cuda
