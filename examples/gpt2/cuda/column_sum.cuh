// SPDX-License-Identifier: Apache-2.0
#pragma once
// The gradient of a bias: the sum of a matrix's rows, x [rows, columns], in an order that the
// number of rows fixes.

#include <gpt2/cuda/layer_norm.cuh>

namespace gpt2::cuda {

/// Rows that one block adds.
inline constexpr Index sum_rows = 64;

/// partial[chunk, c] = sum of x[row, c] over the chunk's rows. Bytes an element: sizeof(T) read.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    column_sum_kernel(float* __restrict__ partial, T const* __restrict__ x, Index rows,
                      Index columns) {
  Index const c = (Index{blockIdx.x} * block_threads + threadIdx.x) * N;
  if (c >= columns) return;
  Index const first = Index{blockIdx.y} * sum_rows;
  Index const last = first + sum_rows < rows ? first + sum_rows : rows;
  float sums[N] = {};
#pragma unroll 4
  for (Index row = first; row < last; ++row) {
    Pack<T, N> const values = load<N>(x + row * columns + c);
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] += widen(values.x[j]);
  }
#pragma unroll
  for (int j = 0; j < N; ++j) partial[Index{blockIdx.y} * columns + c + j] = sums[j];
}

/// Floats of scratch that column_sum needs.
inline Index column_sum_scratch(Index rows, Index columns) {
  return (rows + sum_rows - 1) / sum_rows * columns;
}

/// to[c] = sum of x[row, c], plus what was there where it adds.
template <class T>
void column_sum(cudaStream_t stream, T* to, bool adds, T const* x, Index rows, Index columns,
                float* scratch) {
  Index const chunks = (rows + sum_rows - 1) / sum_rows;
  if (chunks > 65535) {
    throw zero::InvalidArgument("gpt2: the sum of " + std::to_string(rows) +
                                " rows; on GPUs at most " + std::to_string(65535 * sum_rows));
  }
  with_pack<T>(columns, [&](auto pack) {
    constexpr int n = decltype(pack)::value;
    dim3 const grid(blocks(columns, Index{block_threads} * n, "column_sum"),
                    static_cast<unsigned int>(chunks));
    column_sum_kernel<n><<<grid, block_threads, 0, stream>>>(scratch, x, rows, columns);
  });
  launched("column_sum");
  add_rows(stream, to, to, scratch, chunks, columns, columns, adds);
}

}  // namespace gpt2::cuda
