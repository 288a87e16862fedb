// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several elements in one access, and how much of a view a block of threads takes: what all
// kernels over flat memory share. Such kernels are bound by bandwidth: each thread has several
// independent accesses under way before it uses the first.

#include <zero/core/dtype.hpp>
#include <zero/core/size.hpp>
#include <zero/cuda/status.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace zero::cuda::detail {

/// Threads of a block in every kernel over flat memory.
inline constexpr int block_threads = 256;

/// N elements, read and written by one access.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T x[N];
};

/// What one access moves of so many bytes.
template <std::size_t Bytes>
using AccessOf = std::conditional_t<Bytes % 16 == 0, uint4,
                                    std::conditional_t<Bytes % 8 == 0, uint2, unsigned int>>;
/// One store, which nvcc would split where it has the parts in other registers.
__device__ inline void store_access(uint4* to, uint4 x) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}
__device__ inline void store_access(uint2* to, uint2 x) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(x.x), "r"(x.y) : "memory");
}
__device__ inline void store_access(unsigned int* to, unsigned int x) { *to = x; }

/// Reads and writes a pack by the caches' own policy: streaming past them was seen to be slower, by
/// a tenth for casts and by a fortieth for updates.
template <int N, class T>
__device__ Pack<T, N> load(T const* from) {
  return *reinterpret_cast<Pack<T, N> const*>(from);
}
/// @param to global memory
template <class T, int N>
__device__ void store(T* to, Pack<T, N> const& values) {
  using Access = AccessOf<sizeof(Pack<T, N>)>;
  static_assert(sizeof(values) % sizeof(Access) == 0);
#pragma unroll
  for (std::size_t i = 0; i < sizeof(values) / sizeof(Access); ++i) {
    Access part;
    std::memcpy(&part, reinterpret_cast<std::byte const*>(&values) + i * sizeof(part),
                sizeof(part));
    store_access(reinterpret_cast<Access*>(to) + i, part);
  }
}

/// As dtype.hpp converts; fp16 by the hardware, whose results are the same but for the payload of a
/// NaN, which dtype.hpp keeps.
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bf16 x) { return static_cast<float>(x); }
__device__ inline float widen(fp16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
template <class T>
__device__ T narrow(float x) {
  if constexpr (std::is_same_v<T, fp16>) {
    if (x != x) return fp16(x);
    fp16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
  } else {
    return static_cast<T>(x);
  }
}

/// Room for a T where nothing is constructed, as in shared memory.
template <class T>
struct Room {
  alignas(T) unsigned char bytes[sizeof(T)];

  __device__ T& operator*() { return *reinterpret_cast<T*>(bytes); }
};

/// Whether packs of N elements may be read from, or written to, an address.
template <int N, class T>
bool aligned(T const* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Pack<T, N>) == 0;
}

/// Blocks of `per_block` elements that cover n > 0.
/// @throws InvalidArgument for more than a grid can have
inline unsigned int blocks(Index n, Index per_block, char const* kernel) {
  Index const count = (n + per_block - 1) / per_block;
  if (count > 0x7fffffff) {
    throw InvalidArgument(std::string(kernel) + ": a view of " + std::to_string(n) +
                          " elements; a launch takes at most " +
                          std::to_string(per_block * 0x7fffffff));
  }
  return static_cast<unsigned int>(count);
}

/// @throws Failure when the kernel was not launched, or earlier work has failed
inline void launched(char const* kernel,
                     std::source_location where = std::source_location::current()) {
  check(cudaGetLastError(), std::string("kernel ") + kernel, where);
}

}  // namespace zero::cuda::detail
