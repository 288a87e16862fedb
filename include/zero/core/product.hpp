// SPDX-License-Identifier: Apache-2.0
#pragma once
// A product that is rounded before it is added to anything. Compilers may fuse a * b + c into one
// rounding where the machine can, so that bits would depend on its instructions and on flags such
// as -march=native; arithmetic whose bits are promised writes its products so.

#include <zero/core/host_device.hpp>

namespace zero {

namespace detail {

template <class T>
ZERO_HOST_DEVICE inline T rounded_product(T a, T b) {
#if defined(__clang__)
#pragma clang fp contract(off)
  return a * b;
#elif defined(__GNUC__) && defined(__x86_64__)
  T p = a * b;
#if defined(__FMA__) || defined(__FMA4__) || defined(__AVX512F__)
  __asm__("" : "+x"(p));  // nothing is done, and the compiler does not know that
#endif
  return p;
#elif defined(__GNUC__)
  T volatile p = a * b;
  return p;
#else
  return a * b;
#endif
}

}  // namespace detail

/// a * b, rounded to nearest, never fused with a sum that it is a term of.
ZERO_HOST_DEVICE inline float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return detail::rounded_product(a, b);
#endif
}
/// The same in double.
ZERO_HOST_DEVICE inline double product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return detail::rounded_product(a, b);
#endif
}

}  // namespace zero
