// SPDX-License-Identifier: Apache-2.0
// A real process that is killed at random moments of its saves: the newest complete checkpoint
// loads, bit for bit, whatever the moment.
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

namespace {

using namespace checkpoints;

Setup const setup{.stage = 3, .world = 2, .units = zero_test::ragged_sizes().units};
constexpr int steps = 400;

/// Saves after every step, or in the background whenever the last save is over, until it is killed.
[[noreturn]] void train_and_save(std::string const& dir, bool background) {
  try {
    on_ranks(setup, [&](AnyTrainer& trainer) {
      zero::SaveOptions const options{.save_total_limit = 2, .block_bytes = 256};
      zero::BackgroundSave saving;
      for (int s = 0; s < steps; ++s) {
        trainer.step(s);
        if (!background) {
          trainer.save(dir, options);
        } else if (saving.poll() || !saving.pending()) {
          trainer.start(saving, dir, options);
        }
      }
      saving.wait();
    });
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace

TEST_CASE("kill -9 at random moments of a process that saves after every step") {
  std::vector<Canonical> states(steps + 1);
  {
    std::vector<Collected> collected(steps + 1);
    on_ranks(setup, [&](AnyTrainer& trainer) {
      for (int s = 0; s < steps; ++s) {
        trainer.step(s);
        collected[at(s + 1)].add(trainer);
      }
    });
    for (std::size_t i = 0; i < states.size(); ++i) states[i] = collected[i].all();
  }
  std::uint64_t draw = 11;
  int kills = 0;
  for (int k = 0; k < 40; ++k) {
    CAPTURE(k);
    Folder const folder;
    pid_t const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) train_and_save(folder.path(), k % 2 == 1);
    // Once it has saved, some time more.
    while (!std::filesystem::exists(folder / "latest")) ::usleep(200);
    draw = zero::mix(draw, 5);
    ::usleep(static_cast<useconds_t>(draw % 30000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    kills += WIFSIGNALED(status) ? 1 : 0;
    Index step = 0;
    Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
      Index const at_step = trainer.load(folder.path(), {}).manifest.step;
      if (trainer.rank() == 0) step = at_step;
    });
    REQUIRE(step > 0);
    CHECK(found == states[at(step)]);
    for (zero::FoundCheckpoint const& each : zero::find_checkpoints(folder.path()))
      CHECK(error_of([&] { zero::verify_checkpoint(each); }).empty());
  }
  CHECK(kills > 30);
}
