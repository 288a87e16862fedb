// SPDX-License-Identifier: Apache-2.0
// Memory that saves and loads share: a load keeps there what it displaces, with the same bits as in
// memory of its own; it is taken once, and nobody uses it while a save in the background does.
#include <zero/checkpoint.hpp>

#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <string>

namespace {

using namespace checkpoints;

constexpr char const* folder = "run/step-00000003";

Setup setup_of(int stage, Storage storage) {
  return {.stage = stage, .world = 2, .storage = storage, .units = zero_test::frozen_parts().units};
}

/// Saves after three steps, in blocks that cut elements in two.
Canonical save_trained(Setup const& setup, MemoryFiles& files) {
  return state_after(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 3; ++s) trainer.step(s);
    trainer.save("run", {.block_bytes = 62, .files = &files});
  });
}

Canonical own_bits(AnyTrainer& trainer) {
  Canonical mine;
  trainer.add_slices(mine);
  return mine;
}

/// Of this process; of Linux.
Index resident_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  }
  return -1;
}

}  // namespace

TEST_CASE("in kept memory a load takes every bit, and after a flipped one gives every bit back") {
  for (Storage const storage :
       {Storage::floats, Storage::mixed, Storage::half, Storage::split, Storage::short_states}) {
    for (int stage = 0; stage < 4; ++stage) {
      CAPTURE(static_cast<int>(storage));
      CAPTURE(stage);
      Setup const setup = setup_of(stage, storage);
      MemoryFiles files;
      Canonical const saved = save_trained(setup, files);
      MemoryFiles damaged;
      CHECK(save_trained(setup, damaged) == saved);
      damaged.data(std::string(folder) + "/rank-1-of-2.safetensors").back() ^= std::byte{1};
      Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
        zero::StagingMemory memory;
        memory.prepare(Index{1} << 16);
        for (int time = 0; time < 2; ++time) {
          trainer.step(time);
          Canonical const before = own_bits(trainer);
          auto const seen = trainer.seen();
          std::string const error = error_of(
              [&] { trainer.load("run", {.staging_memory = &memory, .files = &damaged}); });
          CHECK(error.find("is damaged") != std::string::npos);
          CHECK(own_bits(trainer) == before);
          CHECK(trainer.seen() == seen);
          trainer.load("run", {.staging_memory = &memory, .files = &files});
        }
      });
      CHECK(found == saved);
    }
  }
}

TEST_CASE("what kept memory has counts as allowed, and it grows up to staging_bytes") {
  // 23 weights of float with two states of 16 bits each.
  Setup const setup{.stage = 1,
                    .storage = Storage::short_states,
                    .units = {{"u", {zero_test::weight("w", {23})}}}};
  constexpr Index displaced = 23 * (4 + 2 + 2);
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save("run", {.block_bytes = 64, .files = &files});
    auto const read = [&](Index bytes, zero::StagingMemory* memory) {
      return trainer
          .load("run", {.staging_bytes = bytes, .staging_memory = memory, .files = &files})
          .bytes_read;
    };
    Index const once = read(displaced, nullptr);
    Index const twice = read(0, nullptr);
    CHECK(once < twice);
    zero::StagingMemory memory;
    CHECK(read(displaced - 1, &memory) == twice);
    CHECK(memory.bytes() == 0);
    CHECK(read(displaced, &memory) == once);
    CHECK(memory.bytes() == displaced);
    CHECK(read(0, &memory) == once);  // it is there
    memory.prepare(displaced - 1);
    CHECK(memory.bytes() == displaced);  // never less
    zero::StagingMemory small;
    small.prepare(displaced - 1);
    CHECK(small.bytes() == displaced - 1);
    CHECK(read(0, &small) == twice);
    CHECK(read(displaced, &small) == once);
    CHECK(small.bytes() == displaced);
  });
}

TEST_CASE("the memory of a background save is a load's as well, when the save is completed") {
  Setup setup = setup_of(2, Storage::floats);
  setup.world = 3;
  MemoryFiles files;
  Canonical const saved = save_trained(setup, files);
  std::array<Canonical, 2> kept;
  for (int const shares : {0, 1}) {
    MemoryFiles beside;
    kept[at(shares)] = state_after(setup, [&](AnyTrainer& trainer) {
      zero::BackgroundSave background;
      trainer.prepare(background);
      CHECK(background.memory().bytes() > 0);
      zero::LoadOptions const options{
          .staging_memory = shares == 1 ? &background.memory() : nullptr, .files = &files};
      trainer.step(5);
      Canonical const first = own_bits(trainer);
      trainer.start(background, "beside", {.files = &beside});
      if (shares == 1) {
        Canonical const before = own_bits(trainer);
        std::string const error = error_of([&] { trainer.load("run", options); });
        CHECK(error.find("checkpoint: staging memory is in use by a background save that is not "
                         "completed; wait() for it first") != std::string::npos);
        CHECK(own_bits(trainer) == before);
        CHECK(trainer.steps() == 1);
        background.wait();
      }
      trainer.load("run", options);
      background.wait();
      trainer.step(6);
      trainer.start(background, "beside", {.files = &beside});
      background.wait();
      trainer.step(7);
      trainer.load("beside/step-00000001", {.files = &beside});
      CHECK(own_bits(trainer) == first);
      trainer.step(8);
      trainer.load("beside", {.files = &beside});
    });
  }
  // The same run with memory of their own: no save wrote what a load has kept, nor the reverse.
  CHECK(kept[0] == kept[1]);
  CHECK(kept[0] == state_after(setup, [&](AnyTrainer& trainer) {
          trainer.load("run", {.files = &files});
          trainer.step(6);
        }));
}

TEST_CASE("memory that is prepared is there, page by page") {
  if (resident_bytes() < 0) {
    MESSAGE("skipped: this system has no /proc/self/status");
    return;
  }
  constexpr Index bytes = Index{64} << 20;
  zero::StagingMemory memory;
  Index const before = resident_bytes();
  memory.prepare(bytes);
  // Counters of resident memory may lag by some hundred kilobytes a thread.
  CHECK(resident_bytes() - before > bytes - (Index{1} << 20));
  CHECK(error_of([&] {
          memory.prepare(Index{1} << 60);
        }).find("the host has no memory for 1152921504606846976 bytes") != std::string::npos);
  CHECK(memory.bytes() == 0);
}
