// SPDX-License-Identifier: Apache-2.0
// The rows of docs/cases.md about checkpoints, by their ids.
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <array>

namespace {

using namespace checkpoints;

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

zero::Units ten_elements() { return {{"u", {zero_test::weight("w", {10})}}}; }

/// Saves after `before` steps and goes on to `all` without it; another run loads and goes on.
/// @return what the two have at the end
std::array<Canonical, 2> stopped_and_not(Setup const& from, Setup const& to, int before, int all,
                                         MemoryFiles& files) {
  Canonical const whole = state_after(from, [&](AnyTrainer& trainer) {
    for (int s = 0; s < all; ++s) {
      if (s == before) trainer.save("run", {.files = &files});
      trainer.step(s);
    }
  });
  Canonical const resumed = state_after(to, [&](AnyTrainer& trainer) {
    trainer.load("run", {.files = &files});
    for (int s = before; s < all; ++s) trainer.step(s);
  });
  return {whole, resumed};
}

}  // namespace

TEST_CASE("P01: a tensor without elements comes back with its shape") {
  for (int stage : {1, 2, 3}) {
    MemoryFiles files;
    Setup const setup{.stage = stage,
                      .world = 2,
                      .units = {{"u",
                                 {zero_test::weight("a", {8}), zero_test::weight("e", {0}),
                                  zero_test::weight("b", {24})}}}};
    auto const [whole, resumed] = stopped_and_not(setup, setup, 3, 5, files);
    CHECK(whole == resumed);
    zero::Manifest const m = zero::find_checkpoint("run", files).manifest;
    CHECK(m.units[0].tensors[1].name == "e");
    CHECK(m.units[0].tensors[1].shape == std::vector<Index>{0});
  }
}

TEST_CASE("P03: ranks of padding alone save and load") {
  for (int stage : {1, 2}) {
    MemoryFiles files;
    Setup const setup{.stage = stage, .world = 4, .units = ten_elements()};
    auto const [whole, resumed] = stopped_and_not(setup, setup, 5, 7, files);
    CHECK(whole == resumed);
  }
}

TEST_CASE("N06: a master weight that its parameter rounds away comes back whole") {
  zero::Units units = ten_elements();
  units[0].tensors[0].initial = zero::Initial::constant(1 + 0x1p-12);
  Setup const setup{.stage = 2,
                    .world = 2,
                    .optimizer = zero::AdamW{.lr = 0},
                    .storage = Storage::mixed,
                    .units = units};
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) { trainer.save("run", {.files = &files}); });
  Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
    trainer.load("run", {.files = &files});
    trainer.step(0);
    CHECK(trainer.seen().at("w")[0] == 1);
  });
  for (std::uint32_t bits : found.at("master/w"))
    CHECK(std::bit_cast<float>(bits) == 1.000244140625f);
}

TEST_CASE("S07: the rate goes on where it stood, and is there right after the load") {
  // D1 of the table of schedules, whose call 7 is 9.3333e-4.
  zero::AdamW const adamw{
      .lr = 1e-3f,
      .schedule = zero::LearningRate::warmup_decay({.updates = 5, .ramp = zero::Ramp::linear}, 20)};
  Setup const setup{.stage = 1, .world = 2, .optimizer = adamw, .units = ten_elements()};
  MemoryFiles files;
  std::vector<float> whole;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 11; ++s) {
      if (s == 8) trainer.save("run", {.files = &files});
      trainer.step(s);
      float const rate = trainer.decision().learning_rate;
      if (trainer.rank() == 0) whole.push_back(rate);
    }
  });
  on_ranks(setup, [&](AnyTrainer& trainer) {
    CHECK(trainer.load("run", {.files = &files}).warnings.empty());
    CHECK(trainer.decision().learning_rate == whole[7]);
    CHECK(trainer.decision().learning_rate == doctest::Approx(9.3333e-4).epsilon(1e-4));
    for (int s = 8; s < 11; ++s) {
      trainer.step(s);
      CHECK(trainer.decision().learning_rate == whole[at(s)]);
    }
  });
  Setup other = setup;
  other.optimizer = zero::AdamW{.lr = 2e-3f};
  on_ranks(other, [&](AnyTrainer& trainer) {
    CHECK(trainer.load("run", {.files = &files}).warnings.size() == 1);
  });
}

TEST_CASE("A03: a window of accumulation is never inside a checkpoint") {
  // A window is what one call of step takes, so a checkpoint between two calls has none open: what
  // the last window left out, the run that loads gives to its next call.
  Setup const setup{
      .stage = 2, .world = 2, .units = ten_elements(), .options = {.accumulation = 4}};
  MemoryFiles files;
  auto const [whole, resumed] = stopped_and_not(setup, setup, 2, 3, files);
  CHECK(whole == resumed);
  CHECK(zero::find_checkpoint("run", files).manifest.step == 2);
}

TEST_CASE("H01: a rank that does not save is named, with what the others are doing") {
  MemoryFiles files;
  // Rank 1 goes on to the next step.
  std::string const error = error_of([&] {
    on_ranks({.stage = 1, .world = 2, .timeout = std::chrono::milliseconds(300)},
             [&](AnyTrainer& trainer) {
               if (trainer.rank() == 0) trainer.save("run", {.files = &files});
               trainer.step(0);
             });
  });
  CHECK(has(error, "save"));
  CHECK(has(error, "rank 1"));
}

TEST_CASE("H02: saved on four ranks, loaded on one, two, three and eight") {
  for (int stage : {1, 2, 3}) {
    for (int world : {1, 2, 3, 8}) {
      MemoryFiles files;
      Canonical const saved = state_after({.stage = stage, .world = 4}, [&](AnyTrainer& trainer) {
        for (int s = 0; s < 3; ++s) trainer.step(s);
        trainer.save("run", {.files = &files});
      });
      Canonical const found = state_after({.stage = stage, .world = world},
                                          [&](AnyTrainer& t) { t.load("run", {.files = &files}); });
      CHECK(found == saved);
    }
  }
}

TEST_CASE("H03: a rank's file that is missing is named on every rank, and nothing changes") {
  MemoryFiles files;
  Setup const setup{.stage = 3, .world = 4};
  on_ranks(setup, [&](AnyTrainer& trainer) { trainer.save("run", {.files = &files}); });
  files.remove("run/step-00000000/rank-1-of-4.safetensors");
  Collected before;
  Collected after;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    before.add(trainer);
    CHECK(has(error_of([&] { trainer.load("run", {.files = &files}); }),
              "'run/step-00000000/rank-1-of-4.safetensors'"));
    after.add(trainer);
  });
  CHECK(before.all() == after.all());
}

TEST_CASE("H06: what is asked for and not found is an error, never a fresh start") {
  MemoryFiles files;
  Setup const setup{.world = 2};
  auto const load = [&](std::string const& dir) {
    std::string error;
    on_ranks(setup, [&](AnyTrainer& trainer) {
      std::string const mine = error_of([&] { trainer.load(dir, {.files = &files}); });
      if (trainer.rank() == 0) error = mine;
    });
    return error;
  };
  CHECK(has(load("nowhere"), "looking for a checkpoint in 'nowhere' failed: No such file"));
  files.make_folder("run");
  CHECK(has(load("run"), "has neither manifest.json nor a file 'latest'"));
  on_ranks(setup, [&](AnyTrainer& trainer) { trainer.save("run", {.files = &files}); });
  std::vector<std::byte> const latest = files.data("run/latest");
  auto const names = [&](std::string const& text) {
    files.data("run/latest")
        .assign(reinterpret_cast<std::byte const*>(text.data()),
                reinterpret_cast<std::byte const*>(text.data()) + text.size());
    return load("run");
  };
  CHECK(names("step-00000000").empty());
  CHECK(names("step-00000000\n").empty());
  CHECK(names("step-00000000 \r\n").empty());
  CHECK(has(names(""), "'run/latest' names no checkpoint"));
  CHECK(has(names(" \n"), "'run/latest' names no checkpoint"));
  CHECK(has(names("step-00000007\n"), "names 'step-00000007', which has no manifest.json"));
  for (std::string const out : {"../run/step-00000000", "/etc", "..", "a/b"})
    CHECK(has(names(out), "which is no folder beside it"));
  files.remove("run/latest");
  CHECK(has(load("run"), "checkpoints in it: step-00000000"));
}

TEST_CASE("H09: every precision at every stage goes on as if it had not stopped") {
  for (Storage storage : {Storage::floats, Storage::mixed, Storage::half}) {
    for (int stage = 0; stage < 4; ++stage) {
      MemoryFiles files;
      Setup const setup{.stage = stage, .world = 2, .storage = storage};
      auto const [whole, resumed] = stopped_and_not(setup, setup, 3, 5, files);
      CHECK(whole == resumed);
    }
  }
}

TEST_CASE("H12: frozen tensors come back, and have no optimizer state") {
  Setup const setup{
      .stage = 3,
      .world = 2,
      .units = {
          {"u", {zero_test::weight("a", {4}), zero_test::frozen(zero_test::weight("f", {6}))}}}};
  MemoryFiles files;
  Canonical const saved = state_after(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save("run", {.files = &files});
  });
  Setup other = setup;
  for (zero::Tensor& t : other.units[0].tensors) t.initial = zero::Initial::constant(7);
  Canonical const found =
      state_after(other, [&](AnyTrainer& t) { t.load("run", {.files = &files}); });
  CHECK(found == saved);
  CHECK(found.at("parameter/f").size() == 6);
  for (zero::WholeTensor const& t :
       zero::whole_tensors(zero::find_checkpoint("run", files).manifest))
    CHECK((t.name != "f" || t.kind == "parameter"));
}

TEST_CASE("U01: what was saved is what trains on, at another world too") {
  for (int world : {2, 4}) {
    MemoryFiles files;
    // Equal gradients on every rank of a world of a power of two: the same bits as at world 2.
    Setup const from{.stage = 3, .world = 2};
    Setup to = from;
    to.world = world;
    auto const [whole, resumed] = stopped_and_not(from, to, 3, 5, files);
    CHECK(whole == resumed);
  }
}

TEST_CASE("U03: the number of the update goes on, and bias corrections with it") {
  MemoryFiles files;
  Setup const setup{.stage = 1, .world = 2, .units = ten_elements()};
  on_ranks(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 3; ++s) trainer.step(s);
    trainer.save("run", {.files = &files});
  });
  Setup other = setup;
  other.world = 4;
  on_ranks(other, [&](AnyTrainer& trainer) {
    trainer.load("run", {.files = &files});
    CHECK(trainer.decision().updates == 3);
    trainer.step(3);
    CHECK(trainer.decision().updates == 4);
    CHECK(trainer.steps() == 4);
  });
}

TEST_CASE("T01: a tied tensor stands in a file once, under its own name") {
  MemoryFiles files;
  Setup const setup{.stage = 3, .world = 2, .units = zero_test::tied().units};
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.save("run", {.files = &files});
    trainer.load("run", {.files = &files});
  });
  int times = 0;
  for (zero::WholeTensor const& t :
       zero::whole_tensors(zero::find_checkpoint("run", files).manifest))
    times += t.name == "wte" && t.kind == "master" ? 1 : 0;
  CHECK(times == 1);
}
