// SPDX-License-Identifier: Apache-2.0
// What becomes of a program whose kernel gives no io_uring, as in many containers.
#include <zero/tier/uring.hpp>

#include <doctest/doctest.h>
#include <tier/io_faults.hpp>
#include <tier/run.hpp>
#include <uring/refused_kernel.hpp>

#include <cerrno>
#include <cstring>

namespace {

using namespace tier_test;

struct Refused {
  explicit Refused(int error) { kernel_refusal = error; }
  ~Refused() { kernel_refusal = 0; }
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
