// SPDX-License-Identifier: Apache-2.0
// What becomes of a program whose kernel gives no io_uring, as in many containers.
#include <zero/tier/uring.hpp>

#include <doctest/doctest.h>
#include <tier/io_faults.hpp>
#include <tier/run.hpp>
#include <unistd.h>
#include <uring/refused_kernel.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace {

using namespace tier_test;

struct Refused {
  explicit Refused(int error) { kernel_refusal = error; }
  ~Refused() {
    kernel_refusal = submission_refusal = 0;
    largest_ring = ~0u;
  }
};

std::string said_by(int requests) {
  try {
    zero::UringTransfers const transfers(requests, 4096);
  } catch (zero::Error const& e) {
    return e.what();
  }
  return {};
}

Setup in_files() {
  Setup setup{.place = {3, Tier::nvme, Tier::nvme}, .world = 2};
  setup.options.offload.tile_elements = 128;
  return setup;
}

}  // namespace

TEST_CASE("a kernel that refuses io_uring is an error with its reason, for who demands a ring") {
  for (int error : {EPERM, ENOSYS, ENOMEM}) {
    Refused const refused(error);
    std::string const expected = std::string("UringTransfers: the kernel refuses io_uring: ") +
                                 std::strerror(error) + " (errno " + std::to_string(error) +
                                 "); containers and the sysctl kernel.io_uring_disabled do so. "
                                 "Leave OffloadOptions::transfers empty for threads";
    CHECK(said_by(4) == expected);
    CHECK(zero::UringTransfers::refusal() == expected);
  }
}

TEST_CASE("who takes either gets threads of a kernel that refuses io_uring, and the same bits") {
  io_faults.clear();
  Outcome const by_ring = train_mixed(in_files());
  Refused const refused(EPERM);
  CHECK(zero::uring_or_threads({})->name() == std::string("threads"));
  Outcome const by_threads = train_mixed(in_files());
  CHECK(difference(by_threads, by_ring) == "");
  CHECK(fault(by_threads) == "");
}

TEST_CASE("requests under way at once are from 1 to 4096") {
  for (int requests : {0, -1, 4097})
    CHECK(said_by(requests) ==
          "UringTransfers: requests: found " + std::to_string(requests) + "; expected 1 to 4096");
}

TEST_CASE("where the kernel gives a ring, it is what is taken") {
  std::string const refusal = zero::UringTransfers::refusal();
  if (!refusal.empty()) {
    MESSAGE("this kernel gives none, so this program's other tests are of threads: " << refusal);
    return;
  }
  CHECK(zero::uring_or_threads({})->name() == std::string("io_uring"));
}

TEST_CASE("a kernel that gives small rings and refuses the one that is wanted gives threads") {
  Refused const refused(0);
  largest_ring = 8;
  CHECK(zero::uring_or_threads({.io_threads = 8})->name() == std::string("threads"));
}

TEST_CASE(
    "a ring that the kernel no longer takes fails what it has not, and waits for what it has") {
  io_faults.clear();
  if (!zero::UringTransfers::refusal().empty()) return;  // said above
  for (int error : {EIO, EAGAIN, EBUSY}) {
    CAPTURE(error);
    Refused const refused(0);
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    std::string empty(4096, '-');
    std::string never(4096, '-');
    auto const from_pipe = [&](std::string& to) {
      return zero::Transfer{
          .file = pipe[0], .memory = reinterpret_cast<std::byte*>(to.data()), .bytes = 4096};
    };
    zero::Transfer taken = from_pipe(empty);
    zero::Transfer refused_one = from_pipe(never);
    std::thread writer;
    {
      long const before = handed_over;
      zero::UringTransfers transfers(4, 4096);
      transfers.start(taken);  // a pipe without bytes: the kernel has it until there are some
      // It, what wakes the ring's thread, and that once more, as it has woken it.
      while (handed_over < before + 3) std::this_thread::yield();
      submission_refusal = error;
      auto const begin = std::chrono::steady_clock::now();
      transfers.start(refused_one);
      transfers.wait(refused_one);
      std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
      CHECK(refused_one.failure.error == error);
      CHECK((seconds.count() >= 1.9) == (error != EIO));  // 2,000 pauses of a millisecond
      writer = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::string const bytes(4096, 'x');
        CHECK(::write(pipe[1], bytes.data(), bytes.size()) == 4096);
      });
      transfers.wait(taken);
      CHECK(!taken.failure.failed);
      CHECK(empty == std::string(4096, 'x'));
      CHECK(never == std::string(4096, '-'));
      // It takes nothing more, which is a failure and no wait.
      transfers.start(refused_one);
      transfers.wait(refused_one);
      CHECK(refused_one.failure.error == ECANCELED);
    }
    writer.join();
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
}

TEST_CASE("a request's bytes are a multiple of 4096") {
  for (Index bytes : {0, -4096, 100, 4097}) {
    std::string said;
    try {
      zero::UringTransfers const transfers(4, bytes);
    } catch (zero::InvalidArgument const& e) {
      said = e.what();
    }
    CHECK(said == "UringTransfers: block_bytes: found " + std::to_string(bytes) +
                      "; expected a multiple of 4096 bytes");
  }
}
