// SPDX-License-Identifier: Apache-2.0
// What saving, loading and exporting takes: of the device less than the model has, of the host some
// blocks and a tile.
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <string>

namespace {

using namespace checkpoints;

/// 64 tensors of 2^16 elements each.
zero::Units many_units() {
  zero::Units units;
  for (int u = 0; u < 64; ++u) {
    std::string const name = "u" + std::to_string(u);
    units.push_back({name, {zero_test::weight(name + ".w", {256, 256})}});
  }
  return units;
}
constexpr Index elements = 64 * 65536;

/// Kilobytes in /proc/self/status, of this process; of Linux.
Index status(std::string const& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return -1;
}
/// By how much resident memory rises at most while f works.
template <class F>
Index rise_of(F f) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the highest so far is what it is now
  Index const before = status("VmRSS");
  f();
  return status("VmHWM") - before;
}

}  // namespace

TEST_CASE("stage 3 saves, loads, exports and imports with the device's memory below the model") {
  // Of 2^22 floats on 8 ranks a rank has slices of parameters, gradients and two states, 8 MiB, and
  // room for some units of 256 KiB. What is gathered for a model is a tile, here a whole tensor.
  Setup const setup{.stage = 3, .world = 8, .units = many_units()};
  Folder const dir;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    Index const limit = trainer.limit_memory(65536 * Index{sizeof(float)});
    CHECK(limit < elements * Index{sizeof(float)});
    trainer.save(dir / "run", {});
    trainer.load(dir / "run", {});
    trainer.load(dir / "run", {.staging_bytes = Index{1} << 30});
    trainer.save_model(dir / "model", {.stage3_gather_16bit_weights_on_model_save = true});
    trainer.load_model(dir / "model", {});
    std::vector<float> const before = trainer.gather("u7.w", "weight");
    CHECK(std::ssize(before) == 65536);
  });
  // Without room for a tensor it is refused: the limit is one.
  CHECK(!error_of([&] {
           on_ranks(setup, [&](AnyTrainer& trainer) {
             trainer.limit_memory(0);
             trainer.gather("u7.w", "weight");
           });
         }).empty());
}

TEST_CASE("a background save that was prepared takes no memory when it starts, nor later") {
  if (status("VmHWM") < 0 || !std::ofstream("/proc/self/clear_refs").is_open()) {
    MESSAGE("skipped: this system has no /proc/self/clear_refs");
    return;
  }
  // A copy of 48 MiB; what else a start takes is the text of a manifest and threads, and the end
  // reads back a block of 4 MiB.
  constexpr Index copy = elements * 12;
  constexpr Index little = Index{6} << 20;
  Setup const setup{.stage = 3, .world = 1, .units = many_units()};
  Folder const dir;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    zero::BackgroundSave fresh;
    CHECK(rise_of([&] { trainer.start(fresh, dir / "fresh", {}); }) > copy - little);
    fresh.wait();
    zero::BackgroundSave prepared;
    CHECK(rise_of([&] { trainer.prepare(prepared); }) > copy - little);
    for (int s = 0; s < 3; ++s) {
      Index const rise = rise_of([&] {
        trainer.start(prepared, dir / "run", {});
        prepared.wait();
      });
      MESSAGE("start and wait: ", rise, " bytes");
      CHECK(rise < little);
    }
  });
}

TEST_CASE("a load that keeps what it displaces in the memory of background saves takes no other") {
  if (status("VmHWM") < 0 || !std::ofstream("/proc/self/clear_refs").is_open()) {
    MESSAGE("skipped: this system has no /proc/self/clear_refs");
    return;
  }
  // 48 MiB are displaced; the bound is that of a load without staging, below, and of a tile more.
  constexpr Index displaced = elements * 12;
  constexpr Index bound = Index{24} << 20;
  static_assert(2 * bound <= displaced);
  Setup const setup{.stage = 3, .world = 1, .units = many_units()};
  Folder const dir;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    zero::BackgroundSave saving;
    trainer.prepare(saving);
    trainer.start(saving, dir / "run", {.block_bytes = 65536});
    saving.wait();
    Index read = 0;
    Index const rise = rise_of(
        [&] { read = trainer.load(dir / "run", {.staging_memory = &saving.memory()}).bytes_read; });
    MESSAGE("a load: ", rise, " bytes");
    CHECK(rise < bound);
    // It read every block once, and some twice for the header and where files' parts meet.
    CHECK(read < displaced + (Index{2} << 20));
  });
}

TEST_CASE("nor where a piece is long and is not kept as float: split weights, frozen parameters") {
  if (status("VmHWM") < 0 || !std::ofstream("/proc/self/clear_refs").is_open()) {
    MESSAGE("skipped: this system has no /proc/self/clear_refs");
    return;
  }
  // A piece of 2^22 elements has 16 MiB as floats. What goes through other memory is a tile of
  // 2^18: as floats 1 MiB, as it is kept and as it is stored half of that each; and what is said
  // above.
  constexpr Index bound = Index{8} << 20;
  for (Storage const storage : {Storage::floats, Storage::split}) {
    Setup const setup{
        .stage = 3,
        .world = 1,
        .storage = storage,
        .units = {{"t", {zero_test::weight("t.w", {2048, 2048})}},
                  {"f", {zero_test::frozen(zero_test::weight("f.w", {2048, 2048}))}}}};
    Folder const dir;
    on_ranks(setup, [&](AnyTrainer& trainer) {
      zero::BackgroundSave save;
      trainer.prepare(save);
      Index const rise = rise_of([&] {
        trainer.start(save, dir / "run", {});
        save.wait();
      });
      MESSAGE("start and wait: ", rise, " bytes");
      CHECK(rise < bound);
    });
  }
}

TEST_CASE(
    "on the host a save, a load and a model take some blocks and a tile, whatever the model") {
  if (status("VmHWM") < 0 || !std::ofstream("/proc/self/clear_refs").is_open()) {
    MESSAGE("skipped: this system has no /proc/self/clear_refs");
    return;
  }
  // 48 MiB of weights and states. Four blocks of 4 MiB, as a model's file is read, and a tile of
  // 2^18 floats with a copy in another type are 18 MiB; threads' stacks and the allocator take some
  // more.
  constexpr Index state = elements * 12;
  constexpr Index bound = Index{22} << 20;
  static_assert(2 * bound < state);
  Setup const setup{.stage = 3, .world = 1, .units = many_units()};
  Folder const dir;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    // Before the first step the optimizer's numbers are 0, and keeping them takes nothing.
    trainer.save(dir / "new", {.block_bytes = 65536});
    Index const into_new =
        rise_of([&] { trainer.load(dir / "new", {.staging_bytes = Index{1} << 30}); });
    trainer.step(0);
    Index const save = rise_of([&] { trainer.save(dir / "run", {.block_bytes = 65536}); });
    Index const load = rise_of([&] { trainer.load(dir / "run", {}); });
    Index const staged =
        rise_of([&] { trainer.load(dir / "run", {.staging_bytes = Index{1} << 30}); });
    Index const model = rise_of([&] {
      trainer.save_model(dir / "model", {.stage3_gather_16bit_weights_on_model_save = true});
    });
    Index const import = rise_of([&] { trainer.load_model(dir / "model", {}); });
    MESSAGE("save ", save, ", load ", load, ", staged ", staged, ", staged into a new one ",
            into_new, ", model ", model, ", import ", import, " bytes");
    for (Index rise : {save, load, model, import}) CHECK(rise < bound);
    CHECK(staged > state - bound);  // it is seen where there is something to see
    CHECK(staged < state + bound);
    CHECK(into_new < state / 3 + bound);
  });
}
