// SPDX-License-Identifier: Apache-2.0
// Files of several blocks of 4 MiB a rank, as real models have them, by all the threads that write
// and read: a lane of ThreadSanitizer runs it as well.
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

namespace {

using namespace checkpoints;

// 12 bytes of weights and states an element: 9 MiB for each of two ranks, in units that do not end
// with blocks.
constexpr Index rows = 1536;
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
    trainer.start(background, dir / "background", {});
    CHECK(trainer.save(dir / "run", {}).bytes > 2 * zero::checkpoint_block_bytes);
    CHECK(background.wait()->bytes > 2 * zero::checkpoint_block_bytes);
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
