// SPDX-License-Identifier: Apache-2.0
// Cases of the area "memory".
#include <zero/shard/layout.hpp>

#include <cases/table_training.hpp>
#include <doctest/doctest.h>
#include <support/heap.hpp>

#include <array>
#include <barrier>
#include <filesystem>

namespace {

using namespace cases;

Index kept_bytes(std::vector<zero::Ledger::Kind> const& kinds, bool slots_and_tables) {
  Index bytes = 0;
  for (zero::Ledger::Kind const& kind : kinds) {
    bool const is_slot = kind.name.ends_with("slots") || kind.name == "tables";
    if (is_slot == slots_and_tables) bytes += kind.bytes;
  }
  return bytes;
}

TEST_CASE("M01: a million fp16 parameters under AdamW on four ranks keep 16, 7, 5.5, 4 MB") {
  Index const units = 10;
  std::vector<std::vector<Index>> const sizes(at(units), {60'000, 40'000});
  Index const padded = zero::Layout(make_units(sizes), 4).trainable();
  CHECK(padded - 1'000'000 < units * 2 * 256);

  // 2 bytes of parameter, 2 of gradient, 12 of master weight and moments; a fourth of each that the
  // stage shards.
  std::array const halves_of_a_byte_an_element{32, 14, 11, 8};
  Index before = 0;
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    Training const training{
        .stage = stage,
        .world = 4,
        .precision = Precision::fp16,
        .units = make_units(sizes),
        .options = {.loss_scale = zero::LossScale::fixed(128)},
        .steps = [](int rank) {
          return Steps(2, MicroBatches(1, GivenGradients::Batch(1'000'000, rank_share(rank, 4))));
        }};
    Outcome const outcome = train(training);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      Index const kept = kept_bytes(outcome.memory[rank], false);
      Index const besides = kept_bytes(outcome.memory[rank], true);
      Index const formula = padded * halves_of_a_byte_an_element[at(stage)] / 2;
      CHECK(kept >= formula);
      CHECK(kept < formula + units * 4 * 256);  // each of a unit's buffers starts at 256 bytes
      // Besides: tables of some hundred bytes a unit, and, where gradients are sharded, slots of at
      // most four units at once.
      CHECK(besides < units * 1'000 + (stage >= 2 ? 4 * 2 * padded / units : 0));
      for (AfterStep const& step : outcome.steps)
        CHECK(step.ranks[rank].live_bytes == kept + besides);
    }
    Index const live = outcome.last().ranks[0].live_bytes;
    MESSAGE("stage " << stage << ": " << live << " bytes a rank");
    if (stage > 0) CHECK(live < before);
    before = live;
  }
}

Index open_files() {
  Index count = 0;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

TEST_CASE("M04: nothing grows between step 10 and step 1000") {
  constexpr Index num_steps = ZERO_TESTS_SANITIZED ? 100 : 1000;
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    struct Use {
      Index files = 0;
      Index heap_blocks = 0;
    };
    std::array<Use, 2> uses;
    std::barrier barrier(2);
    Training training = table_training(stage, 2, {{4}, {4, 2}});
    training.options.clip = 1.0f;
    training.steps = [](int rank) {
      Steps const five = table_steps(rank, 2);
      Steps steps;
      while (std::ssize(steps) < num_steps) steps.push_back(five[steps.size() % five.size()]);
      return steps;
    };
    training.after_step = [&](int rank, Index step, zero::Ledger const&) {
      if (step != 9 && step != num_steps - 1) return;
      barrier.arrive_and_wait();  // the other rank holds still while this one looks
      if (rank == 0) uses[step == 9 ? 0 : 1] = {open_files(), heap::live_blocks()};
      barrier.arrive_and_wait();
    };
    Outcome const outcome = train(training);
    CHECK(uses[0].files > 0);
    CHECK(uses[1].files == uses[0].files);
    CHECK(heap::requested_bytes() > 0);  // blocks are counted at all
    CHECK(uses[1].heap_blocks == uses[0].heap_blocks);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      Index const early = outcome.steps[9].ranks[rank].live_bytes;
      CHECK(early > 0);
      CHECK(outcome.last().ranks[rank].live_bytes == early);
      CHECK(outcome.peak_bytes[rank] == early);
    }
  }
}

}  // namespace
