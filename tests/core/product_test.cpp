// SPDX-License-Identifier: Apache-2.0
#include <zero/core/product.hpp>

#include <doctest/doctest.h>

TEST_CASE("a product is rounded before it is added to anything") {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the last term does not fit a float.
  float const volatile a = 1.0f + 0x1p-12f;
  float const volatile c = -(1.0f + 0x1p-11f);
  CHECK(zero::product(a, a) + c == 0);
  CHECK(c + zero::product(a, a) == 0);
}
