// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole power in double: the same bits on the host and in kernels, which std::pow does not
// promise, and a few products where a kernel's pow takes a microsecond.

#include <zero/core/product.hpp>
#include <zero/core/size.hpp>

namespace zero {

/// base^n by squaring, n >= 0. Each product is rounded; the relative error is at most n 2^-53.
ZERO_HOST_DEVICE inline double integer_power(double base, Index n) {
  double result = 1;
  double square = base;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) result = product(result, square);
    square = product(square, square);
  }
  return result;
}

}  // namespace zero
