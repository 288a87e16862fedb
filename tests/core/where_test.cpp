// SPDX-License-Identifier: Apache-2.0
#include <zero/core/where.hpp>

#include <doctest/doctest.h>

TEST_CASE("a place is told by unit, phase and step") {
  CHECK(zero::describe({"gather", "h.3", 12}) == "unit 'h.3' (gather, step 12)");
  CHECK(zero::describe({}) == "unit '' (, step 0)");
}
