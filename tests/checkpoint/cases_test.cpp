// SPDX-License-Identifier: Apache-2.0
// The rows of docs/cases.md about checkpoints, by their ids.
#include <zero/launch/threads.hpp>
#include <zero/step/trainer.hpp>

#include <cases/given_gradients.hpp>
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>
#include <support/adam_table.hpp>
#include <support/schedule_table.hpp>

#include <array>
#include <cmath>
#include <type_traits>

namespace {

using namespace checkpoints;

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// An embedding of 4x2 that is the head as well; every gradient is 1 a visit.
struct TiedHead {
  using Batch = int;
  static constexpr std::array<int, 3> chain{0, 1, 0};
  zero::Units units() const {
    return {{"emb", {zero_test::weight("emb.weight", {4, 2})}},
            {"body", {zero_test::weight("body.weight", {3})}}};
  }
  zero::Schedule schedule() const { return zero_test::there_and_back({0, 1, 0}); }
  template <class Pass>
  void operator()(Pass& pass, Batch) const {
    for (int u : chain) pass.forward(u).end();
    if constexpr (Pass::trains) {
      for (int u : chain) {  // the same from either end
        auto [parameters, gradients] = pass.backward(u);
        auto const to = gradients[0];
        pass.stream().enqueue([to] {
          auto* const g = Pass::Device::resolve(to.address());
          for (Index i = 0; i < to.size(); ++i) g[i] += 1;
        });
      }
    }
  }
};

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

/// Of the ten elements of "table adam".
template <int Stage>
using TableTrainer = zero::Trainer<cases::GivenGradients, zero::ThreadCommunicator<zero::Host>,
                                   zero::AdamW, zero::Policies<zero::Sharded<Stage>, zero::Fp32>>;

zero::AdamW table_adamw() {
  return {.lr = static_cast<float>(adam_table::rates.lr),
          .beta1 = static_cast<float>(adam_table::rates.beta1),
          .beta2 = static_cast<float>(adam_table::rates.beta2),
          .eps = static_cast<float>(adam_table::rates.eps),
          .weight_decay = static_cast<float>(adam_table::rates.weight_decay)};
}
std::vector<float> table_gradients(int step) {
  auto const& row = adam_table::gradients[at(step)];
  return {row.begin(), row.end()};
}
/// Weights and moments of tensors that hold the table's elements in their order.
template <class Trainer>
void check_against(Trainer& trainer, std::vector<std::string> const& names,
                   adam_table::Reference const& expected) {
  std::array<std::vector<float>, 3> found;
  for (std::string const& name : names) {
    std::array const kinds{"weight", "exp_avg", "exp_avg_sq"};
    for (std::size_t k = 0; k < 3; ++k) {
      std::vector<float> const values = zero::gather(trainer, name, kinds[k]);
      found[k].insert(found[k].end(), values.begin(), values.end());
    }
  }
  REQUIRE(found[0].size() == expected.elements().size());
  // The table's own bound: five updates in float of numbers of some units.
  for (std::size_t i = 0; i < found[0].size(); ++i) {
    adam_table::Element const& e = expected.elements()[i];
    CHECK(std::abs(static_cast<double>(found[0][i]) - e.weight) <= 2e-6);
    CHECK(std::abs(static_cast<double>(found[1][i]) - e.m) <= 2e-6);
    CHECK(std::abs(static_cast<double>(found[2][i]) - e.v) <= 2e-6);
  }
}

}  // namespace

TEST_CASE("P01: a tensor without elements comes back with its shape, and changes nothing") {
  auto const tensor = [](std::string const& name, Index elements) {
    zero::Tensor t = zero_test::weight(name, {elements});
    t.initial = zero::Initial::function([](Index i) { return 0.25f * static_cast<float>(i) - 3; });
    return t;
  };
  // The row's result: one rank without the empty tensor, after the three steps and two more.
  Setup const alone{.units = {{"u", {tensor("a", 8), tensor("b", 24)}}}};
  auto const after = [](Setup const& setup, int steps) {
    return state_after(setup, [&](AnyTrainer& trainer) {
      for (int s = 0; s < steps; ++s) trainer.step(s);
    });
  };
  Canonical const third = after(alone, 3);
  Canonical const fifth = after(alone, 5);
  for (int stage : {1, 2, 3}) {
    CAPTURE(stage);
    MemoryFiles files;
    Setup const setup{.stage = stage,
                      .world = 2,
                      .units = {{"u", {tensor("a", 8), tensor("e", 0), tensor("b", 24)}}}};
    on_ranks(setup, [&](AnyTrainer& trainer) {
      for (int s = 0; s < 3; ++s) trainer.step(s);
      trainer.save("run", {.files = &files});
    });
    for (int steps : {3, 5}) {
      Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
        trainer.load("run", {.files = &files});
        for (int s = 3; s < steps; ++s) trainer.step(s);
      });
      // Every rank's gradients are the same: their mean, and so every bit, is that of one rank.
      for (auto const& [name, bits] : steps == 3 ? third : fifth) CHECK(found.at(name) == bits);
      for (auto const& [name, bits] : found) CHECK(name.ends_with("/e") == bits.empty());
    }
    zero::Manifest const m = zero::find_checkpoint("run", files).manifest;
    CHECK(m.units[0].tensors[1].name == "e");
    CHECK(m.units[0].tensors[1].shape == std::vector<Index>{0});
  }
}

TEST_CASE("P03: a rank of padding alone saves and loads, and the trajectory is the table's") {
  // Each tensor begins at a multiple of 64 elements, so that three of them put the row's 4, 4, 2
  // and 0 elements on four ranks.
  zero::Units const units{
      {"u",
       {zero_test::weight("a", {4}), zero_test::weight("b", {4}), zero_test::weight("c", {2})}}};
  auto const at_stage = [&]<int Stage>(std::integral_constant<int, Stage>) {
    MemoryFiles files;
    auto const on_four = [&](auto f) {
      zero::launch<zero::Threads>(4, [&](zero::ThreadCommunicator<zero::Host> ranks) {
        TableTrainer<Stage> trainer(cases::GivenGradients{units}, ranks, table_adamw(),
                                    zero::Options{});
        f(trainer);
      });
    };
    on_four([&](auto& trainer) {
      auto const first = adam_table::initial.begin();
      zero::assign(trainer, "a", std::vector<float>(first, first + 4));
      zero::assign(trainer, "b", std::vector<float>(first + 4, first + 8));
      zero::assign(trainer, "c", std::vector<float>(first + 8, first + 10));
      for (int s = 0; s < 3; ++s) trainer.step(table_gradients(s));
      zero::save(trainer, "run", {.files = &files});
    });
    zero::FoundCheckpoint const found = zero::find_checkpoint("run", files);
    std::vector<Index> elements;
    zero::SliceReader const reader(files, found);
    for (auto const& slices : reader.slices()) {
      elements.push_back(0);
      for (zero::StoredSlice const& slice : slices)
        elements.back() += slice.kind == "master" ? slice.elements : 0;
    }
    CHECK(elements == std::vector<Index>{4, 4, 2, 0});
    on_four([&](auto& trainer) {
      zero::load(trainer, "run", {.files = &files});
      adam_table::Reference expected;
      for (int s = 0; s < 3; ++s) expected.step(s);
      check_against(trainer, {"a", "b", "c"}, expected);
      for (int s = 3; s < 5; ++s) {
        trainer.step(table_gradients(s));
        expected.step(s);
        check_against(trainer, {"a", "b", "c"}, expected);
      }
    });
  };
  at_stage(std::integral_constant<int, 1>{});
  at_stage(std::integral_constant<int, 2>{});
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
  // D1 of the table of schedules: saved after call 7, 9.3333e-4; calls 8, 9 and 10 follow.
  zero::AdamW const adamw{
      .lr = 1e-3f,
      .schedule = zero::LearningRate::warmup_decay({.updates = 5, .ramp = zero::Ramp::linear}, 20)};
  Setup const setup{.stage = 1, .world = 2, .optimizer = adamw, .units = ten_elements()};
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 8; ++s) trainer.step(s);
    trainer.save("run", {.files = &files});
  });
  on_ranks(setup, [&](AnyTrainer& trainer) {
    auto const check_rate = [&](std::size_t call) {
      double const expected = schedule_table::warmup_decay[call];
      double const rate = static_cast<double>(trainer.decision().learning_rate);
      CHECK(std::abs(rate - expected) <= 0x1p-23 * expected);  // lr and the rate are rounded
    };
    CHECK(trainer.load("run", {.files = &files}).warnings.empty());
    check_rate(7);
    for (int s = 8; s < 11; ++s) {
      trainer.step(s);
      check_rate(at(s));
    }
  });
  Setup other = setup;
  other.optimizer = zero::AdamW{.lr = 2e-3f};
  on_ranks(other, [&](AnyTrainer& trainer) {
    // Another rate, and without the schedule.
    CHECK(trainer.load("run", {.files = &files}).warnings.size() == 2);
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

TEST_CASE("U01: what was saved is what trains on, at another world too, converted or not") {
  // Equal gradients on every rank of a world of a power of two: the same bits as at world 2.
  Setup const from{.stage = 3, .world = 2};
  MemoryFiles files;
  std::map<std::string, std::vector<float>> seen;
  Canonical saved;
  Collected collected;
  Canonical const whole = state_after(from, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 3; ++s) trainer.step(s);
    trainer.save("run", {.files = &files});
    collected.add(trainer);
    auto mine = trainer.seen();
    if (trainer.rank() == 0) seen = std::move(mine);
    for (int s = 3; s < 5; ++s) trainer.step(s);
  });
  saved = collected.all();
  for (int world : {2, 4}) {
    Setup to = from;
    to.world = world;
    std::string const converted = "converted-" + std::to_string(world);
    zero::reshard_checkpoint(zero::find_checkpoint("run", files), converted, world, files);
    for (std::string const& dir : {std::string("run"), converted}) {
      CAPTURE(world);
      CAPTURE(dir);
      Collected loaded;
      Canonical const resumed = state_after(to, [&](AnyTrainer& trainer) {
        trainer.load(dir, {.files = &files});
        loaded.add(trainer);
        // What the first forward computes with, and so its loss: the parameters of every tensor.
        CHECK(trainer.seen() == seen);
        for (int s = 3; s < 5; ++s) trainer.step(s);
      });
      CHECK(loaded.all() == saved);
      CHECK(resumed == whole);
    }
  }
}

TEST_CASE("U03: the number of the update goes on, and bias corrections with it: steps 4 and 5") {
  using Table = TableTrainer<1>;
  MemoryFiles files;
  auto const on = [&](int world, auto f) {
    zero::launch<zero::Threads>(world, [&](zero::ThreadCommunicator<zero::Host> ranks) {
      Table trainer(cases::GivenGradients{ten_elements()}, ranks, table_adamw(), zero::Options{});
      f(trainer);
    });
  };
  on(2, [&](Table& trainer) {
    zero::assign(trainer, "w",
                 std::vector<float>(adam_table::initial.begin(), adam_table::initial.end()));
    for (int s = 0; s < 3; ++s) trainer.step(table_gradients(s));
    zero::save(trainer, "run", {.files = &files});
  });
  zero::reshard_checkpoint(zero::find_checkpoint("run", files), "converted", 3, files);
  on(4, [&](Table& trainer) {
    zero::load(trainer, "converted", {.files = &files});
    CHECK(trainer.decision().updates == 3);
    adam_table::Reference expected;
    for (int s = 0; s < 3; ++s) expected.step(s);
    for (int s = 3; s < 5; ++s) {
      trainer.step(table_gradients(s));
      expected.step(s);
      CHECK(trainer.decision().updates == s + 1);
      check_against(trainer, {"w"}, expected);
    }
  });
}

TEST_CASE("T01: a tied tensor stands in a file once, and both places read it after a load") {
  using Trainer = zero::Trainer<TiedHead, zero::ThreadCommunicator<zero::Host>, zero::AdamW,
                                zero::Policies<zero::Sharded<3>, zero::Fp32>>;
  MemoryFiles files;
  zero::ModelOptions const model{.stage3_gather_16bit_weights_on_model_save = true,
                                 .files = &files};
  auto const on_two = [&](auto f) {
    zero::launch<zero::Threads>(2, [&](zero::ThreadCommunicator<zero::Host> ranks) {
      Trainer trainer(TiedHead{}, ranks, zero::AdamW{.lr = 0.1f}, zero::Options{});
      f(trainer);
    });
  };
  std::vector<float> trained;
  on_two([&](Trainer& trainer) {
    trainer.step(0);
    zero::save(trainer, "run", {.files = &files});
    zero::save_model(trainer, "model", model);
    std::vector<float> const mine = zero::gather(trainer, "emb.weight");
    if (trainer.context().rank() == 0) trained = mine;
  });
  REQUIRE(trained.size() == 8);
  int times = 0;
  for (zero::WholeTensor const& t :
       zero::whole_tensors(zero::find_checkpoint("run", files).manifest))
    times += t.name == "emb.weight" && t.kind == "master" ? 1 : 0;
  CHECK(times == 1);
  for (bool const exported : {false, true}) {
    CAPTURE(exported);
    on_two([&](Trainer& trainer) {
      CHECK(zero::gather(trainer, "emb.weight") != trained);
      if (exported) {
        zero::load_model(trainer, "model", {.files = &files});
      } else {
        zero::load(trainer, "run", {.files = &files});
      }
      trainer.evaluate([&](auto& pass) {
        for (int const unit : TiedHead::chain) {  // as the embedding, and as the head
          auto const lease = pass.forward(unit);
          auto const values = lease[0].span();
          if (unit == 0) CHECK(std::vector<float>(values.begin(), values.end()) == trained);
        }
      });
    });
  }
}
