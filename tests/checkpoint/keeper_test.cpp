// SPDX-License-Identifier: Apache-2.0
// Which checkpoints stay, which is best, and saves that go on beside training.
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

namespace {

using namespace checkpoints;

std::vector<std::string> names_in(MemoryFiles& files, std::string const& folder) {
  std::vector<std::string> names;
  files.list(folder, names);
  return names;
}

using Names = std::vector<std::string>;

Setup const setup{.stage = 2, .world = 2, .units = zero_test::ragged_sizes().units};

}  // namespace

TEST_CASE("save_total_limit keeps the newest and those that are named") {
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 5; ++s) {
      trainer.step(s);
      auto const saved =
          trainer.save("run", {.save_total_limit = 2, .kept = {"step-00000001"}, .files = &files});
      CHECK(saved.removed.size() == (s < 2 ? 0u : 1u));
      if (s == 4) {
        CHECK(trainer.save("run", {.files = &files}).name == "step-00000005.1");
        CHECK(trainer.load("run", {.files = &files}).folder == "run/step-00000005.1");
      }
    }
    CHECK(error_of([&] {
            trainer.save("run", {.save_total_limit = 0, .files = &files});
          }).find("SaveOptions::save_total_limit: found 0") != std::string::npos);
  });
  CHECK(names_in(files, "run") ==
        Names{"latest", "step-00000001", "step-00000005", "step-00000005.1"});
}

TEST_CASE("the keeper finds the best, never removes it, and loads it at the end") {
  // Losses of five evaluations; the second is the best.
  double const losses[] = {3, 1, 2, 1.5, 4};
  for (bool const greater : {false, true}) {
    MemoryFiles files;
    std::vector<Canonical> states(6);
    int const best = greater ? 5 : 2;
    Canonical const last = state_after(setup, [&](AnyTrainer& trainer) {
      zero::CheckpointKeeper keeper{{.output_dir = "run",
                                     .eval_steps = 1,
                                     .save_total_limit = 1,
                                     .load_best_model_at_end = true,
                                     .metric_for_best_model = greater ? "score" : "eval_loss",
                                     .files = &files}};
      CHECK(keeper.greater_is_better() == greater);
      for (int s = 0; s < 5; ++s) {
        trainer.step(s);
        CHECK(keeper.evaluates(s + 1));
        trainer.keep(keeper, {{greater ? "eval_score" : "loss", losses[s]}, {"other", 0.0}});
      }
      CHECK(keeper.best() == "step-0000000" + std::to_string(best));
      CHECK(trainer.finish(keeper));
      CHECK(trainer.steps() == best);
    });
    Canonical const expected = state_after(setup, [&](AnyTrainer& trainer) {
      for (int s = 0; s < best; ++s) trainer.step(s);
    });
    CHECK(last == expected);
    Names const there = greater ? Names{"best", "latest", "step-00000005"}
                                : Names{"best", "latest", "step-00000002", "step-00000005"};
    CHECK(names_in(files, "run") == there);
    // A run that goes on knows the best of the one before.
    on_ranks(setup, [&](AnyTrainer& trainer) {
      zero::CheckpointKeeper keeper{{.output_dir = "run", .files = &files}};
      trainer.load("run", {.files = &files});
      trainer.resume(keeper);
      CHECK(keeper.best_metric() == (greater ? 4.0 : 1.0));
    });
  }
}

TEST_CASE("save_only_model writes models alone, and is refused with load_best_model_at_end") {
  CHECK(error_of([] {
          zero::CheckpointKeeper keeper{
              {.output_dir = "run", .save_only_model = true, .load_best_model_at_end = true}};
        }).find("save_only_model with load_best_model_at_end") != std::string::npos);
  CHECK(!error_of([] { zero::CheckpointKeeper keeper{{}}; }).empty());
  CHECK(!error_of([] {
           zero::CheckpointKeeper keeper{{.output_dir = "run", .eval_steps = 0}};
         }).empty());
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    zero::CheckpointKeeper keeper{{.output_dir = "run",
                                   .save_total_limit = 1,
                                   .save_only_model = true,
                                   .model = {.stage3_gather_16bit_weights_on_model_save = true},
                                   .files = &files}};
    for (int s = 0; s < 3; ++s) {
      trainer.step(s);
      auto const warnings = trainer.keep(keeper, {{"loss", 3.0 - s}});
      CHECK(warnings.size() == (s == 0 ? 1u : 0u));  // once: the key does nothing at stage 2
    }
    CHECK(!trainer.finish(keeper));
    CHECK(error_of([&] {
            trainer.keep(keeper, {{"accuracy", 1.0}});
          }).find("metric_for_best_model is 'loss', and the loop has measured accuracy") !=
          std::string::npos);
  });
  CHECK(names_in(files, "run") == Names{"best", "step-00000003"});
  CHECK(names_in(files, "run/step-00000003") == Names{"model.safetensors"});
}

TEST_CASE(
    "models take no place of the checkpoint that a run goes on from, and a run goes on with them") {
  MemoryFiles files;
  Canonical const last = state_after(setup, [&](AnyTrainer& trainer) {
    zero::KeeperOptions const options{.output_dir = "run",
                                      .save_total_limit = 1,
                                      .save_only_model = true,
                                      .model = {.stage3_gather_16bit_weights_on_model_save = true},
                                      .files = &files};
    trainer.step(0);
    trainer.save("run", {.files = &files});
    zero::CheckpointKeeper first{options};
    for (int s = 1; s < 4; ++s) {
      trainer.step(s);
      trainer.keep(first, {{"loss", 1.0 + s}});
    }
    trainer.load("run", {.files = &files});
    // What the run before found best has no metric: the next one is better, and until then it
    // stays.
    zero::CheckpointKeeper second{options};
    trainer.resume(second);
    CHECK(second.best() == "step-00000002");
    CHECK(!second.best_metric());
    trainer.step(1);
    trainer.keep(second, {{"loss", 9.0}});
    CHECK(second.best() == "step-00000002.1");
    CHECK(second.best_metric() == 9.0);
    trainer.load("run", {.files = &files});
    CHECK(trainer.steps() == 1);
  });
  CHECK(last == state_after(setup, [](AnyTrainer& trainer) { trainer.step(0); }));
  CHECK(names_in(files, "run") == Names{"best", "latest", "step-00000001", "step-00000002.1"});
}

TEST_CASE("a best checkpoint that is not there is refused on every rank") {
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    zero::CheckpointKeeper keeper{{.output_dir = "run", .files = &files}};
    trainer.save("run", {.files = &files});
    trainer.keep(keeper, {{"loss", 1.0}});
    if (trainer.rank() == 0) {
      int const file = files.open_to_write("run/best");
      std::string const other = "step-00000009";  // as long as the name that is there
      files.write(file, reinterpret_cast<std::byte const*>(other.data()), std::ssize(other), 0);
      files.close(file);
    }
    std::string const error = error_of([&] { trainer.resume(keeper); });
    CHECK(error.find("rank 0: ") == 0);
    CHECK(error.find("run/step-00000009") != std::string::npos);
  });
}

TEST_CASE("a background save has the bits of its moment, and appears at a call") {
  MemoryFiles files;
  Canonical saved;
  Collected collected;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    zero::BackgroundSave save;
    CHECK(!save.poll());
    trainer.step(0);
    collected.add(trainer);
    trainer.start(save, "run", {.files = &files});
    CHECK(save.pending());
    int s = 1;
    std::optional<zero::SavedCheckpoint> done;
    do {  // one step at least: a second checkpoint of the same step would have another name
      if (s < 90) trainer.step(s++);
    } while (!(done = save.poll()));
    CHECK(done->name == "step-00000001");
    CHECK(!save.pending());
    trainer.start(save, "run", {.files = &files});
    trainer.step(s);
    CHECK(save.wait()->name == (s < 10 ? "step-0000000" : "step-000000") + std::to_string(s));
  });
  CHECK(state_after(setup, [&](AnyTrainer& t) {
          t.load("run/step-00000001", {.files = &files});
        }) == collected.all());
}

TEST_CASE("what fails in the background is thrown on every rank at the next call") {
  for (bool const waits : {false, true}) {
    MemoryFiles files;
    on_ranks(setup, [&](AnyTrainer& trainer) {
      trainer.step(0);
      trainer.save("run", {.files = &files});
      zero::BackgroundSave save;
      if (trainer.rank() == 0)
        files.plan = [](Index, std::string_view call) { return call == "write" ? ENOSPC : 0; };
      trainer.step(1);  // the ranks meet
      trainer.start(save, "run", {.files = &files});
      std::string const error = error_of([&] {
        if (waits) save.wait();
        while (!save.poll()) {
        }
      });
      CHECK(error.find("No space left on device") != std::string::npos);
      CHECK(!save.pending());
      CHECK(trainer.load("run", {.files = &files}).manifest.step == 1);
    });
  }
}
