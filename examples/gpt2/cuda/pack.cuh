// SPDX-License-Identifier: Apache-2.0
#pragma once
// What all kernels of the model share: elements in accesses of 16 bytes, conversion by the
// hardware, sums over a warp and a block in a fixed order, and how a launch is checked. All
// arithmetic is in float; T is float, zero::bf16 or zero::fp16.

#include <zero/core/dtype.hpp>
#include <zero/core/size.hpp>
#include <zero/cuda/status.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <string>
#include <type_traits>

namespace gpt2::cuda {

using zero::at;
using zero::bf16;
using zero::fp16;
using zero::Index;

/// Threads of a warp, and of a block in kernels that do not say otherwise.
inline constexpr int warp = 32;
inline constexpr int block_threads = 256;

/// Elements of one access of 16 bytes.
template <class T>
inline constexpr int whole_pack = static_cast<int>(16 / sizeof(T));

/// N elements that are read and written at once.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T x[N];
};

template <int N, class T>
__device__ Pack<T, N> load(T const* from) {
  return *reinterpret_cast<Pack<T, N> const*>(from);
}
template <class T, int N>
__device__ void store(T* to, Pack<T, N> const& values) {
  *reinterpret_cast<Pack<T, N>*>(to) = values;
}

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bf16 x) { return static_cast<float>(x); }
__device__ inline float widen(fp16 x) { return __half2float(__builtin_bit_cast(__half, x)); }

/// Rounded to nearest, ties to even.
template <class T>
__device__ T narrow(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else if constexpr (std::is_same_v<T, bf16>) {
    return __builtin_bit_cast(bf16, __float2bfloat16_rn(x));
  } else {
    return __builtin_bit_cast(fp16, __float2half_rn(x));
  }
}

/// Combines a value of all threads of a warp; every thread gets the result. The order is that of a
/// tree over lanes.
template <class F>
__device__ float over_warp(float value, F combine) {
#pragma unroll
  for (int apart = warp / 2; apart > 0; apart /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, apart));
  return value;
}
__device__ inline float warp_sum(float value) {
  return over_warp(value, [](float a, float b) { return a + b; });
}

/// Combines a value of all threads of a block, a multiple of 32; every thread gets the result.
/// @param shared one float a warp; free again when the next call begins
template <class F>
__device__ float over_block(float value, float start, float* shared, F combine) {
  int const lane = static_cast<int>(threadIdx.x) % warp;
  int const number = static_cast<int>(threadIdx.x) / warp;
  int const warps = static_cast<int>(blockDim.x) / warp;
  value = over_warp(value, combine);
  __syncthreads();  // all have read the result of the call before
  if (lane == 0) shared[number] = value;
  __syncthreads();
  return over_warp(lane < warps ? shared[lane] : start, combine);
}

/// The number of blocks of `each` that cover n > 0.
/// @throws zero::InvalidArgument for more than a grid can have
inline unsigned int blocks(Index n, Index each, char const* kernel) {
  Index const count = (n + each - 1) / each;
  if (count > 0x7fffffff) {
    throw zero::InvalidArgument(std::string("gpt2: ") + kernel + " over " + std::to_string(n) +
                                " parts; a launch takes at most " +
                                std::to_string(each * 0x7fffffff));
  }
  return static_cast<unsigned int>(count);
}

/// @throws zero::cuda::Failure when the kernel was not launched, or earlier work has failed
inline void launched(char const* kernel,
                     std::source_location where = std::source_location::current()) {
  zero::cuda::check(cudaGetLastError(), std::string("kernel ") + kernel, where);
}

/// Calls f with the number of elements of one access, as a constant: whole packs where rows of
/// `width` elements allow them, else single elements. Rows start at multiples of 16 bytes then.
template <class T, class F>
void with_pack(Index width, F f) {
  if (width % whole_pack<T> == 0) {
    f(std::integral_constant<int, whole_pack<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

}  // namespace gpt2::cuda
