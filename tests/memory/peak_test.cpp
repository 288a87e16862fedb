// SPDX-License-Identifier: Apache-2.0
#include <archetypes/rig.hpp>
#include <doctest/doctest.h>
#include <memory/held_bytes.hpp>
#include <memory/models.hpp>

#include <atomic>
#include <string>

namespace {

using zero::Index;
using zero::Reduction;

zero::MemoryPlan plan_of(rig::Setup const& setup, int world) {
  return zero::plan_memory(setup.units, rig::schedule_of(setup), world, rig::facts_of(setup),
                           setup.options);
}

/// Everything that a trainer does while passes keep the order.
void live(rig::Trainer& trainer, std::span<rig::Batch const> batches) {
  for (int s = 0; s < 2; ++s) {
    trainer.step(batches);
    trainer.evaluate(batches.front());
    trainer.decision();
  }
  trainer.parameters_hash();
  trainer.read_weights([](auto const&, Index, auto) {});
}

std::vector<rig::Batch> batches_of(rig::Setup const& setup, int rank) {
  std::vector<rig::Batch> batches;
  for (Index i = 0; i < setup.options.accumulation; ++i) batches.push_back({rank, i});
  return batches;
}

void check_peak(rig::Setup const& setup, int world, int rank) {
  rig::Alone alone(setup, rank, world);
  Index const allocations = alone.ledger().allocations();
  live(alone.trainer(), batches_of(setup, rank));
  zero::MemoryPlan const plan = plan_of(setup, world);
  memory::Bytes const planned = memory::planned(plan);
  memory::Bytes const peak = memory::peak(alone.ledger());
  CHECK_MESSAGE(planned == peak, memory::text(planned) << "in the ledger: " << memory::text(peak));
  CHECK(alone.ledger().peak_bytes() == plan.total_bytes());
  CHECK(alone.ledger().bytes() == plan.total_bytes());
  CHECK(alone.ledger().allocations() == allocations);
  CHECK(static_cast<std::size_t>(allocations) == planned.size());
}

}  // namespace

TEST_CASE("the plan is the ledger's peak, buffer by buffer, in every setting") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2, 3, 4, 8}) {
      for (Index accumulation : {1, 3}) {
        for (bool bf16 : {false, true}) {
          for (Reduction moment : {Reduction::boundary, Reduction::micro_batch}) {
            for (int prefetch = 0; prefetch <= 3; ++prefetch) {
              for (Index bucket : {0, 700, 1000000}) {
                for (Index threshold : {0, 512}) {
                  rig::Setup setup{.units = memory::odd_units(), .stage = stage, .bf16 = bf16};
                  setup.options.accumulation = accumulation;
                  setup.options.reduction = moment;
                  setup.options.prefetch = prefetch;
                  setup.options.bucket = bucket;
                  setup.options.persistence_threshold = threshold;
                  CAPTURE(setup);
                  CAPTURE(world);
                  check_peak(setup, world, (prefetch + stage) % world);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("the plan is the peak for tied and held units, and where nothing is released") {
  zero::Schedule held = memory::tied_schedule(4);
  for (zero::Visit& visit : held) visit.held = 2;
  for (zero::Schedule const& schedule : {memory::tied_schedule(4), held}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (int world : {1, 2, 3}) {
        for (Index accumulation : {1, 2}) {
          for (bool release : {false, true}) {
            rig::Setup setup{
                .units = memory::odd_units(), .schedule = schedule, .stage = stage, .bf16 = true};
            setup.options.accumulation = accumulation;
            setup.options.release_after_forward = release;
            CAPTURE(setup);
            CAPTURE(world);
            check_peak(setup, world, world - 1);
          }
        }
      }
    }
  }
}

TEST_CASE("the plan is the peak on threads, on every rank") {
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Setup setup{.units = memory::odd_units(), .stage = stage, .bf16 = true};
    setup.options.accumulation = 2;
    zero::MemoryPlan const plan = plan_of(setup, 3);
    std::atomic<int> equal = 0;
    zero::launch<zero::Threads>(3, [&](auto communicator) {
      zero::CollectiveLog log;
      auto const trainer = rig::make(setup, rig::Ranks(communicator), log);
      live(*trainer, batches_of(setup, communicator.rank()));
      zero::Ledger const& ledger = communicator.device().ledger();
      if (memory::peak(ledger) == memory::planned(plan) &&
          ledger.peak_bytes() == plan.total_bytes())
        ++equal;
    });
    CHECK(equal == 3);
  }
}

TEST_CASE("a pass off the order takes extra slots, which are counted apart from the plan") {
  for (int world : {1, 3}) {
    for (int stage = 0; stage <= 3; ++stage) {
      rig::Setup const setup{.units = memory::odd_units(), .stage = stage, .bf16 = true};
      rig::Alone alone(setup, 0, world);
      alone.step(1);
      int const order[] = {1, 0, 1, 0, 0};  // of the default order only 1 is next
      alone->visit(order);
      memory::Bytes expected = memory::planned(plan_of(setup, world));
      bool const gathers = stage == 3 && world > 1;
      CAPTURE(setup);
      if (gathers) {
        // One visit at a time is open: one slot, as large as the largest unit asked for so far.
        zero::Layout const& layout = alone->layout();
        expected["extra slots"] = layout.elements(0) * 2;
      }
      CHECK_MESSAGE(memory::peak(alone.ledger()) == expected,
                    memory::text(memory::peak(alone.ledger())));
      CHECK(alone->deviations().extra_visits == 4);
      Index const allocations = alone.ledger().allocations();
      alone->visit(order);
      alone.step(1);
      CHECK(alone.ledger().allocations() == allocations);
    }
  }
}

TEST_CASE("planned and measured peak fall from stage to stage for a GPT on two ranks or more") {
  zero::Units const units = memory::gpt_units(6, 64, 256, 128);
  for (bool bf16 : {false, true}) {
    for (Index accumulation : {1, 3}) {
      for (int world : {2, 3, 4, 8}) {
        Index before = 0;
        for (int stage = 0; stage <= 3; ++stage) {
          rig::Setup setup{.units = units,
                           .schedule = memory::tied_schedule(static_cast<int>(units.size())),
                           .stage = stage,
                           .bf16 = bf16};
          setup.options.accumulation = accumulation;
          rig::Alone alone(setup, 0, world);
          alone.step(accumulation);
          Index const planned = plan_of(setup, world).total_bytes();
          CAPTURE(setup);
          CAPTURE(world);
          CHECK(alone.ledger().peak_bytes() == planned);
          if (stage > 0) CHECK(planned < before);
          before = planned;
        }
      }
    }
  }
}
