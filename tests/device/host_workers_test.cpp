// SPDX-License-Identifier: Apache-2.0
#include <zero/device/host.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <initializer_list>
#include <stdexcept>
#include <vector>

using zero::at;
using zero::Index;

TEST_CASE("parts cover everything once, and begin at multiples of 1024") {
  for (int threads : {1, 2, 3, 5}) {
    zero::HostWorkers workers(threads);
    for (Index n : {Index{0}, Index{1}, Index{64}, Index{65536}, Index{65600}, Index{1000000}}) {
      std::vector<char> seen(at(n), 0);
      std::atomic<bool> aligned = true;
      workers.run(n, [&](Index begin, Index end) {
        if (begin % 1024 != 0) aligned = false;
        for (Index i = begin; i < end; ++i) ++seen[at(i)];
      });
      CHECK(aligned);
      CHECK(seen == std::vector<char>(at(n), 1));
    }
  }
}

TEST_CASE("what a part throws is thrown to the caller, and the workers go on") {
  zero::HostWorkers workers(3);
  for (Index where : {Index{0}, Index{99'999}}) {
    auto const failing = [where](Index begin, Index end) {
      if (begin <= where && where < end) throw std::runtime_error("here");
    };
    CHECK_THROWS_WITH(workers.run(100'000, failing), "here");
    std::atomic<Index> sum = 0;
    workers.run(100'000, [&](Index begin, Index end) { sum += end - begin; });
    CHECK(sum == 100'000);
  }
}

TEST_CASE("no threads are refused, and a host has none of its own unless it is told") {
  CHECK_THROWS_AS(zero::HostWorkers(0), zero::InvalidArgument);
  CHECK_THROWS_AS(zero::Host(-1), zero::InvalidArgument);
  CHECK(zero::Host().stream().workers() == nullptr);
  CHECK(zero::Host(2).stream().workers()->threads() == 2);
}
