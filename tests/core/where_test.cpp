// SPDX-License-Identifier: Apache-2.0
#include <zero/core/where.hpp>

#include <doctest/doctest.h>

TEST_CASE("a place is told by unit, phase and step") {
  CHECK(zero::describe({"gather", "h.3", 12}) == "unit 'h.3' (gather, step 12)");
  CHECK(zero::describe(zero::Where{}) == "unit '' (, step 0)");
  CHECK(zero::describe({"reduce", "h.3", 12, 1}) == "unit 'h.3' (reduce, step 12)");
  CHECK(zero::describe({"reduce", "h.3", 12, 2}) ==
        "unit 'h.3' (reduce, step 12 of 2 micro-batches)");
}
