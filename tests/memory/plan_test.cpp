// SPDX-License-Identifier: Apache-2.0
// The plan from plain values: this file names no device, no communicator and no policy.
#include <zero/step/memory_plan.hpp>

#include <doctest/doctest.h>
#include <memory/held_bytes.hpp>
#include <memory/models.hpp>

namespace {

using zero::Facts;
using zero::Index;
using zero::MemoryPlan;
using zero::Options;

Facts facts(int stage, bool bf16, Index num_states = 2) {
  return {stage >= 1, stage >= 2, stage >= 3, bf16 ? 2 : 4, bf16 ? 2 : 4, bf16, num_states};
}

MemoryPlan plan(zero::Units const& units, Index world, Facts const& f, Options const& options) {
  return zero::plan_memory(units, zero::default_schedule(static_cast<int>(units.size())), world, f,
                           options);
}

/// 8 units of 1000 elements on 4 ranks: 1024 with padding, 256 a rank.
constexpr Index full = 8 * 1024;
constexpr Index owned = full / 4;

MemoryPlan plan_of_eight(int stage, bool bf16, Options const& options = {}) {
  return plan(memory::equal_units(8, 1000), 4, facts(stage, bf16), options);
}

}  // namespace

TEST_CASE("what is sharded is a slice a unit, what is not is whole") {
  for (bool bf16 : {false, true}) {
    Index const bytes = bf16 ? 2 : 4;
    Index const state_bytes = bf16 ? 12 : 8;  // moments, and master weights in float
    for (int stage = 0; stage <= 3; ++stage) {
      MemoryPlan const p = plan_of_eight(stage, bf16);
      CAPTURE(stage);
      CHECK(p.parameters.bytes == (stage >= 3 ? owned : full) * bytes);
      CHECK(p.gradients.bytes == (stage >= 2 ? owned : full) * bytes);
      CHECK(p.optimizer_state.bytes == (stage >= 1 ? owned : full) * state_bytes);
      CHECK(p.accumulators.bytes == 0);
    }
  }
}

TEST_CASE("accumulators are floats, whole where micro-batches are added before they are reduced") {
  for (int stage = 0; stage <= 3; ++stage) {
    Options options{.accumulation = 2, .reduction = zero::Reduction::boundary};
    CAPTURE(stage);
    MemoryPlan const boundary = plan_of_eight(stage, true, options);
    CHECK(boundary.accumulators.bytes == full * 4);
    CHECK(boundary.gradients.bytes == 0);
    options.reduction = zero::Reduction::micro_batch;
    MemoryPlan const micro = plan_of_eight(stage, true, options);
    CHECK(micro.accumulators.bytes == (stage >= 1 ? owned : full) * 4);
    CHECK(micro.gradients.bytes == 0);
    options.reduction.reset();
    CHECK(plan_of_eight(stage, true, options).accumulators.bytes ==
          (stage >= 2 ? micro : boundary).accumulators.bytes);
  }
}

TEST_CASE("gather slots: as many equal units as a prefetch keeps ahead, and one in use") {
  for (Index k = 0; k <= 3; ++k) {
    Options const options{.prefetch = static_cast<int>(k)};
    CHECK(plan_of_eight(3, true, options).gather_slots.bytes == (k + 1) * 1024 * 2);
    for (int stage = 0; stage <= 2; ++stage)
      CHECK(plan_of_eight(stage, true, options).gather_slots.bytes == 0);
  }
  Options const kept{.release_after_forward = false};
  CHECK(plan_of_eight(3, true, kept).gather_slots.bytes == 8 * 1024 * 2);
}

TEST_CASE("gradient slots: one unit being made and one being reduced, more where a bucket waits") {
  CHECK(plan_of_eight(0, true).gradient_slots.bytes == 0);
  CHECK(plan_of_eight(1, true).gradient_slots.bytes == 0);
  for (int stage : {2, 3}) {
    CHECK(plan_of_eight(stage, true).gradient_slots.bytes == 2 * 1024 * 2);
    // Buckets of two units: two wait, the next two are being made while the first are reduced.
    CHECK(plan_of_eight(stage, true, {.bucket = 2048}).gradient_slots.bytes == 3 * 1024 * 2);
  }
  Options const accumulating{.accumulation = 2};
  for (int stage = 0; stage <= 3; ++stage)
    CHECK(plan_of_eight(stage, true, accumulating).gradient_slots.bytes == 2 * 1024 * 2);
}

TEST_CASE("units kept resident are whole and need no slot") {
  Options const all{.persistence_threshold = 1024};
  MemoryPlan const p = plan_of_eight(3, true, all);
  CHECK(p.parameters.bytes == full * 2);
  CHECK(p.gather_slots.bytes == 0);
  Options const none{.persistence_threshold = 1023};
  CHECK(plan_of_eight(3, true, none).parameters.bytes == owned * 2);
}

TEST_CASE("one rank keeps everything and needs no slots") {
  for (int stage = 0; stage <= 3; ++stage) {
    MemoryPlan const p = plan(memory::equal_units(8, 1000), 1, facts(stage, true), Options{});
    CHECK(p.parameters.bytes == full * 2);
    CHECK(p.gradients.bytes == full * 2);
    CHECK(p.gather_slots.bytes == 0);
    CHECK(p.gradient_slots.bytes == 0);
  }
}

TEST_CASE("an optimizer's states are floats an owned element") {
  for (Index states : {0, 1, 3}) {
    for (int stage : {0, 1}) {
      MemoryPlan const p =
          plan(memory::equal_units(8, 1000), 4, facts(stage, false, states), Options{});
      CHECK(p.optimizer_state.bytes == (stage >= 1 ? owned : full) * 4 * states);
    }
  }
}

TEST_CASE("16-bit states and halves of master weights take 2 bytes an owned element each") {
  for (int stage : {0, 1}) {
    Index const elements = stage >= 1 ? owned : full;
    Facts f = facts(stage, true);
    auto const bytes = [&] {
      return plan(memory::equal_units(8, 1000), 4, f, Options{}).optimizer_state.bytes;
    };
    CHECK(bytes() == elements * (4 + 2 * 4));
    f.master_bytes = 2;
    CHECK(bytes() == elements * (2 + 2 * 4));
    f.state_bytes = 2;
    CHECK(bytes() == elements * (2 + 2 * 2));
  }
}

TEST_CASE("trust ratios take a table of two doubles a trained tensor and rank, others none") {
  for (int stage : {0, 3}) {
    Facts f = facts(stage, false);
    MemoryPlan const without = plan(memory::equal_units(8, 1000), 4, f, Options{});
    f.has_trust_ratio = true;
    MemoryPlan const with = plan(memory::equal_units(8, 1000), 4, f, Options{});
    CHECK(with.tables.bytes - without.tables.bytes == 4 * 8 * 2 * 8);
    CHECK(with.total_bytes() - without.total_bytes() == 4 * 8 * 2 * 8);
  }
}

TEST_CASE("slots of one buffer do not overlap, and fill it") {
  for (int stage = 0; stage <= 3; ++stage) {
    MemoryPlan const p = plan(memory::odd_units(), 3, facts(stage, true),
                              {.accumulation = 2, .prefetch = 2, .bucket = 512});
    for (zero::PlannedBuffer const* buffer : p.buffers()) {
      Index end = 0;
      for (zero::PlannedBuffer::Slot const& slot : buffer->slots) {
        CHECK(slot.offset_bytes % 256 == 0);
        CHECK(slot.offset_bytes >= end);
        CHECK(slot.offset_bytes - end < 256);
        end = slot.offset_bytes + slot.bytes;
      }
      CHECK(buffer->bytes >= end);
      CHECK(buffer->bytes - end < 256);
    }
  }
}

TEST_CASE("the planned sum is that of its buffers, and the text says each") {
  MemoryPlan const p = plan_of_eight(3, true, {.accumulation = 2});
  Index sum = 0;
  for (auto const& [kind, bytes] : memory::planned(p)) {
    sum += bytes;
    CHECK(p.text().find(kind + " " + std::to_string(bytes) + " bytes") != std::string::npos);
  }
  CHECK(p.total_bytes() == sum);
  CHECK(p.text().find("in all " + std::to_string(sum) + " bytes") != std::string::npos);
}

TEST_CASE("a tied GPT-2 of 1.5 billion parameters needs the slots that the design states") {
  zero::Units const units = memory::gpt_units(48, 1600, 50257, 1024);
  zero::Schedule const schedule = memory::tied_schedule(static_cast<int>(units.size()));
  MemoryPlan const p = zero::plan_memory(units, schedule, 64, facts(3, true), {.prefetch = 2});
  Index const elements = p.gather_slots.bytes / 2;
  CHECK(elements > 173'000'000);
  CHECK(elements < 175'000'000);
}

TEST_CASE("a plan for 4096 ranks takes no memory of its own for them") {
  MemoryPlan const p = plan(memory::equal_units(4, 1 << 20), 4096, facts(3, true), Options{});
  CHECK(p.parameters.bytes == 4 * (Index{1} << 20) / 4096 * 2);
}
