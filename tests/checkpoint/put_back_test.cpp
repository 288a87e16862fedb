// SPDX-License-Identifier: Apache-2.0
// What a staged load notes of the values that it displaces: how much memory that takes, what
// becomes of the trainer where there is none, and where the values cannot go back.
#include <zero/checkpoint.hpp>
#include <zero/zero.hpp>

#include <checkpoint/memory_files.hpp>
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>
#include <support/heap.hpp>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <map>
#include <mutex>

namespace {

using namespace checkpoints;

constexpr Index staging = Index{1} << 26;

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

Canonical own_bits(AnyTrainer& trainer) {
  Canonical mine;
  trainer.add_slices(mine);
  return mine;
}

Setup of_one_tensor(int world, Index elements) {
  return {.stage = 1, .world = world, .units = {{"u", {zero_test::weight("u.w", {elements})}}}};
}

}  // namespace

TEST_CASE("what is noted of a staged load does not grow with the number of its blocks") {
  // 4096 elements of three numbers in blocks of one number each: 12288 hand-outs.
  Setup const setup = of_one_tensor(1, 4096);
  MemoryFiles files;
  Canonical const saved = state_after(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 2; ++s) trainer.step(s);
    trainer.save("run", {.block_bytes = 4, .files = &files});
  });
  Index reads = 0;
  Index before = 0;
  Index top = 0;
  Canonical const found = state_after(setup, [&](AnyTrainer& trainer) {
    trainer.step(2);
    // From the 2000th read on, when the header is known and the exchange is under way, to the last.
    files.plan = [&](Index, std::string_view call) {
      if (call != "read") return 0;
      if (++reads == 2000) {
        heap::forget_highest();
        before = heap::live_bytes();
      }
      top = heap::highest_bytes();
      return 0;
    };
    trainer.load("run", {.staging_bytes = staging, .files = &files});
    files.plan = {};
  });
  CHECK(found == saved);
  CHECK(reads > 12288);
  MESSAGE("the heap rises by ", top - before, " bytes");
  // A note of 32 bytes for each of more than 10000 hand-outs would be 320 KiB; in the trainer and
  // in files in memory nothing grows meanwhile.
  CHECK(top - before < (Index{1} << 16));
}

TEST_CASE("runs of zeros among others, and tiles of hand-outs, go back to the last bit") {
  // More than a tile of 2^18 elements; runs of 1 to 9000 elements, of zeros where they begin at an
  // even one; blocks of 1025 numbers, so that hand-outs end where no run does.
  constexpr std::size_t elements = (std::size_t{1} << 18) + 40000;
  std::vector<float> values;
  for (std::size_t run = 1; values.size() < elements; run = run * 3 % 9001) {
    float const value = values.size() % 2 == 0 ? 0.0f : 1.5f;
    values.resize(std::min(values.size() + run, elements), value);
  }
  Setup const setup = of_one_tensor(1, static_cast<Index>(elements));
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save("run", {.block_bytes = 4100, .files = &files});
    trainer.assign("u.w", values, "weight");
    trainer.assign("u.w", values, "exp_avg");
    trainer.assign("u.w", std::vector<float>(elements), "exp_avg_sq");
    Canonical const before = own_bits(trainer);
    files.data("run/step-00000001/rank-0-of-1.safetensors").back() ^= std::byte{1};
    std::string const error =
        error_of([&] { trainer.load("run", {.staging_bytes = staging, .files = &files}); });
    CHECK(has(error, "is damaged"));
    CHECK(own_bits(trainer) == before);
    for (std::size_t i = 0; i < elements; ++i) {
      if (before.at("master/u.w")[i] != std::bit_cast<std::uint32_t>(values[i])) {
        FAIL_CHECK("element ", i);
        break;
      }
    }
  });
}

TEST_CASE("a rank without memory for staging ends the load, and not the training") {
  // Each rank keeps 2^16 elements: as floats 256 KiB, the largest request of a load.
  Setup const setup = of_one_tensor(2, Index{1} << 17);
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.step(5);
    trainer.save("run", {.block_bytes = Index{1} << 14, .files = &files});
  });
  auto const train = [&](bool loads) {
    return state_after(setup, [&](AnyTrainer& trainer) {
      trainer.step(0);
      if (loads) {
        Canonical const before = own_bits(trainer);
        if (trainer.rank() == 1) heap::refuse(Index{1} << 18);
        std::string const error =
            error_of([&] { trainer.load("run", {.staging_bytes = staging, .files = &files}); });
        CHECK(heap::allow() == (trainer.rank() == 1));
        CHECK(error == "rank 1: checkpoint: the host has no memory for a tile of 65536 elements");
        CHECK(own_bits(trainer) == before);
      }
      trainer.step(1);
    });
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("memory that a load takes by the number of tensors ends it on every rank alike") {
  // Rank 1 is refused its requests for 1000 bytes and more, one in each load. All are the load's,
  // and all ranks hear of it; a rank that ended would end the other by that.
  Setup setup{.stage = 1, .world = 2, .units = {{"u", {}}}};
  for (int t = 0; t < 100; ++t)
    setup.units[0].tensors.push_back(zero_test::weight("w" + std::to_string(t), {64}));
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.save("run", {.block_bytes = 512, .files = &files});
  });
  Index refusals = 0;
  for (bool refused = true; refused;) {
    CAPTURE(refusals);
    std::string const ended = error_of([&] {
      on_ranks(setup, [&](AnyTrainer& trainer) {
        bool const second = trainer.rank() == 1;
        if (second) heap::refuse(1000, refusals);
        try {
          trainer.load("run", {.staging_bytes = staging, .files = &files});
          if (second) refused = heap::allow();
          if (second) CHECK(!refused);  // none is passed over
        } catch (zero::CheckpointError const&) {
          if (second) CHECK(heap::allow());
        }
      });
    });
    CHECK(ended == "");
    if (refused) ++refusals;
  }
  CHECK(refusals > 50);
}

TEST_CASE("whatever request for memory is refused, a save or a load ends with an error") {
  // Each request of 8 bytes or more in turn: also that for the list of threads that read or write,
  // where one that runs already and finds no place would end the process, and that which a save
  // makes while it holds the lock of its folder. Ten blocks, so that both threads start; a rank
  // alone, whose trainer may end of it as well.
  Setup const small{.stage = 1, .units = {{"u", {zero_test::weight("w", {64})}}}};
  MemoryFiles saved;
  on_ranks(small, [&](AnyTrainer& trainer) {
    trainer.save("run", {.block_bytes = 100, .files = &saved});
  });
  for (bool const loads : {false, true}) {
    Index refusals = 0;
    for (bool refused = true; refused; ++refusals) {
      CAPTURE(refusals);
      MemoryFiles to;
      std::string const error = error_of([&] {
        on_ranks(small, [&](AnyTrainer& trainer) {
          heap::refuse(8, refusals);
          try {
            if (loads) {
              trainer.load("run", {.staging_bytes = Index{1} << 20, .files = &saved});
            } else {
              trainer.save("run", {.block_bytes = 100, .files = &to});
            }
          } catch (...) {
            refused = heap::allow();
            throw;
          }
          refused = heap::allow();
        });
      });
      CHECK(error.empty() != refused);
    }
    MESSAGE((loads ? "load: " : "save: "), refusals, " requests");
    CHECK(refusals > 100);
  }
}

TEST_CASE("a rank that cannot note what it takes ends the load: what it has taken goes back") {
  // 30 tensors of three numbers, half of them in each of two files of one block: 45 notes for the
  // first, 45 for the second, among which the list of 64 notes grows to 4096 bytes. On the host in
  // fp32 the trainer's own reads and writes take no memory, and nothing else in a load takes 2048.
  Setup setup{.stage = 0, .world = 2, .units = {{"u", {}}}};
  for (int t = 0; t < 30; ++t)
    setup.units[0].tensors.push_back(zero_test::weight("w" + std::to_string(t), {64}));
  MemoryFiles files;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    trainer.step(5);
    trainer.save("run", {.files = &files});
  });
  auto const train = [&](std::function<void(AnyTrainer&)> const& between) {
    return state_after(setup, [&](AnyTrainer& trainer) {
      trainer.step(0);
      between(trainer);
      trainer.step(1);
    });
  };
  Canonical const undisturbed = train([](AnyTrainer&) {});
  // A file of one block is read by the rank's own thread, and the second one last.
  thread_local Index reads = 0;
  thread_local Index refuses_after = -1;
  files.plan = [](Index, std::string_view call) {
    if (call == "read" && ++reads == refuses_after) heap::refuse(2048);
    return 0;
  };
  Index of_load = 0;
  train([&](AnyTrainer& trainer) {
    reads = 0;
    trainer.load("run", {.staging_bytes = staging, .files = &files});
    if (trainer.rank() == 1) of_load = reads;
  });
  Canonical const found = train([&](AnyTrainer& trainer) {
    Canonical const before = own_bits(trainer);
    reads = 0;
    if (trainer.rank() == 1) refuses_after = of_load;
    std::string const error =
        error_of([&] { trainer.load("run", {.staging_bytes = staging, .files = &files}); });
    CHECK(heap::allow() == (trainer.rank() == 1));
    CHECK(error.starts_with("rank 1: checkpoint: the host has no memory to note that "));
    CHECK(own_bits(trainer) == before);
  });
  CHECK(found == undisturbed);
}

namespace {

/// A disk that takes a write when it is waited for, and refuses one.
class LateDisk final : public zero::Transfers {
 public:
  Index refused = -1;  ///< number of a write, from 0

  Index writes() const { return writes_; }  ///< that were begun
  void start(zero::Transfer& transfer) override {
    std::lock_guard const lock(mutex_);
    pending_.emplace(&transfer, transfer.writes ? writes_++ : -1);
    if (!transfer.writes && pending_.count(transfer.after) == 0) make(transfer);
  }
  void wait(zero::Transfer& transfer) noexcept override {
    std::lock_guard const lock(mutex_);
    make(transfer);
  }
  char const* name() const noexcept override { return "a late disk"; }

 private:
  void make(zero::Transfer& transfer) {
    auto const found = pending_.find(&transfer);
    if (found == pending_.end()) return;
    Index const number = found->second;
    pending_.erase(found);
    if (transfer.after != nullptr) make(*transfer.after);
    auto const offset = static_cast<off_t>(transfer.offset);
    bool const refuses = transfer.writes && number == refused;
    ssize_t const n = refuses ? -1
                      : transfer.writes
                          ? ::pwrite(transfer.file, transfer.memory, at(transfer.bytes), offset)
                          : ::pread(transfer.file, transfer.memory, at(transfer.bytes), offset);
    transfer.failure = {.failed = n != transfer.bytes,
                        .error = refuses ? EIO : 0,
                        .offset = transfer.offset,
                        .wanted = transfer.bytes};
  }

  std::mutex mutex_;
  std::map<zero::Transfer*, Index> pending_;
  std::atomic<Index> writes_ = 0;
};

/// Of several tiles of 1024 elements a rank.
struct Model {
  using Batch = int;

  zero::Units units() const {
    return {{"a", {{"a.w", {300}, zero::Initial::normal(0.5)}}},
            {"b", {{"b.w", {7001}, zero::Initial::normal(0.5)}}}};
  }
  template <class Pass>
  double operator()(Pass& pass, Batch const& batch) {
    for (int u = 0; u < 2; ++u) auto const weights = pass.forward(u);
    if constexpr (Pass::trains) {
      for (int u = 2; u-- > 0;) {
        auto const [w, g] = pass.backward(u);
        auto const to = g[0].span();
        for (std::size_t i = 0; i < to.size(); ++i)
          to[i] = typename Pass::Gradient(0.01f * static_cast<float>(batch + 1));
      }
    }
    return 0;
  }
};

}  // namespace

TEST_CASE("where values cannot go back to their file, the error says that and what the load met") {
  MemoryFiles files;
  Folder const folder;
  struct Rank {
    std::string error;  // of the load
    std::string next;   // of the step after it
    bool of_file = false;
    Index writes = 0;  // begun in the load
  };
  auto const load = [&](Index refused) {
    std::array<Rank, 2> ranks;
    zero::launch<zero::Threads>(2, [&](auto communicator) {
      auto const disk = std::make_shared<LateDisk>();
      zero::Options options;
      options.offload.nvme_path = folder.path();
      options.offload.tile_elements = 1024;
      options.offload.transfers = disk;
      zero::Trainer trainer(Model{}, communicator, zero::AdamW{.lr = 1e-2f}, options,
                            zero::Sharded<1, zero::Offload<zero::OnNvme>>{}, zero::Fp32{});
      Rank& mine = ranks[at(communicator.rank())];
      trainer.step(1);
      if (files.size("run/latest") < 0) {
        zero::save(trainer, "run", {.block_bytes = 4096, .files = &files});
        return;
      }
      trainer.synchronize();
      Index const before = disk->writes();
      if (communicator.rank() == 1 && refused >= 0) disk->refused = before + refused;
      try {
        zero::load(trainer, "run", {.staging_bytes = staging, .files = &files});
      } catch (zero::StorageError const& e) {
        mine.error = e.what();
        mine.of_file = true;
      } catch (zero::Error const& e) {
        mine.error = e.what();
      }
      mine.writes = disk->writes() - before;
      mine.next = error_of([&] {
        trainer.step(2);
        trainer.synchronize();
      });
    });
    return ranks;
  };
  load(-1);  // there is no checkpoint yet
  std::string const damaged = "run/step-00000001/rank-1-of-2.safetensors";
  files.data(damaged).back() ^= std::byte{1};

  auto const goes_back = load(-1);
  for (Rank const& rank : goes_back) {
    CHECK(has(rank.error, "'" + damaged + "' is damaged"));
    CHECK(!rank.of_file);
    CHECK(rank.next.empty());
  }
  // Each of three numbers of 150 and 3501 elements a rank goes back by a tile or more; the last
  // write of all is begun, and not over, when the last value is put back.
  for (Index const from_last : {1, 2, 8}) {
    CAPTURE(from_last);
    auto const fails = load(goes_back[1].writes - from_last);
    CHECK(fails[1].of_file);
    CHECK(has(fails[1].error, "'" + damaged + "' is damaged"));
    CHECK(has(fails[1].error,
              "; and the values that the trainer had could not be put back: '" + folder.path()));
    CHECK(!fails[1].next.empty());
    CHECK(has(fails[0].error, "'" + damaged + "' is damaged"));  // its own values are back
    CHECK(has(fails[0].next, "rank 1 failed: "));
    CHECK(has(fails[0].next, "could not be put back"));
  }
}
