// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layer normalisation, forward and backward; the host reference is gpt2/layer_norm.hpp. Shapes: x,
// out [rows, width]; weight, bias [width]; mean, inverse_deviation [rows], float.
//
// Sums over columns are made by a warp a row. Sums over rows are made without atomics: a block adds
// the rows it owns, in order, and a second kernel adds the blocks' sums, in order. Which rows a
// block owns depends on the number of rows alone, so equal runs give equal bits.

#include <gpt2/cuda/pack.cuh>

#include <algorithm>

namespace gpt2::cuda {

/// What the backward pass needs again of each row.
struct RowMoments {
  float* mean = nullptr;
  float* inverse_deviation = nullptr;
};

inline constexpr float norm_epsilon = 1e-5f;
/// Rows that a block takes at once, a warp each.
inline constexpr int norm_rows = block_threads / warp;
/// Most blocks, that is partial sums, of a backward pass.
inline constexpr Index norm_partials = 512;

/// Bytes an element: sizeof(T) read and written, while a row stays in the cache that two sums went
/// through before.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    layer_norm_kernel(T* __restrict__ out, RowMoments moments, T const* __restrict__ x,
                      T const* __restrict__ weight, T const* __restrict__ bias, Index rows,
                      int width) {
  int const lane = static_cast<int>(threadIdx.x) % warp;
  Index const row = Index{blockIdx.x} * norm_rows + static_cast<int>(threadIdx.x) / warp;
  if (row >= rows) return;
  T const* const in = x + row * width;
  float sum = 0;
  for (int c = lane * N; c < width; c += warp * N) {
    Pack<T, N> const values = load<N>(in + c);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += widen(values.x[j]);
  }
  float const mean = warp_sum(sum) / static_cast<float>(width);
  float squares = 0;
  for (int c = lane * N; c < width; c += warp * N) {
    Pack<T, N> const values = load<N>(in + c);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float const apart = widen(values.x[j]) - mean;
      squares += apart * apart;
    }
  }
  float const variance = warp_sum(squares) / static_cast<float>(width);
  float const inverse = 1.0f / sqrtf(variance + norm_epsilon);
  for (int c = lane * N; c < width; c += warp * N) {
    Pack<T, N> values = load<N>(in + c);
    Pack<T, N> const w = load<N>(weight + c);
    Pack<T, N> const b = load<N>(bias + c);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float const normal = (widen(values.x[j]) - mean) * inverse;
      values.x[j] = narrow<T>(normal * widen(w.x[j]) + widen(b.x[j]));
    }
    store(out + row * width + c, values);
  }
  if (lane == 0) {
    moments.mean[row] = mean;
    moments.inverse_deviation[row] = inverse;
  }
}

/// grad_x += inverse (g - mean(g) - n mean(g n)) with n the normal value and g = grad_out weight;
/// partial[block] = the sums over the block's rows of grad_out n, [width], then of grad_out,
/// [width]. Shared memory: 2 width floats. Bytes an element: 3 sizeof(T) read, sizeof(T) written.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    layer_norm_backward_kernel(T* __restrict__ grad_x, float* __restrict__ partial,
                               T const* __restrict__ grad_out, T const* __restrict__ x,
                               T const* __restrict__ weight, RowMoments moments, Index rows,
                               int width) {
  extern __shared__ float sums[];
  int const lane = static_cast<int>(threadIdx.x) % warp;
  int const number = static_cast<int>(threadIdx.x) / warp;
  for (int c = static_cast<int>(threadIdx.x); c < 2 * width; c += block_threads) sums[c] = 0;
  __syncthreads();
  for (Index first = Index{blockIdx.x} * norm_rows; first < rows;
       first += Index{gridDim.x} * norm_rows) {
    Index const row = first + number;
    if (row < rows) {
      T const* const in = x + row * width;
      T const* const grad = grad_out + row * width;
      float const mean = moments.mean[row];
      float const inverse = moments.inverse_deviation[row];
      float sum_g = 0;
      float sum_gn = 0;
      for (int c = lane * N; c < width; c += warp * N) {
        Pack<T, N> const values = load<N>(in + c);
        Pack<T, N> const d = load<N>(grad + c);
        Pack<T, N> const w = load<N>(weight + c);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          float const g = widen(d.x[j]) * widen(w.x[j]);
          sum_g += g;
          sum_gn += g * ((widen(values.x[j]) - mean) * inverse);
        }
      }
      float const mean_g = warp_sum(sum_g) / static_cast<float>(width);
      float const mean_gn = warp_sum(sum_gn) / static_cast<float>(width);
      for (int c = lane * N; c < width; c += warp * N) {
        Pack<T, N> const values = load<N>(in + c);
        Pack<T, N> const d = load<N>(grad + c);
        Pack<T, N> const w = load<N>(weight + c);
        Pack<T, N> result = load<N>(grad_x + row * width + c);
#pragma unroll
        for (int j = 0; j < N; ++j) {
          float const g = widen(d.x[j]) * widen(w.x[j]);
          float const normal = (widen(values.x[j]) - mean) * inverse;
          result.x[j] = narrow<T>(widen(result.x[j]) + inverse * (g - mean_g - normal * mean_gn));
        }
        store(grad_x + row * width + c, result);
      }
    }
    // Each thread adds columns of its own over the rows that the block has just read.
    Index const last = first + norm_rows < rows ? first + norm_rows : rows;
    for (int c = static_cast<int>(threadIdx.x) * N; c < width; c += block_threads * N) {
      float scales[N] = {};
      float shifts[N] = {};
      for (Index r = first; r < last; ++r) {
        Pack<T, N> const values = load<N>(x + r * width + c);
        Pack<T, N> const d = load<N>(grad_out + r * width + c);
        float const mean = moments.mean[r];
        float const inverse = moments.inverse_deviation[r];
#pragma unroll
        for (int j = 0; j < N; ++j) {
          scales[j] += widen(d.x[j]) * ((widen(values.x[j]) - mean) * inverse);
          shifts[j] += widen(d.x[j]);
        }
      }
#pragma unroll
      for (int j = 0; j < N; ++j) {
        sums[c + j] += scales[j];
        sums[width + c + j] += shifts[j];
      }
    }
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < 2 * width; c += block_threads)
    partial[Index{blockIdx.x} * 2 * width + c] = sums[c];
}

/// Columns that a block of add_rows_kernel takes, and parts into which it cuts the rows.
inline constexpr int add_columns = warp;
inline constexpr int add_parts = 16;

/// to[c] = sum over rows of partial[row, c], plus what was there where it adds. The rows are cut
/// into sixteen parts whose sums are added in order. The first `split` columns go to `to`, the
/// others to `rest`; null stands for a frozen tensor. Threads: [add_parts, add_columns].
template <class T>
__global__ void __launch_bounds__(add_columns* add_parts)
    add_rows_kernel(T* to, T* rest, float const* __restrict__ partial, Index rows, Index columns,
                    Index split, bool adds) {
  __shared__ float sums[add_parts][add_columns];
  Index const c = Index{blockIdx.x} * add_columns + threadIdx.x;
  Index const each = (rows + add_parts - 1) / add_parts;
  Index const begin = threadIdx.y * each;
  Index const end = begin + each < rows ? begin + each : rows;
  float sum = 0;
  if (c < columns) {
#pragma unroll 8
    for (Index row = begin; row < end; ++row) sum += partial[row * columns + c];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= columns || (c < split ? to : rest) == nullptr) return;
#pragma unroll
  for (int part = 1; part < add_parts; ++part) sum += sums[part][threadIdx.x];
  T& target = c < split ? to[c] : rest[c - split];
  target = narrow<T>(adds ? widen(target) + sum : sum);
}

template <class T>
void add_rows(cudaStream_t stream, T* to, T* rest, float const* partial, Index rows, Index columns,
              Index split, bool adds) {
  add_rows_kernel<<<blocks(columns, add_columns, "add_rows"), dim3(add_columns, add_parts), 0,
                    stream>>>(to, rest, partial, rows, columns, split, adds);
  launched("add_rows");
}

/// out = (x - mean) inverse_deviation weight + bias; leaves the moments.
template <class T>
void layer_norm(cudaStream_t stream, T* out, RowMoments moments, T const* x, T const* weight,
                T const* bias, Index rows, Index width) {
  with_pack<T>(width, [&](auto pack) {
    layer_norm_kernel<decltype(pack)::value>
        <<<blocks(rows, norm_rows, "layer_norm"), block_threads, 0, stream>>>(
            out, moments, x, weight, bias, rows, static_cast<int>(width));
  });
  launched("layer_norm");
}

/// Floats of scratch that layer_norm_backward needs.
inline Index layer_norm_scratch(Index rows, Index width) {
  return std::min((rows + norm_rows - 1) / norm_rows, norm_partials) * 2 * width;
}

/// Adds to grad_x; writes the gradients of weight and bias, or adds to them.
/// @throws zero::InvalidArgument for rows wider than the sums of one block can be
template <class T>
void layer_norm_backward(cudaStream_t stream, T* grad_x, T* grad_weight, T* grad_bias, bool adds,
                         T const* grad_out, T const* x, T const* weight, RowMoments moments,
                         Index rows, Index width, float* scratch) {
  Index const bytes = 2 * width * Index{sizeof(float)};
  if (bytes > 48 * 1024) {
    throw zero::InvalidArgument("gpt2: a norm over " + std::to_string(width) +
                                " columns; on GPUs at most 6144");
  }
  Index const count = std::min((rows + norm_rows - 1) / norm_rows, norm_partials);
  with_pack<T>(width, [&](auto pack) {
    layer_norm_backward_kernel<decltype(pack)::value>
        <<<static_cast<unsigned int>(count), block_threads, at(bytes), stream>>>(
            grad_x, scratch, grad_out, x, weight, moments, rows, static_cast<int>(width));
  });
  launched("layer_norm_backward");
  add_rows(stream, grad_weight, grad_bias, scratch, count, 2 * width, width, adds);
}

}  // namespace gpt2::cuda
