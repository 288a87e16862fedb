// SPDX-License-Identifier: Apache-2.0
// Threads that cannot make transfers are refused when they are made.
#include <zero/tier/thread_transfers.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

std::string said_by(int threads, zero::Index block_bytes) {
  try {
    zero::ThreadTransfers const transfers(threads, block_bytes);
  } catch (zero::InvalidArgument const& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("no threads, more than 4096, and requests that are no multiple of 4096 are refused") {
  for (int threads : {0, -1, 4097})
    CHECK(said_by(threads, 4096) ==
          "ThreadTransfers: threads: found " + std::to_string(threads) + "; expected 1 to 4096");
  for (zero::Index bytes : {0, -4096, 100, 4097})
    CHECK(said_by(1, bytes) == "ThreadTransfers: block_bytes: found " + std::to_string(bytes) +
                                   "; expected a multiple of 4096 bytes");
  CHECK(said_by(1, 4096).empty());
}
