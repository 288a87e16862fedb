// SPDX-License-Identifier: Apache-2.0
#include <archetypes/rig.hpp>
#include <doctest/doctest.h>
#include <malloc.h>
#include <memory/models.hpp>
#include <support/heap.hpp>

#include <algorithm>
#include <limits>
#include <string>

namespace {

using zero::Index;

rig::Setup setup_of(int stage, bool bf16) {
  rig::Setup setup{.units = memory::odd_units(), .stage = stage, .bf16 = bf16};
  setup.options.accumulation = 2;
  setup.options.clip = 1;
  return setup;
}

/// Bytes that malloc has given out, device buffers included; 0 where a sanitizer has replaced it.
/// What malloc keeps at hand for the next call counts, so the number moves a little by itself.
Index bytes_in_use() {
  auto const info = mallinfo2();
  return static_cast<Index>(info.uordblks + info.hblkhd);
}

/// Makes a trainer, trains, evaluates in and off the order, and destroys it.
void live_and_die(rig::Setup const& setup, zero::Host& device) {
  zero::CollectiveLog log;
  auto const trainer = rig::make(setup, rig::Ranks(1, 3, device), log);
  rig::Batch const batches[] = {{1, 0}, {1, 1}};
  trainer->step(batches);
  trainer->evaluate(batches[0]);
  int const order[] = {1, 0, 1};
  trainer->visit(order);
}

}  // namespace

TEST_CASE("a hundred trainers, one after the other, leave nothing [slow]") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool bf16 : {false, true}) {
      rig::Setup const setup = setup_of(stage, bf16);
      CAPTURE(setup);
      zero::Host device;
      for (int i = 0; i < 3; ++i) live_and_die(setup, device);  // what is made once is made
      Index const peak = device.ledger().peak_bytes();
      Index const blocks = heap::live_blocks();
      // What is lost is lost by every hundred; what malloc keeps at hand, by one of them at most.
      Index grown = std::numeric_limits<Index>::max();
      for (int hundred = 0; hundred < 3; ++hundred) {
        Index const bytes = bytes_in_use();
        for (int i = 0; i < 100; ++i) live_and_die(setup, device);
        grown = std::min(grown, bytes_in_use() - bytes);
      }
      CHECK(heap::live_blocks() == blocks);
      CHECK(grown < 100 * 64);
      CHECK(device.ledger().bytes() == 0);
      for (zero::Ledger::Kind const& kind : device.ledger().kinds()) CHECK(kind.bytes == 0);
      CHECK(device.ledger().peak_bytes() == peak);
    }
  }
}

TEST_CASE("trainers that could not be made leave nothing") {
  rig::Setup const setup = setup_of(3, true);
  zero::Host device;
  Index total = 0;
  {
    zero::CollectiveLog log;
    total = rig::make(setup, rig::Ranks(1, 3, device), log)->plan().total_bytes();
  }
  for (Index limit = 1; limit < total; limit += total / 7) {
    device.ledger().limit_bytes(limit);
    CHECK_THROWS_AS(live_and_die(setup, device), zero::OutOfMemory);
    CHECK(device.ledger().bytes() == 0);
  }
}

TEST_CASE("several trainers live on one device: the ledger is the sum of their plans") {
  zero::Host device;
  zero::CollectiveLog log;
  std::vector<std::unique_ptr<rig::Trainer>> trainers;
  Index sum = 0;
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool bf16 : {false, true}) {
      trainers.push_back(rig::make(setup_of(stage, bf16), rig::Ranks(0, 2, device), log));
      sum += trainers.back()->plan().total_bytes();
      CHECK(device.ledger().bytes() == sum);
    }
  }
  rig::Batch const batch;
  for (int s = 0; s < 2; ++s) {
    for (auto const& trainer : trainers) trainer->step(batch);
  }
  CHECK(device.ledger().peak_bytes() == sum);
  while (!trainers.empty()) {
    sum -= trainers.back()->plan().total_bytes();
    trainers.pop_back();
    CHECK(device.ledger().bytes() == sum);
  }
}

TEST_CASE("trainers of one device leave each other's bits alone") {
  std::uint64_t expected[4];
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Alone alone(setup_of(stage, true), 1, 2);
    for (int s = 0; s < 3; ++s) alone.step(2);
    expected[stage] = alone->parameters_hash();
  }
  zero::Host device;
  zero::CollectiveLog log;
  std::vector<std::unique_ptr<rig::Trainer>> trainers;
  for (int stage = 0; stage <= 3; ++stage)
    trainers.push_back(rig::make(setup_of(stage, true), rig::Ranks(1, 2, device), log));
  rig::Batch const batches[] = {{1, 0}, {1, 1}};
  for (int s = 0; s < 3; ++s) {
    for (auto const& trainer : trainers) {
      trainer->step(batches);
      trainer->evaluate(batches[0]);
    }
  }
  for (std::size_t stage = 0; stage < 4; ++stage)
    CHECK(trainers[stage]->parameters_hash() == expected[stage]);
}
