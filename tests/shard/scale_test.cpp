// SPDX-License-Identifier: Apache-2.0
// What planning costs, and how far it counts. The time that it takes is a bench's business.
#include <zero/optim/adamw.hpp>
#include <zero/step/memory_plan.hpp>

#include <doctest/doctest.h>
#include <support/heap.hpp>

namespace {

using zero::Index;

zero::Facts stage_3() {
  return zero::Facts::of<zero::Policies<zero::Sharded<3>, zero::Bf16Mixed>>(
      zero::AdamW::num_states);
}

zero::Units many_units(Index num_units, Index tensors_each) {
  zero::Units units;
  for (Index u = 0; u < num_units; ++u) {
    zero::Unit& unit = units.emplace_back(zero::Unit{"layer_" + std::to_string(u), {}});
    for (Index i = 0; i < tensors_each; ++i) {
      unit.tensors.push_back(
          {.name = unit.name + ".weight_" + std::to_string(i), .shape = {1 + i % 7, 64 + i}});
    }
  }
  return units;
}

/// Bytes that all of planning asks for.
Index planning_bytes(zero::Units const& units, Index world) {
  zero::Schedule const schedule = zero::default_schedule(static_cast<int>(units.size()));
  zero::Options const options{.accumulation = 2, .clip = 1.0f, .prefetch = 2, .bucket = 1'000'000};
  Index const before = heap::requested_bytes();
  zero::MemoryPlan const plan = plan_memory(units, schedule, world, stage_3(), options);
  Index const bytes = heap::requested_bytes() - before;
  CHECK(plan.total_bytes() > 0);
  return bytes;
}

TEST_CASE("planning takes memory by tensors and units, not by ranks") {
  zero::Units const units = many_units(1000, 100);
  Index const on_4 = planning_bytes(units, 4);
  Index const on_4096 = planning_bytes(units, 4096);
  MESSAGE("bytes asked for: " << on_4 << " on 4 ranks, " << on_4096 << " on 4096");
  CHECK(on_4 > 0);
  CHECK(std::abs(on_4096 - on_4) < on_4 / 100);
  CHECK(on_4096 < 1000 * 100 * 1000);

  // A tenth of the units with as many tensors each: a tenth of the bytes, vectors' growth apart.
  Index const tenth = planning_bytes(many_units(100, 100), 4096);
  CHECK(on_4096 < 16 * tenth);
}

TEST_CASE("the plan of the largest model is counted, or refused") {
  zero::Units const units{{"u", {{.name = "t", .shape = {Index{1} << 60}}}}};
  bool counted_or_refused = false;
  try {
    zero::MemoryPlan const plan =
        plan_memory(units, zero::default_schedule(1), 1, stage_3(), zero::Options{});
    counted_or_refused = plan.total_bytes() >= Index{1} << 60;
  } catch (zero::InvalidArgument const&) {
    counted_or_refused = true;
  }
  CHECK(counted_or_refused);
}

}  // namespace
