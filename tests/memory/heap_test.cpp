// SPDX-License-Identifier: Apache-2.0
#include <archetypes/rig.hpp>
#include <doctest/doctest.h>
#include <memory/models.hpp>
#include <support/heap.hpp>

#include <barrier>
#include <string>

namespace {

using zero::Index;

/// Bytes that one step, over all micro-batches given in each way, asks of the heap.
Index asked_in_steps(rig::Trainer& trainer, std::span<rig::Batch const> batches) {
  for (int warm = 0; warm < 2; ++warm) {
    trainer.step(batches);
    trainer.step(batches.front());
  }
  Index const before = heap::requested_bytes();
  for (int s = 0; s < 3; ++s) {
    trainer.step(batches);
    trainer.step(batches.front());
  }
  return heap::requested_bytes() - before;
}

}  // namespace

TEST_CASE("a step takes nothing from the heap, in any setting") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2, 3}) {
      for (Index accumulation : {1, 3}) {
        for (bool bf16 : {false, true}) {
          for (int prefetch : {0, 1, 3}) {
            for (Index bucket : {0, 700}) {
              for (Index threshold : {0, 512}) {
                rig::Setup setup{.units = memory::odd_units(), .stage = stage, .bf16 = bf16};
                setup.options.accumulation = accumulation;
                setup.options.prefetch = prefetch;
                setup.options.bucket = bucket;
                setup.options.persistence_threshold = threshold;
                rig::Alone alone(setup, 0, world);
                std::vector<rig::Batch> batches;
                for (Index i = 0; i < accumulation; ++i) batches.push_back({0, i});
                CAPTURE(setup);
                CAPTURE(world);
                CHECK(asked_in_steps(alone.trainer(), batches) == 0);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("an evaluation and the decision of a step take nothing from the heap") {
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Setup const setup{.units = memory::odd_units(), .stage = stage, .bf16 = true};
    rig::Alone alone(setup, 1, 2);
    alone.step(1);
    alone->evaluate({});
    Index const before = heap::requested_bytes();
    alone->evaluate({});
    alone->decision();
    alone->loss();
    CHECK(heap::requested_bytes() - before == 0);
  }
}

TEST_CASE("steps of threads take nothing from the heap") {
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Setup setup{.units = memory::odd_units(), .stage = stage, .bf16 = true};
    setup.options.accumulation = 2;
    setup.options.bucket = 700;
    constexpr int world = 3;
    std::barrier<> meet(world);
    Index asked = -1;
    zero::launch<zero::Threads>(world, [&](auto communicator) {
      zero::CollectiveLog log;
      auto const trainer = rig::make(setup, rig::Ranks(communicator), log);
      rig::Batch const batches[] = {{communicator.rank(), 0}, {communicator.rank(), 1}};
      for (int s = 0; s < 2; ++s) trainer->step(batches);
      meet.arrive_and_wait();
      Index const before = heap::requested_bytes();
      meet.arrive_and_wait();
      for (int s = 0; s < 3; ++s) trainer->step(batches);
      meet.arrive_and_wait();
      if (communicator.rank() == 0) asked = heap::requested_bytes() - before;
      meet.arrive_and_wait();
    });
    CAPTURE(setup);
    CHECK(asked == 0);
  }
}
