// SPDX-License-Identifier: Apache-2.0
// What is saved at any stage, world, optimizer and precision loads at any other, bit for bit: the
// canonical list of tensors, read by report/slices.hpp, is the same before and after.
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

namespace {

using namespace checkpoints;

constexpr int worlds[] = {1, 2, 3, 4, 8};

/// Trains three steps and saves. @return what the ranks had then
Canonical save_trained(Setup const& setup, MemoryFiles& files) {
  return state_after(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 3; ++s) trainer.step(s);
    trainer.save("run", {.files = &files});
  });
}

/// Whether the weights, states and frozen parameters are `expected`, and every rank sees parameters
/// that are the weights, rounded.
void check_loaded(Setup const& setup, MemoryFiles& files, Canonical const& expected) {
  CAPTURE(setup.stage);
  CAPTURE(setup.world);
  CAPTURE(setup.optimizer.index());
  CAPTURE(static_cast<int>(setup.storage));
  std::vector<std::map<std::string, std::vector<float>>> seen(at(setup.world));
  Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
    zero::LoadedCheckpoint const loaded = trainer.load("run", {.files = &files});
    CHECK(loaded.differences.empty());
    CHECK(loaded.warnings.empty());
    seen[at(trainer.rank())] = trainer.seen();
    CHECK(trainer.steps() == 3);
    CHECK(trainer.decision().updates == 3);
  });
  CHECK(found == expected);
  for (auto const& parameters : seen) CHECK(parameters == seen[0]);
  for (auto const& [key, whole] : expected) {
    if (!key.starts_with("master/")) continue;
    std::vector<float> const& parameters = seen[0].at(key.substr(7));
    REQUIRE(parameters.size() == whole.size());
    bool same = true;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      float const weight = std::bit_cast<float>(whole[i]);
      float const rounded = setup.storage == Storage::mixed  ? float(zero::bf16(weight))
                            : setup.storage == Storage::half ? float(zero::fp16(weight))
                            : setup.storage == Storage::split
                                ? float(zero::UpperHalf(weight).rounded())
                                : weight;
      same = same && parameters[i] == rounded;
    }
    CHECK(same);
  }
}

}  // namespace

TEST_CASE("every stage, world, optimizer and precision comes back from its own checkpoint") {
  [[maybe_unused]] int turn = 0;
  for (Storage storage :
       {Storage::floats, Storage::mixed, Storage::half, Storage::split, Storage::short_states}) {
    for (AnyOptimizer const& optimizer : menu()) {
      for (int stage = 0; stage < 4; ++stage) {
        for (int world : worlds) {
          if (ZERO_TESTS_SANITIZED && ++turn % 7 != 0) continue;
          Setup const setup{
              .stage = stage, .world = world, .optimizer = optimizer, .storage = storage};
          MemoryFiles files;
          Canonical const saved = save_trained(setup, files);
          check_loaded(setup, files, saved);
        }
      }
    }
  }
}

TEST_CASE("all stages and worlds save one canonical list of tensors") {
  // At world 1 stages agree to the bit; gradients are the same on every rank, and their mean over 2
  // to 8 ranks is exact where the world is a power of 2.
  Canonical expected;
  for (int world : {1, 2, 4, 8}) {
    for (int stage = 0; stage < 4; ++stage) {
      MemoryFiles files;
      Canonical const found = save_trained({.stage = stage, .world = world}, files);
      Canonical loaded = state_after({.stage = 1, .world = 3}, [&](AnyTrainer& trainer) {
        trainer.load("run", {.files = &files});
      });
      if (expected.empty()) expected = found;
      CHECK(found.size() == expected.size());
      CHECK(loaded == found);
    }
  }
}

TEST_CASE("thirty pairs of stage, world and precision: equal bits of weights and states") {
  std::uint64_t draw = 1;
  auto const next = [&](int n) {
    draw = zero::mix(draw, 7);
    return static_cast<int>(draw % static_cast<std::uint64_t>(n));
  };
  constexpr Storage storages[] = {Storage::floats, Storage::mixed, Storage::half, Storage::split};
  std::vector<zero_test::ModelSpec> const models = zero_test::all_specs();
  for (int pair = 0; pair < 30; ++pair) {
    CAPTURE(pair);
    Setup from{.stage = next(4),
               .world = worlds[next(5)],
               .optimizer = menu()[at(next(6))],
               .storage = storages[next(4)],
               .units = models[at(next(9))].units};
    Setup to = from;
    to.stage = next(4);
    to.world = worlds[next(5)];
    to.storage = storages[next(4)];
    MemoryFiles files;
    Canonical expected = save_trained(from, files);
    Canonical found = state_after(to, [&](AnyTrainer& t) { t.load("run", {.files = &files}); });
    // Frozen parameters are kept as the precision has them, and nowhere longer.
    std::erase_if(expected, [](auto const& e) { return e.first.starts_with("parameter/"); });
    std::erase_if(found, [](auto const& e) { return e.first.starts_with("parameter/"); });
    CHECK(found == expected);
  }
}

TEST_CASE("a run that was stopped and loaded has the bits of the run that never stopped") {
  for (Storage storage :
       {Storage::floats, Storage::mixed, Storage::half, Storage::split, Storage::short_states}) {
    for (AnyOptimizer const& optimizer : menu()) {
      for (int stage = 0; stage < 4; ++stage) {
        Setup const setup{.stage = stage, .world = 3, .optimizer = optimizer, .storage = storage};
        MemoryFiles files;
        Canonical const expected = state_after(setup, [&](AnyTrainer& trainer) {
          for (int s = 0; s < 5; ++s) {
            if (s == 3) trainer.save("run", {.files = &files});
            trainer.step(s);
          }
        });
        Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
          trainer.load("run", {.files = &files});
          for (int s = 3; s < 5; ++s) trainer.step(s);
        });
        CAPTURE(stage);
        CHECK(found == expected);
      }
    }
  }
}
