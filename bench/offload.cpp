// SPDX-License-Identifier: Apache-2.0
// State below the device: files against plain threads that read and write one unbuffered file, and
// a step whose optimizer state lies in files against the reading and writing alone. Files are made
// in TMPDIR, or where its default is: name a disk there.
#include <zero/zero.hpp>

#include <bench/harness.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using bench::Index;
using zero::at;

constexpr Index block = Index{1} << 20;

std::string folder() { return std::filesystem::temp_directory_path().string(); }

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

/// A file without a name, unbuffered where its filesystem can.
struct PlainFile {
  explicit PlainFile(Index bytes) {
    std::string const path = folder() + "/zero_bench_" + std::to_string(::getpid());
    file = ::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (file < 0) file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    ::unlink(path.c_str());
    if (file < 0 || ::posix_fallocate(file, 0, static_cast<off_t>(bytes)) != 0)
      throw std::runtime_error("no file in " + folder());
  }
  PlainFile(PlainFile const&) = delete;
  PlainFile& operator=(PlainFile const&) = delete;
  ~PlainFile() { ::close(file); }
  int file;
};

/// The ceiling: threads that read or write every so many-th block.
void plain(PlainFile const& file, Pages const& memory, int threads, bool writes) {
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      for (Index i = t * block; i < memory.bytes; i += threads * block) {
        ssize_t const n = writes ? ::pwrite(file.file, memory.at_byte(i), at(block), i)
                                 : ::pread(file.file, memory.at_byte(i), at(block), i);
        if (n != block) std::abort();
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

/// Units of one tensor each, visited and left alone.
struct Units {
  using Batch = int;
  int count;
  Index elements;

  zero::Units units() const {
    zero::Units all;
    for (int u = 0; u < count; ++u) {
      std::string const name = "u" + std::to_string(u);
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

template <class Sharding>
void step(bench::Measure measure, Index elements, Index tile, int threads) {
  zero::Host device;
  zero::SingleRank<zero::Host> communicator(device);
  zero::Options options;
  options.offload.nvme_path = folder();
  options.offload.tile_elements = tile;
  options.offload.io_threads = threads;
  zero::Trainer trainer{Units{8, elements / 8}, communicator, zero::AdamW{}, options, Sharding{},
                        zero::Bf16Mixed{}};
  measure([&] {
    trainer.step(1);
    trainer.synchronize();
  });
  if constexpr (Sharding::optimizer_tier != zero::Tier::device) {
    measure.fact("host_bytes", trainer.plan().tiers.host_bytes());
    measure.fact("nvme_bytes", trainer.plan().tiers.nvme_bytes());
  }
  measure.fact("device_bytes", trainer.plan().total_bytes());
}

}  // namespace

int main(int argc, char** argv) {
  bench::Harness harness(argc, argv, "offload",
                         "files and steps of offloaded state against the disk's own speed");
  Index const mib = harness.number("mib", 256, "of the file");
  int const threads = static_cast<int>(harness.number("threads", 4, "requests under way at once"));
  Index const tile = harness.number("tile", Index{1} << 20, "elements of a tile");
  Index const bytes = mib << 20;
  Index const elements = bytes / 12 / 8 / 64 * 64 * 8;

  for (bool writes : {true, false}) {
    std::string const name = writes ? "write" : "read";
    harness.add({.name = name + ", plain threads"}, [=](bench::Measure measure) {
      PlainFile const file(bytes);
      Pages const memory(bytes);
      plain(file, memory, threads, true);
      measure([&] { plain(file, memory, threads, writes); });
      measure.fact("bytes", bytes);
    });
    harness.add({.name = name, .against = name + ", plain threads", .at_most = 1 / 0.9},
                [=](bench::Measure measure) {
                  zero::Ledger ledger("files");
                  zero::StorageFile const file(folder(), "bench", 0, bytes, ledger);
                  Pages const memory(bytes);
                  zero::ThreadTransfers transfers(threads, block);
                  zero::Transfer transfer{.file = file.descriptor(),
                                          .writes = true,
                                          .memory = memory.at_byte(0),
                                          .bytes = bytes};
                  auto const run = [&] {
                    transfers.start(transfer);
                    transfers.wait(transfer);
                    file.check(transfer);
                  };
                  run();
                  transfer.writes = writes;
                  measure(run);
                  measure.fact("bytes", bytes);
                  measure.fact("direct", Index{file.direct()});
                });
  }
  harness.add({.name = "a step's I/O, plain threads"}, [=](bench::Measure measure) {
    PlainFile const file(bytes);
    Pages const in(bytes);
    Pages const out(bytes);
    plain(file, out, threads, true);
    measure([&] {
      std::thread reads([&] { plain(file, in, (threads + 1) / 2, false); });
      plain(file, out, (threads + 1) / 2, true);
      reads.join();
    });
    measure.fact("bytes", 2 * bytes);
  });
  harness.add({.name = "step, OnNvme", .against = "a step's I/O, plain threads", .at_most = 1.15},
              [=](bench::Measure measure) {
                step<zero::Sharded<1, zero::Offload<zero::OnNvme>>>(measure, elements, tile,
                                                                    threads);
              });
  harness.add({.name = "step, OnDevice"}, [=](bench::Measure measure) {
    step<zero::Sharded<1>>(measure, elements, tile, threads);
  });
  harness.add({.name = "step, OnHost", .against = "step, OnDevice"}, [=](bench::Measure measure) {
    step<zero::Sharded<1, zero::Offload<zero::OnHost>>>(measure, elements, tile, threads);
  });
  return harness.run();
}
