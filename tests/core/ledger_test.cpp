// SPDX-License-Identifier: Apache-2.0
#include <zero/core/ledger.hpp>

#include <doctest/doctest.h>

#include <thread>

namespace {

using zero::Index;
using zero::Ledger;

TEST_CASE("a ledger knows what is in use and the most that was, in all and by kind") {
  Ledger ledger;
  CHECK(ledger.bytes() == 0);
  ledger.take("parameters", 100);
  ledger.take("slots", 50);
  ledger.take("parameters", 10);
  ledger.give("parameters", 100);
  ledger.take("slots", 20);
  CHECK(ledger.bytes() == 80);
  CHECK(ledger.peak_bytes() == 160);
  CHECK(ledger.allocations() == 4);

  auto const kinds = ledger.kinds();
  REQUIRE(kinds.size() == 2);
  CHECK(kinds[0].name == "parameters");  // in order of first use
  CHECK(kinds[0].bytes == 10);
  CHECK(kinds[0].peak_bytes == 110);
  CHECK(kinds[1].name == "slots");
  CHECK(kinds[1].bytes == 70);
  CHECK(kinds[1].peak_bytes == 70);

  ledger.give("slots", 70);
  ledger.give("parameters", 10);
  CHECK(ledger.bytes() == 0);
  CHECK(ledger.kinds()[0].bytes == 0);
  CHECK(ledger.peak_bytes() == 160);
}

TEST_CASE("a limit is met exactly and never exceeded, and what it refuses leaves no trace") {
  Ledger ledger;
  ledger.limit_bytes(100);
  CHECK(ledger.limit_bytes() == 100);
  ledger.take("a", 60);
  CHECK_THROWS_WITH_AS(ledger.take("b", 41),
                       "device memory: 41 bytes for b exceed the limit of 100 bytes; 60 are in use",
                       zero::OutOfMemory);
  CHECK(ledger.bytes() == 60);
  CHECK(ledger.peak_bytes() == 60);
  CHECK(ledger.allocations() == 1);
  CHECK(ledger.kinds().size() == 1);
  ledger.take("b", 40);
  CHECK(ledger.bytes() == 100);
  ledger.give("a", 60);
  ledger.take("c", 60);
  CHECK(ledger.peak_bytes() == 100);
}

TEST_CASE("a limit of 0 is none") {
  Ledger ledger;
  ledger.take("a", Index{1} << 60);
  CHECK(ledger.bytes() == Index{1} << 60);
}

TEST_CASE("threads may share a ledger") {
  Ledger ledger;
  auto const work = [&](char const* kind) {
    for (int i = 0; i < 2000; ++i) {
      ledger.take(kind, 3);
      static_cast<void>(ledger.kinds());
      ledger.give(kind, 3);
      ledger.take(kind, 1);
    }
  };
  std::thread first(work, "first");
  std::thread second(work, "second");
  first.join();
  second.join();
  CHECK(ledger.bytes() == 4000);
  CHECK(ledger.allocations() == 8000);
  CHECK(ledger.peak_bytes() >= 4000);
  CHECK(ledger.peak_bytes() <= 4004);
}

}  // namespace
