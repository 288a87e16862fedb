// SPDX-License-Identifier: Apache-2.0
// Transfers by themselves. This file is part of two programs, whose transfers threads and io_uring
// make; the bytes of a file are written and read back here by the C++ library.
#include <zero/core/error.hpp>
#include <zero/core/ledger.hpp>
#include <zero/tier/storage_file.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <tier/io_faults.hpp>
#include <tier/run.hpp>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace tier_test;
using zero::Transfer;

struct Undisturbed {
  Undisturbed() { io_faults.clear(); }
  ~Undisturbed() { io_faults.clear(); }
};

/// A file of some bytes, which has its name as long as this lives.
struct NamedFile {
  explicit NamedFile(std::string const& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(file >= 0);
  }
  NamedFile(NamedFile const&) = delete;
  NamedFile& operator=(NamedFile const&) = delete;
  ~NamedFile() {
    ::close(file);
    ::unlink(path.c_str());
  }
  std::string bytes() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string path = folder() + "/transfers";
  int file = -1;
};

std::string pattern(Index size, int seed) {
  std::string bytes;
  for (Index i = 0; i < size; ++i) bytes += static_cast<char>(i * 7 + i / 251 + seed);
  return bytes;
}

Transfer transfer_of(int file, bool writes, std::string& memory, Index begin, Index count,
                     Index offset) {
  return {.file = file,
          .writes = writes,
          .memory = reinterpret_cast<std::byte*>(memory.data()) + begin,
          .bytes = count,
          .offset = offset};
}

double seconds_of(auto const& f) {
  auto const begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("a transfer moves all of its bytes and no other, at any size of request") {
  Undisturbed const after;
  for (Index block : {4096, 65536, 1 << 20}) {
    for (Index size : {1, 511, 4096, 65537, 300000}) {
      CAPTURE(block);
      CAPTURE(size);
      auto const transfers = make_transfers(3, block);
      NamedFile const file(std::string(at(size) + 200, '.'));
      std::string memory = pattern(size, 1);
      Transfer transfer = transfer_of(file.file, true, memory, 0, size, 100);
      transfers->start(transfer);
      transfers->wait(transfer);
      CHECK(!transfer.failure.failed);
      CHECK(file.bytes() == std::string(100, '.') + pattern(size, 1) + std::string(100, '.'));
      std::string back(at(size) + 2, '-');
      transfer = transfer_of(file.file, false, back, 1, size, 100);
      transfers->start(transfer);
      transfers->wait(transfer);
      CHECK(!transfer.failure.failed);
      CHECK(back == '-' + pattern(size, 1) + '-');
    }
  }
}

TEST_CASE("what was never started, and what has no bytes, is done") {
  Undisturbed const after;
  auto const transfers = make_transfers(1, 4096);
  Transfer nothing;
  transfers->wait(nothing);
  transfers->start(nothing);
  transfers->wait(nothing);
  CHECK(!nothing.failure.failed);
}

TEST_CASE("several threads have many transfers under way, each with its own bytes") {
  Undisturbed const after;
  constexpr Index size = 20000;
  constexpr int each = 40;
  auto const transfers = make_transfers(8, 4096);
  NamedFile const file(std::string(4 * each * size, '.'));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::string memory = pattern(each * size, t);
      std::vector<Transfer> all(each);
      for (int i = 0; i < each; ++i) {
        Transfer& transfer = all[at(i)];
        transfer = transfer_of(file.file, true, memory, i * size, size, (t * each + i) * size);
        transfers->start(transfer);
      }
      for (Transfer& transfer : all) transfers->wait(transfer);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string expected;
  for (int t = 0; t < 4; ++t) expected += pattern(each * size, t);
  CHECK(file.bytes() == expected);
}

TEST_CASE("a call that stops early, is interrupted, or for which there is no room is made again") {
  Undisturbed const after;
  constexpr Index size = 100000;
  for (int refusal : {0, EINTR, EAGAIN}) {
    io_faults.clear();
    io_faults.piece = 4096;
    io_faults.refusal = refusal;
    io_faults.interrupts = refusal == 0 ? 0 : 2;
    CAPTURE(refusal);
    auto const transfers = make_transfers(2, 65536);
    NamedFile const file(std::string(size, '.'));
    std::string memory = pattern(size, 2);
    Transfer transfer = transfer_of(file.file, true, memory, 0, size, 0);
    transfers->start(transfer);
    transfers->wait(transfer);
    CHECK(!transfer.failure.failed);
    CHECK(file.bytes() == pattern(size, 2));
    CHECK(io_faults.writes >= size / 4096);
  }
}

TEST_CASE("what goes wrong is told by reason and place, and what has not come is not made up") {
  Undisturbed const after;
  auto const failed = [](Index size, Index offset, bool writes) {
    NamedFile const file(std::string(10000, '.'));
    auto const transfers = make_transfers(1, 4096);
    std::string memory(at(size), '-');
    Transfer transfer = transfer_of(file.file, writes, memory, 0, size, offset);
    transfers->start(transfer);
    transfers->wait(transfer);
    CHECK(transfer.failure.failed);
    return transfer.failure;
  };
  // The file ends 10000 - 8192 bytes into the third request.
  Transfer::Failure found = failed(12288, 0, false);
  CHECK(found.error == 0);
  CHECK(found.wanted == 4096);
  CHECK(found.transferred == 10000 - 8192);
  CHECK(found.offset == 10000);
  for (int error : {EIO, ENOSPC, EDQUOT}) {
    io_faults.clear();
    io_faults.bad_write = 1;
    io_faults.error = error;
    found = failed(12288, 512, true);
    CHECK(found.error == error);
    CHECK(found.offset == 512 + 4096);
    CHECK(found.transferred == 0);
  }
  // A disk that takes nothing, and one that takes less than a sector at a time, is full.
  io_faults.clear();
  io_faults.bad_write = 2;
  CHECK(failed(12288, 0, true).error == ENOSPC);
  io_faults.clear();
  io_faults.piece = 100;
  found = failed(4096, 0, true);
  CHECK(found.error == ENOSPC);
  CHECK(found.transferred == 100);
}

TEST_CASE("no room for a call for two seconds is what went wrong") {
  Undisturbed const after;
  io_faults.interrupts = 1;
  io_faults.refusal = EAGAIN;
  NamedFile const file(std::string(4096, '.'));
  auto const transfers = make_transfers(1, 4096);
  std::string memory(4096, '-');
  Transfer transfer = transfer_of(file.file, true, memory, 0, 4096, 0);
  double const seconds = seconds_of([&] {
    transfers->start(transfer);
    transfers->wait(transfer);
  });
  CHECK(transfer.failure.failed);
  CHECK(transfer.failure.error == EAGAIN);
  CHECK(seconds >= 1.9);  // 2,000 pauses of a millisecond
  CHECK(file.bytes() == std::string(4096, '.'));
}

TEST_CASE("what is to come after another begins when that is done, and not where that fails") {
  Undisturbed const after;
  constexpr Index size = 50000;
  for (bool fails : {false, true}) {
    io_faults.clear();
    if (fails) {
      io_faults.bad_write = 3;
      io_faults.error = EIO;
    }
    io_faults.late = 0;
    io_faults.late_ms = 50;
    auto const transfers = make_transfers(8, 4096);
    NamedFile const file(std::string(size, '.'));
    std::string memory = pattern(size, 3);
    std::string back(size, '-');
    Transfer first = transfer_of(file.file, true, memory, 0, size, 0);
    Transfer second = transfer_of(file.file, false, back, 0, size, 0);
    second.after = &first;
    transfers->start(first);
    transfers->start(second);
    transfers->wait(second);
    CHECK(first.left == 0);
    CHECK(first.failure.failed == fails);
    CHECK(second.failure.error == (fails ? ECANCELED : 0));
    CHECK(back == (fails ? std::string(size, '-') : pattern(size, 3)));
    // After what is done already.
    transfers->start(second);
    transfers->wait(second);
    CHECK(second.failure.failed == fails);
  }
}

TEST_CASE("what ends cancels what has not begun, which is a failure") {
  Undisturbed const after;
  constexpr Index size = 64 * 4096;
  zero::Ledger ledger("files");
  zero::StorageFile const file(folder(), "cancelled", 0, 8 * size, ledger);
  void* const memory = std::aligned_alloc(4096, at(size));
  std::vector<Transfer> all(8);
  io_faults.late = 0;
  io_faults.late_ms = 300;  // of the first call, during which all end
  {
    auto const transfers = make_transfers(1, 4096);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = {.file = file.descriptor(),
                .writes = true,
                .memory = static_cast<std::byte*>(memory),
                .bytes = size,
                .offset = static_cast<Index>(i) * size};
      transfers->start(all[i]);
    }
    while (io_faults.writes == 0) std::this_thread::yield();
  }
  CHECK(io_faults.writes == 1);
  for (Transfer const& transfer : all) {
    CHECK(transfer.left == 0);
    CHECK(transfer.failure.error == ECANCELED);
    std::string said;
    try {
      file.check(transfer);
    } catch (zero::StorageError const& e) {
      said = e.what();
    }
    CHECK_MESSAGE(said.find("Operation canceled (errno 125)") != std::string::npos, said);
  }
  std::free(memory);
}
