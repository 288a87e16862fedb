// SPDX-License-Identifier: Apache-2.0
// A save that is killed, loses power, or whose calls fail, at every single call: the checkpoint
// before, or the new one, is whole and `latest` on it, and its bits are what was saved.
#include <zero/core/noise.hpp>

#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

namespace {

using namespace checkpoints;

Setup const setup{.stage = 3, .world = 2, .units = zero_test::padding_only().units};

/// One save of a trainer after so many steps.
void save_after(int steps, zero::SaveOptions const& options, bool background = false) {
  on_ranks(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < steps; ++s) trainer.step(s);
    if (!background) {
      trainer.save("runs/a", options);
      return;
    }
    zero::BackgroundSave saving;
    trainer.start(saving, "runs/a", options);
    saving.wait();
  });
}

/// What a load of the folder brings, and the step it was saved at.
std::pair<Canonical, Index> loaded(MemoryFiles& files) {
  Index step = 0;
  Canonical state = state_after(setup, [&](AnyTrainer& trainer) {
    Index const found = trainer.load("runs/a", {.files = &files}).manifest.step;
    if (trainer.rank() == 0) step = found;
  });
  return {state, step};
}

/// The states after 1, 2 and 3 steps.
std::vector<Canonical> expected_states() {
  std::vector<Canonical> states(1);
  for (int steps = 1; steps <= 3; ++steps) {
    states.push_back(state_after(setup, [&](AnyTrainer& trainer) {
      for (int s = 0; s < steps; ++s) trainer.step(s);
    }));
  }
  return states;
}

struct Draw {
  std::uint64_t state;
  int operator()(int n) {
    state = zero::mix(state, 3);
    return static_cast<int>(state % static_cast<std::uint64_t>(n));
  }
};

/// Saves at step 1, then at step 2 with a fault at call number `k` of that save, which ends with
/// the removal of the first one.
/// @param fault (calls since the save began, call) -> errno, or throws Killed
void save_with_fault(MemoryFiles& files, MemoryFiles::Plan const& fault, std::string& error,
                     bool background = false) {
  zero::SaveOptions options{.save_total_limit = 1, .block_bytes = 64, .files = &files};
  save_after(1, options);
  Index const before = files.calls();
  files.plan = [&, before](Index number, std::string_view call) {
    return fault(number - before, call);
  };
  try {
    save_after(2, options, background);
  } catch (Killed const&) {
    error = "killed";
  } catch (zero::Error const& e) {
    error = e.what();
  }
  files.plan = {};
}

}  // namespace

TEST_CASE("killed, or without power, at every call of a save: what latest names is whole") {
  std::vector<Canonical> const states = expected_states();
  Index points = 0;
  for (Index k = 0; k < 400; ++k) {
    CAPTURE(k);
    bool dead = false;
    for (int way = 0; way < 4; ++way) {
      CAPTURE(way);
      MemoryFiles files;
      std::string error;
      dead = false;
      save_with_fault(
          files,
          [&](Index number, std::string_view) -> int {
            dead = dead || number >= k;
            if (dead) throw Killed{};
            return 0;
          },
          error);
      if (!dead) break;
      ++points;
      if (way == 0) {
        files.restart();
      } else {
        files.lose_power(Draw{static_cast<std::uint64_t>(k * 8 + way)});
      }
      auto const [state, step] = loaded(files);
      CHECK((step == 1 || step == 2));
      CHECK(state == states[at(step)]);
      for (zero::FoundCheckpoint const& found : zero::find_checkpoints("runs/a", files))
        CHECK(error_of([&] { zero::verify_checkpoint(found, files); }).empty());
      // The next save takes the leftovers away and goes through.
      save_after(3, {.save_total_limit = 1, .block_bytes = 64, .files = &files});
      CHECK(loaded(files).first == states[3]);
      std::vector<std::string> names;
      files.list("runs/a", names);
      CHECK(names == std::vector<std::string>{"latest", "step-00000003"});
    }
    if (!dead) break;  // the save made fewer calls
  }
  CHECK(points >= 200);
  MESSAGE(points, " kill points");
}

TEST_CASE(
    "a full disk, or one that fails, at every call of a save, in the background too: an error on "
    "every rank, and the checkpoint before") {
  std::vector<Canonical> const states = expected_states();
  struct Way {
    int code;
    bool stays;
    bool background;
  };
  for (Way const& way :
       {Way{ENOSPC, false, false}, Way{ENOSPC, true, false}, Way{EIO, false, false},
        Way{EIO, true, false}, Way{ENOSPC, true, true}, Way{EIO, false, true}}) {
    CAPTURE(way.code);
    CAPTURE(way.background);
    Index failures = 0;
    for (Index k = 0; k < 200; ++k) {
      CAPTURE(k);
      MemoryFiles files;
      std::string error;
      bool failed = false;
      save_with_fault(
          files,
          [&](Index number, std::string_view call) {
            bool const takes_room = call == "create" || call == "write" || call == "sync" ||
                                    call == "make_folder" || call == "rename";
            bool const now = way.stays ? number >= k : number == k;
            if (!now || (way.code == ENOSPC && !takes_room)) return 0;
            failed = true;
            return way.code;
          },
          error, way.background);
      auto const [state, step] = loaded(files);
      CHECK((step == 1 || step == 2));
      CHECK(state == states[at(step)]);
      if (!failed) continue;
      ++failures;
      // Some calls may fail without harm, as the look for a file that may be missing.
      if (step == 1 && !error.empty()) CHECK(error.find("errno") != std::string::npos);
      if (step == 1) CHECK(!error.empty());
    }
    CHECK(failures > 20);
  }
}

TEST_CASE("writes and reads that fall short go on where they stopped") {
  std::vector<Canonical> const states = expected_states();
  MemoryFiles files;
  files.longest_write = 7;
  files.longest_read = 5;
  save_after(2, {.files = &files});
  CHECK(loaded(files).first == states[2]);
}

TEST_CASE("an error names file, offset and reason, on every rank") {
  MemoryFiles files;
  // The second block fails first: the file's first failure is told all the same.
  files.before_write = [](Index offset) {
    if (offset == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  std::string error;
  save_with_fault(
      files, [](Index, std::string_view call) { return call == "write" ? ENOSPC : 0; }, error);
  CHECK(error.find("writing ") != std::string::npos);
  CHECK(error.find(" bytes at 0 of 'runs/a/.saving-step-00000002/rank-") != std::string::npos);
  CHECK(error.find("No space left on device (errno 28)") != std::string::npos);
  CHECK(error.find("rank 0: ") != std::string::npos);
}

TEST_CASE(
    "before latest moves a rank reads back size and first block, and the rest is found by a load") {
  // Bytes of rank 1's file that change when all is written, before the checkpoint has its name.
  struct Damage {
    std::size_t place;
    bool cut;
    char const* found_by_save;  // null: by the load
  };
  constexpr std::size_t block = 64;
  for (Damage const& damage :
       {Damage{0, false, "' is damaged between bytes 0 and 64"},
        Damage{block - 1, false, "' is damaged between bytes 0 and 64"},
        Damage{0, true, " bytes; expected "}, Damage{block, false, nullptr}}) {
    CAPTURE(damage.place);
    MemoryFiles files;
    save_after(1, {.block_bytes = block, .files = &files});
    bool done = false;
    files.plan = [&](Index, std::string_view call) {
      if (call != "rename" || done) return 0;
      done = true;
      auto& data = files.data("runs/a/.saving-step-00000002/rank-1-of-2.safetensors");
      data[damage.place] ^= std::byte{1};
      if (damage.cut) data.pop_back();
      return 0;
    };
    std::string const error =
        error_of([&] { save_after(2, {.block_bytes = block, .files = &files}); });
    CHECK(done);
    std::string const refusal = error_of([&] { loaded(files); });
    if (damage.found_by_save != nullptr) {
      CHECK(error.find("rank 1: ") != std::string::npos);
      CHECK(error.find("rank-1-of-2.safetensors") != std::string::npos);
      CHECK(error.find(damage.found_by_save) != std::string::npos);
      CHECK(refusal.empty());
      CHECK(loaded(files).second == 1);
    } else {
      CHECK(error.empty());
      CHECK(refusal.find("' is damaged between bytes 64 and 128") != std::string::npos);
    }
  }
}
