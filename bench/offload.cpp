// SPDX-License-Identifier: Apache-2.0
// State below the device: transfers against plain threads that read or write the same unbuffered
// file, and a step whose optimizer state lies in a file against plain threads that read and write
// all of that very file. Files of one size differ in speed, by where a disk has put them, so what
// is compared shares one. They are made in TMPDIR, or where its default is: name a disk there.
#include <zero/zero.hpp>
#if BENCH_URING
#include <zero/tier/uring.hpp>
#endif

#include <bench/harness.hpp>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using bench::Index;
using zero::at;

constexpr Index block = Index{1} << 20;

std::string folder() { return std::filesystem::temp_directory_path().string(); }

/// Something that several variants use in turn, made by the first.
template <class T>
class Shared {
 public:
  template <class... A>
  T& get(A const&... arguments) {
    std::lock_guard const lock(mutex_);
    if (made_ == nullptr) made_ = std::make_unique<T>(arguments...);
    return *made_;
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<T> made_;
};

/// Pages of memory that are there.
struct Pages {
  explicit Pages(Index size) : bytes(size), address(std::aligned_alloc(4096, at(size))) {
    if (address == nullptr) throw std::bad_alloc();
    std::memset(address, 1, at(size));
  }
  Pages(Pages const&) = delete;
  Pages& operator=(Pages const&) = delete;
  ~Pages() { std::free(address); }
  std::byte* at_byte(Index i) const { return static_cast<std::byte*>(address) + i; }

  Index bytes;
  void* address;
};

enum class Way { read, write, read_and_write };

/// The ceiling: threads that take a file block by block; who does both writes what he has read.
void plain(int file, Pages const& memory, int threads, Way way) {
  std::vector<std::thread> all;
  std::atomic<Index> next{0};
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (Index i = next++ * block; i < memory.bytes; i = next++ * block) {
        Index const n = std::min(block, memory.bytes - i);
        if (way != Way::write && ::pread(file, memory.at_byte(i), at(n), i) != n) std::abort();
        if (way != Way::read && ::pwrite(file, memory.at_byte(i), at(n), i) != n) std::abort();
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

/// A file and memory of its size; its blocks have been written once, which is slower than again.
struct FileAndMemory {
  explicit FileAndMemory(Index bytes) : file(folder(), "bench", 0, bytes, ledger), memory(bytes) {
    plain(file.descriptor(), memory, 4, Way::write);
  }
  zero::Ledger ledger{"files"};
  zero::StorageFile file;
  Pages memory;
};

/// What makes transfers, and its name in variants.
struct Maker {
  std::string name;
  std::shared_ptr<zero::Transfers> (*make)(int requests);
};
std::vector<Maker> makers() {
  std::vector<Maker> all{{"threads", [](int requests) -> std::shared_ptr<zero::Transfers> {
                            return std::make_shared<zero::ThreadTransfers>(requests, block);
                          }}};
#if BENCH_URING
  std::string const refusal = zero::UringTransfers::refusal();
  if (refusal.empty()) {
    all.push_back({"io_uring", [](int requests) -> std::shared_ptr<zero::Transfers> {
                     return std::make_shared<zero::UringTransfers>(requests, block);
                   }});
  } else {
    std::fprintf(stderr, "%s\n", refusal.c_str());
  }
#endif
  return all;
}

/// Units of one tensor each, visited and left alone.
struct Units {
  using Batch = int;
  int count;
  Index elements;

  zero::Units units() const {
    zero::Units all;
    for (int u = 0; u < count; ++u) {
      std::string const name = std::string("u") + std::to_string(u);  // g++ 12 warns of "u" + ...
      all.push_back({name, {{.name = name + ".w", .shape = {elements}}}});
    }
    return all;
  }
  template <class Pass>
  void operator()(Pass& pass, Batch const&) const {
    for (int u = 0; u < count; ++u) pass.forward(u).end();
    if constexpr (Pass::trains) {
      for (int u = count; u-- > 0;) auto const lease = pass.backward(u);
    }
  }
};

/// Transfers that remember which file they are of.
class Watched final : public zero::Transfers {
 public:
  explicit Watched(std::shared_ptr<zero::Transfers> made) : made_(std::move(made)) {}
  void start(zero::Transfer& transfer) override {
    file_ = transfer.file;
    made_->start(transfer);
  }
  void wait(zero::Transfer& transfer) noexcept override { made_->wait(transfer); }
  char const* name() const noexcept override { return made_->name(); }
  int file() const { return file_; }

 private:
  std::shared_ptr<zero::Transfers> made_;
  std::atomic<int> file_{-1};
};

/// Sizes of a training.
struct Size {
  Index elements;
  Index tile;
  int buffers;
};

zero::Options options_of(Size size, std::shared_ptr<zero::Transfers> transfers) {
  zero::Options options;
  options.offload.nvme_path = folder();
  options.offload.tile_elements = size.tile;
  options.offload.buffer_count = size.buffers;
  options.offload.transfers = std::move(transfers);
  return options;
}

/// A training on one rank, with weights of 16 bits: 12 bytes an element of weight and states.
template <class Sharding>
struct Training {
  explicit Training(Size size, std::shared_ptr<zero::Transfers> made = nullptr)
      : transfers(made == nullptr ? nullptr : std::make_shared<Watched>(std::move(made))),
        options(options_of(size, transfers)),
        trainer(Units{8, size.elements / 8}, communicator, zero::AdamW{}, options, Sharding{},
                zero::Bf16Mixed{}) {}
  void step() {
    trainer.step(1);
    trainer.synchronize();
  }

  zero::Host device;
  zero::SingleRank<zero::Host> communicator{device};
  std::shared_ptr<Watched> transfers;
  zero::Options options;
  zero::Trainer<Units, zero::SingleRank<zero::Host>, zero::AdamW,
                zero::Policies<Sharding, zero::Bf16Mixed>>
      trainer;
};
using InFiles = Training<zero::Sharded<1, zero::Offload<zero::OnNvme>>>;

template <class Sharding>
void add_step(bench::Harness& harness, bench::Variant variant, Size size) {
  harness.add(std::move(variant), [=](bench::Measure measure) {
    Training<Sharding> training(size);
    measure([&] { training.step(); });
    measure.fact("device_bytes", training.trainer.plan().total_bytes());
  });
}

}  // namespace

int main(int argc, char** argv) {
  bench::Harness harness(argc, argv, "offload",
                         "files and steps of offloaded state against the disk's own speed");
  Index const mib = harness.number("mib", 256, "of the file");
  int const requests =
      static_cast<int>(harness.number("requests", 4, "of a mebibyte, under way at once"));
  Size const size{
      (mib << 20) / 12 / 8 / 64 * 64 * 8,
      harness.number("tile", Index{1} << 20, "elements of a tile"),
      static_cast<int>(harness.number("buffers", 4, "tiles of the ring", 3)),
  };
  Index const bytes = mib << 20;

  auto const shared = std::make_shared<Shared<FileAndMemory>>();
  for (Way way : {Way::write, Way::read}) {
    std::string const name = way == Way::write ? "write" : "read";
    harness.add({.name = name + ", plain threads"}, [=](bench::Measure measure) {
      FileAndMemory& both = shared->get(bytes);
      measure([&] { plain(both.file.descriptor(), both.memory, requests, way); });
      measure.fact("bytes", bytes);
      measure.fact("direct", Index{both.file.direct()});
    });
    for (Maker const& maker : makers()) {
      harness.add({.name = name + ", " + maker.name,
                   .against = name + ", plain threads",
                   .at_most = 1 / 0.9},
                  [=](bench::Measure measure) {
                    FileAndMemory& both = shared->get(bytes);
                    auto const transfers = maker.make(requests);
                    zero::Transfer transfer{.file = both.file.descriptor(),
                                            .writes = way == Way::write,
                                            .memory = both.memory.at_byte(0),
                                            .bytes = bytes};
                    measure([&] {
                      transfers->start(transfer);
                      transfers->wait(transfer);
                      both.file.check(transfer);
                    });
                  });
    }
  }

  for (Maker const& maker : makers()) {
    auto const training = std::make_shared<Shared<InFiles>>();
    std::string const ceiling = "a step's I/O, " + maker.name + "' file";
    harness.add({.name = ceiling}, [=](bench::Measure measure) {
      InFiles& of = training->get(size, maker.make(requests));
      of.step();
      Pages const memory(of.trainer.plan().tiers.nvme_bytes());
      measure([&] { plain(of.transfers->file(), memory, requests, Way::read_and_write); });
      measure.fact("bytes", 2 * memory.bytes);
    });
    harness.add({.name = "step, OnNvme, " + maker.name, .against = ceiling, .at_most = 1.15},
                [=](bench::Measure measure) {
                  InFiles& of = training->get(size, maker.make(requests));
                  measure([&] { of.step(); });
                  measure.fact("host_bytes", of.trainer.plan().tiers.host_bytes());
                  measure.fact("nvme_bytes", of.trainer.plan().tiers.nvme_bytes());
                });
  }
  add_step<zero::Sharded<1>>(harness, {.name = "step, OnDevice"}, size);
  add_step<zero::Sharded<1, zero::Offload<zero::OnHost>>>(
      harness, {.name = "step, OnHost", .against = "step, OnDevice"}, size);
  return harness.run();
}
