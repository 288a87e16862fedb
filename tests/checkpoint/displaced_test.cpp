// SPDX-License-Identifier: Apache-2.0
// A load with staging puts what it has verified into the trainer while it reads on. Whatever fails
// later, in the last block, on one rank alone or with a rank that ends, every bit is as it was:
// weights, states, frozen parameters, and the parameters that a visit sees.
#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>

#include <array>
#include <barrier>
#include <bit>

namespace {

using namespace checkpoints;

constexpr Index staging = Index{1} << 20;
constexpr char const* folder = "run/step-00000003";

/// Saves after three steps of three ranks, in blocks that cut elements in two.
Canonical save_trained(Setup from, MemoryFiles& files) {
  from.world = 3;
  return state_after(from, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 3; ++s) trainer.step(s);
    trainer.save("run", {.block_bytes = 62, .files = &files});
  });
}

Setup setup_of(int stage, Storage storage) {
  return {.stage = stage, .world = 2, .storage = storage, .units = zero_test::frozen_parts().units};
}
constexpr std::array all_storages{Storage::floats, Storage::mixed, Storage::half, Storage::split,
                                  Storage::short_states};

/// Two steps of its own, then what `between` does, then one more. @return what the ranks have
Canonical trained_on(Setup const& setup, std::function<void(AnyTrainer&)> const& between) {
  return state_after(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 2; ++s) trainer.step(s);
    between(trainer);
    trainer.step(2);
  });
}

/// What this rank keeps, without a word to the others.
Canonical own_bits(AnyTrainer& trainer) {
  Canonical mine;
  trainer.add_slices(mine);
  return mine;
}

std::string rank_file(int rank) {
  return std::string(folder) + "/rank-" + std::to_string(rank) + "-of-3.safetensors";
}

}  // namespace

TEST_CASE("a staged load that finds a flipped bit leaves every bit, and training goes on") {
  for (Storage const storage : all_storages) {
    for (int stage = 0; stage < 4; ++stage) {
      CAPTURE(static_cast<int>(storage));
      CAPTURE(stage);
      Setup const setup = setup_of(stage, storage);
      MemoryFiles files;
      save_trained(setup, files);
      Canonical const undisturbed = trained_on(setup, [](AnyTrainer&) {});
      std::barrier<> together(setup.world);
      Canonical const found = trained_on(setup, [&](AnyTrainer& trainer) {
        auto const seen = trainer.seen();
        std::uint64_t const hash = trainer.hash();
        for (int file = 0; file < 3; ++file) {
          for (int const place : {1, 2, 3, 4}) {  // quarters: the last one is the last byte
            std::vector<std::byte>& data = files.data(rank_file(file));
            std::byte& flipped = data[data.size() * at(place) / 4 - 1];
            together.arrive_and_wait();
            if (trainer.rank() == 0) flipped ^= std::byte{4};
            together.arrive_and_wait();
            std::string const error =
                error_of([&] { trainer.load("run", {.staging_bytes = staging, .files = &files}); });
            together.arrive_and_wait();
            if (trainer.rank() == 0) flipped ^= std::byte{4};
            CHECK(error.find("'" + rank_file(file) + "' is damaged") != std::string::npos);
            CHECK(trainer.hash() == hash);
            CHECK(trainer.seen() == seen);
            CHECK(trainer.steps() == 2);
          }
        }
      });
      CHECK(found == undisturbed);  // with states: the last step depends on them
    }
  }
}

TEST_CASE("signed zeros, payloads of NaN and subnormal numbers come back with their bits") {
  using Bits = std::vector<std::uint32_t>;
  auto const floats = [](Bits const& bits) {
    std::vector<float> values;
    for (std::uint32_t x : bits) values.push_back(std::bit_cast<float>(x));
    return values;
  };
  auto const repeated = [](Bits const& some, std::size_t n) {
    Bits all;
    for (std::size_t i = 0; i < n; ++i) all.push_back(some[i % some.size()]);
    return all;
  };
  constexpr std::uint32_t minus_zero = 0x80000000;
  // A quiet and a signalling NaN with a payload, the smallest number, and one that is not special.
  Bits const weights = {minus_zero, 0x7fc12345, 0x7f812345, 1, 0x3fc00000, 0};
  // What bf16 holds as well, whose NaN are quiet.
  Bits const short_ones = {minus_zero, 0x7fc50000, 0xffc10000, 0x00010000, 0x3fc00000, 0};
  std::map<std::string, Bits> const given{{"master/b.w", repeated(weights, 19)},
                                          {"master/b.b", Bits(4, minus_zero)},
                                          {"master/d.w", Bits(66, 0)},
                                          {"state.exp_avg/b.w", repeated(short_ones, 19)},
                                          {"state.exp_avg/b.b", Bits(4, minus_zero)},
                                          {"state.exp_avg_sq/d.w", repeated(short_ones, 66)}};
  auto const seen = [](AnyTrainer& trainer) {
    std::map<std::string, Bits> all;
    for (auto const& [name, values] : trainer.seen()) {
      for (float x : values) all[name].push_back(std::bit_cast<std::uint32_t>(x));
    }
    return all;
  };
  for (Storage const storage :
       {Storage::floats, Storage::mixed, Storage::split, Storage::short_states}) {
    for (int stage = 0; stage < 4; ++stage) {
      CAPTURE(static_cast<int>(storage));
      CAPTURE(stage);
      Setup const setup = setup_of(stage, storage);
      MemoryFiles files;
      save_trained(setup, files);
      std::barrier<> together(setup.world);
      Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
        trainer.step(0);
        for (auto const& [key, bits] : given) {
          std::size_t const slash = key.find('/');
          bool const weight = key.starts_with("master/");
          trainer.assign(key.substr(slash + 1), floats(bits),
                         weight ? "weight" : key.substr(6, slash - 6));
        }
        trainer.assign("c.g", floats(repeated(short_ones, 130)), "weight");
        auto const before = own_bits(trainer);
        auto const seen_before = seen(trainer);
        for (int file = 0; file < 3; ++file) {
          std::byte& last = files.data(rank_file(file)).back();
          together.arrive_and_wait();
          if (trainer.rank() == 0) last ^= std::byte{1};
          together.arrive_and_wait();
          std::string const error =
              error_of([&] { trainer.load("run", {.staging_bytes = staging, .files = &files}); });
          together.arrive_and_wait();
          if (trainer.rank() == 0) last ^= std::byte{1};
          CHECK(error.find("'" + rank_file(file) + "' is damaged") != std::string::npos);
          CHECK(own_bits(trainer) == before);
          CHECK(seen(trainer) == seen_before);
        }
      });
      for (auto const& [key, bits] : given) CHECK(found.at(key) == bits);
    }
  }
}

TEST_CASE("a staged load whose reads fail, one after the other up to the last, leaves every bit") {
  for (Storage const storage : {Storage::mixed, Storage::split}) {
    for (int stage : {1, 3}) {
      CAPTURE(stage);
      Setup const setup = setup_of(stage, storage);
      MemoryFiles files;
      Canonical const saved = save_trained(setup, files);
      Index reads = 0;
      Index failing = 0;
      files.plan = [&](Index, std::string_view call) {
        return call == "read" && reads++ == failing ? EIO : 0;
      };
      std::barrier<> together(setup.world);
      Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
        for (int s = 0; s < 2; ++s) trainer.step(s);
        auto const seen = trainer.seen();
        Canonical const before = own_bits(trainer);
        while (true) {
          std::string const error =
              error_of([&] { trainer.load("run", {.staging_bytes = staging, .files = &files}); });
          if (error.empty()) break;  // there is no such read: it has gone through
          CHECK(error.find("(errno 5)") != std::string::npos);
          CHECK(trainer.seen() == seen);
          CHECK(own_bits(trainer) == before);
          together.arrive_and_wait();
          if (trainer.rank() == 0) {
            failing += reads > 40 ? 7 : 1;  // headers and manifests closely
            reads = 0;
          }
          together.arrive_and_wait();
        }
      });
      CHECK(failing > 60);
      CHECK(found == saved);
    }
  }
}

TEST_CASE("ranks with memory for their values and ranks without load together, or not at all") {
  Setup const setup = setup_of(3, Storage::mixed);
  MemoryFiles files;
  Canonical const saved = save_trained(setup, files);
  auto const load = [&](AnyTrainer& trainer) {
    trainer.load("run", {.staging_bytes = trainer.rank() == 0 ? staging : 0, .files = &files});
  };
  CHECK(state_after(setup, load) == saved);
  // The last of c.g in this file, which rank 1 keeps: all of rank 0's values have changed places.
  files.data(rank_file(1)).back() ^= std::byte{1};
  Canonical const found = trained_on(
      setup, [&](AnyTrainer& trainer) { CHECK(!error_of([&] { load(trainer); }).empty()); });
  CHECK(found == trained_on(setup, [](AnyTrainer&) {}));
}

TEST_CASE("where a rank ends while the others read, these have every bit that they had") {
  Setup const setup = setup_of(3, Storage::mixed);
  MemoryFiles files;
  save_trained(setup, files);
  Index const before_load = files.calls();
  state_after(setup, [&](AnyTrainer& trainer) {
    trainer.load("run", {.staging_bytes = staging, .files = &files});
  });
  Index const calls = files.calls() - before_load;
  for (Index const k : {calls / 2, calls - 20}) {
    Index made = 0;
    bool killed = false;
    files.plan = [&](Index, std::string_view call) -> int {
      if (++made < k || call != "read" || killed) return 0;
      killed = true;
      throw Killed{};
    };
    std::array<Canonical, 2> before;
    std::array<Canonical, 2> after;
    try {
      on_ranks(setup, [&](AnyTrainer& trainer) {
        trainer.step(0);
        before[at(trainer.rank())] = own_bits(trainer);
        try {
          trainer.load("run", {.staging_bytes = staging, .files = &files});
        } catch (...) {
          after[at(trainer.rank())] = own_bits(trainer);
          throw;
        }
      });
    } catch (Killed const&) {       // the rank's own
    } catch (zero::Error const&) {  // that of the rank that has waited for it
    }
    files.plan = {};
    CHECK(killed);
    CHECK(!before[0].empty());
    CHECK(before == after);
  }
}

TEST_CASE("weights alone, no states, and what fits of another model: with staging as without") {
  Setup const setup = setup_of(3, Storage::mixed);
  MemoryFiles files;
  save_trained(setup, files);
  Setup other = setup;
  other.units[1].tensors[0].shape = {20};
  other.optimizer = zero::Lion{.lr = 0.03f};
  using Parts = zero::LoadedParts;
  for (auto const& [to, parts] :
       {std::pair(setup, Parts::weights), std::pair(setup, Parts::without_optimizer_state),
        std::pair(other, Parts::everything), std::pair(other, Parts::weights)}) {
    std::array<Canonical, 2> found;
    for (int const staged : {0, 1}) {
      found[at(staged)] = trained_on(to, [&](AnyTrainer& trainer) {
        trainer.load(
            "run",
            {.parts = parts, .strict = false, .staging_bytes = staged * staging, .files = &files});
      });
    }
    CHECK(found[0] == found[1]);
  }
}

TEST_CASE("memory for staging is counted as a save would store what is displaced") {
  // 23 weights of float with two states of 16 bits each, and a frozen one as float.
  Setup const setup{
      .stage = 1,
      .storage = Storage::short_states,
      .units = {
          {"u", {zero_test::weight("w", {23}), zero_test::frozen(zero_test::weight("f", {5}))}}}};
  constexpr Index displaced = 23 * (4 + 2 + 2) + 5 * 4;
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.save("run", {.block_bytes = 64, .files = &files});
    auto const read = [&](Index bytes) {
      return trainer.load("run", {.staging_bytes = bytes, .files = &files}).bytes_read;
    };
    CHECK(read(displaced - 1) == read(0));
    CHECK(read(displaced) < read(0));
    CHECK(read(displaced) == read(staging));
  });
}
