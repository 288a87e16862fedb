// SPDX-License-Identifier: Apache-2.0
// What ranks ask for differently, and what cannot be done on one of them, is refused on all of
// them, and training goes on.
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>
#include <pthread.h>

#include <cmath>
#include <limits>

namespace {

using namespace checkpoints;

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

Setup const setup{.stage = 2,
                  .world = 3,
                  .units = zero_test::ragged_sizes().units,
                  .timeout = std::chrono::seconds(20)};

/// The texts that ranks throw in `work`, after which all of them go on.
std::vector<std::string> errors_of(Setup const& of, std::function<void(AnyTrainer&)> const& work) {
  std::vector<std::string> errors(at(of.world));
  Collected before;
  Collected after;
  on_ranks(of, [&](AnyTrainer& trainer) {
    trainer.step(0);
    before.add(trainer);
    errors[at(trainer.rank())] = error_of([&] { work(trainer); });
    after.add(trainer);
    trainer.step(1);
  });
  CHECK(before.all() == after.all());
  return errors;
}

void refused(Setup const& of, std::string const& because,
             std::function<void(AnyTrainer&)> const& work) {
  for (std::string const& error : errors_of(of, work)) {
    CAPTURE(error);
    CHECK(has(error, because));
  }
}

}  // namespace

TEST_CASE("ranks that load different parts, or not as strictly, are refused") {
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) { trainer.save("run", {.files = &files}); });
  refused(setup, "different LoadOptions::parts or strict", [&](AnyTrainer& trainer) {
    auto const parts =
        trainer.rank() == 1 ? zero::LoadedParts::weights : zero::LoadedParts::everything;
    trainer.load("run", {.parts = parts, .files = &files});
  });
  refused(setup, "different LoadOptions::parts or strict", [&](AnyTrainer& trainer) {
    trainer.load("run", {.strict = trainer.rank() != 2, .files = &files});
  });
}

TEST_CASE("assign of other values, or of another number of them, on one rank is refused") {
  std::string const name = setup.units[0].tensors[0].name;
  auto const elements = at(setup.units[0].tensors[0].elements());
  refused(setup, "different values to assign to the weight of tensor '" + name + "'",
          [&](AnyTrainer& trainer) {
            trainer.assign(name, std::vector<float>(elements, trainer.rank() == 1 ? 2.0f : 1.0f),
                           "weight");
          });
  refused(setup, "rank 2: checkpoint: assign: " + std::to_string(elements + 1) + " values",
          [&](AnyTrainer& trainer) {
            trainer.assign(name, std::vector<float>(elements + (trainer.rank() == 2 ? 1 : 0)),
                           "weight");
          });
  refused(setup, "rank 0: checkpoint: a tensor has no 'speed'", [&](AnyTrainer& trainer) {
    trainer.assign(name, std::vector<float>(elements), trainer.rank() == 0 ? "speed" : "exp_avg");
  });
}

TEST_CASE("a metric that is no number, or another one, on one rank is refused") {
  MemoryFiles files;
  for (double const odd : {std::numeric_limits<double>::quiet_NaN(), 2.0}) {
    refused(setup,
            std::isnan(odd) ? "rank 1: CheckpointKeeper: 'loss' is not finite"
                            : "the ranks found different metrics",
            [&](AnyTrainer& trainer) {
              zero::CheckpointKeeper keeper{{.output_dir = "run", .files = &files}};
              trainer.keep(keeper, {{"loss", trainer.rank() == 1 ? odd : 1.0}});
            });
  }
  CHECK(has(
      error_of([] { zero::CheckpointKeeper keeper{{.output_dir = "run", .save_total_limit = 0}}; }),
      "KeeperOptions::save_total_limit: found 0; expected at least 1"));
}

TEST_CASE("blocks of no size, or beyond what a load reads, are refused before anything is made") {
  for (Index const bytes : {Index{0}, Index{-1}, (Index{1} << 30) + 1}) {
    MemoryFiles files;
    refused(
        setup, "SaveOptions::block_bytes: found " + std::to_string(bytes),
        [&](AnyTrainer& trainer) { trainer.save("run", {.block_bytes = bytes, .files = &files}); });
    CHECK(files.size("run") == -ENOENT);
  }
}

TEST_CASE("while a save in the background is not over, another one into its folder is refused") {
  MemoryFiles files;
  auto const folder = [](AnyTrainer&) { return std::string("run"); };
  for (std::string const again : {"run", "run/"}) {
    on_ranks(setup, [&](AnyTrainer& trainer) {
      trainer.step(0);
      zero::BackgroundSave first;
      zero::BackgroundSave second;
      trainer.start(first, folder(trainer), {.files = &files});
      std::string const because = "a save in the background is not over there";
      CHECK(has(error_of([&] { trainer.save(again, {.files = &files}); }), because));
      CHECK(has(error_of([&] { trainer.start(second, again, {.files = &files}); }), because));
      CHECK(!second.pending());
      CHECK(trainer.save("elsewhere", {.files = &files}).folder.starts_with("elsewhere/"));
      CHECK(first.wait().has_value());
      // Over; and one that is abandoned ends with its object.
      trainer.save("run", {.files = &files});
      trainer.step(1);
      {
        zero::BackgroundSave abandoned;
        trainer.start(abandoned, "run", {.files = &files});
      }
      trainer.step(2);  // the ranks meet
      trainer.save("run", {.files = &files});
      CHECK(trainer.load("run", {.files = &files}).manifest.step == 3);
    });
  }
}

#ifdef __GLIBC__
TEST_CASE(
    "where the system gives no more threads, saving and loading say so and training goes on") {
  Folder const dir;
  Setup const alone{.stage = 3, .world = 1, .units = zero_test::ragged_sizes().units};
  zero::SaveOptions const options{.block_bytes = 64};
  // No stack of so many bytes fits into what a process can address.
  class NoThreads {
   public:
    NoThreads() {
      ::pthread_getattr_default_np(&before_);
      pthread_attr_t huge;
      ::pthread_attr_init(&huge);
      ::pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
      REQUIRE(::pthread_setattr_default_np(&huge) == 0);
      ::pthread_attr_destroy(&huge);
    }
    NoThreads(NoThreads const&) = delete;
    NoThreads& operator=(NoThreads const&) = delete;
    ~NoThreads() {
      ::pthread_setattr_default_np(&before_);
      ::pthread_attr_destroy(&before_);
    }

   private:
    pthread_attr_t before_{};
  };
  on_ranks(alone, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save(dir / "run", options);
    zero::BackgroundSave background;
    std::string const writing = "the system has no thread for writing '";
    std::string const reading = "the system has no thread for reading '";
    {
      NoThreads const none;
      CHECK(has(error_of([&] { trainer.save(dir / "run", options); }), writing));
      CHECK(has(error_of([&] { trainer.load(dir / "run", {}); }), reading));
      trainer.start(background, dir / "run", options);
      CHECK(background.pending());
      CHECK(has(error_of([&] { background.wait(); }), writing));
      CHECK(!background.pending());
    }
    CHECK(trainer.load(dir / "run", {}).manifest.step == 1);
    trainer.step(1);
    trainer.start(background, dir / "run", options);
    CHECK(background.wait().has_value());
    CHECK(trainer.load(dir / "run", {}).manifest.step == 2);
  });
}
#endif
