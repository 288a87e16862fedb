// SPDX-License-Identifier: Apache-2.0
// Files of many blocks a rank, as real models have them, by all the threads that write
// and read: a lane of ThreadSanitizer runs it as well.
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <thread>

namespace {

using namespace checkpoints;

// Blocks of 1 MiB, so that every place of memory is used again, and a disk still takes them
// directly. 12 bytes of weights and states an element: 9 MiB for each of two ranks, in units that
// do not end with blocks.
constexpr Index rows = 1536;
constexpr Index block_bytes = Index{1} << 20;
Setup const setup{
    .stage = 3,
    .world = 2,
    .units = {{"a", {zero_test::weight("a.w", {rows, 700})}},
              {"b", {zero_test::weight("b.w", {rows, 323}), zero_test::weight("b.b", {rows})}}}};

}  // namespace

TEST_CASE("files of several blocks: saved by two ranks, in the background too, loaded by three") {
  Folder const dir;
  Collected collected;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    zero::BackgroundSave background;
    trainer.step(0);
    collected.add(trainer);
    trainer.start(background, dir / "background", {.block_bytes = block_bytes});
    CHECK(trainer.save(dir / "run", {.block_bytes = block_bytes}).bytes > 8 * block_bytes);
    CHECK(background.wait()->bytes > 8 * block_bytes);
  });
  Canonical const& saved = collected.all();
  Setup other = setup;
  other.stage = 1;
  other.world = 3;
  for (std::string const from : {"run", "background"}) {
    Index const staging = from == "run" ? 0 : Index{1} << 28;
    Canonical const found = state_after(
        other, [&](AnyTrainer& trainer) { trainer.load(dir / from, {.staging_bytes = staging}); });
    CHECK(found == saved);
    CHECK(error_of([&] { zero::verify_checkpoint(zero::find_checkpoint(dir / from)); }).empty());
  }
}

TEST_CASE("calls on one descriptor come one after the other, whatever threads make them") {
  MemoryFiles files;
  // A call that takes its time, so that another thread's would be on its way beside it.
  files.plan = [](Index, std::string_view call) {
    if (call == "write" || call == "read")
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    return 0;
  };
  Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save("run", {.block_bytes = Index{1} << 18, .files = &files});
    trainer.load("run", {.files = &files});
  });
  CHECK(files.overlaps() == 0);
  CHECK(found == state_after(setup, [](AnyTrainer& trainer) { trainer.step(0); }));
}
