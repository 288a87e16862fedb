// SPDX-License-Identifier: Apache-2.0
#include <zero/model/initial.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <thread>
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

TEST_CASE("several threads that share workers each have all of their own work done") {
  zero::HostWorkers workers(3);
  constexpr Index n = 70'000;
  constexpr int callers = 3, rounds = 200;
  std::vector<std::vector<int>> seen(callers, std::vector<int>(at(n), 0));
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      int* const mine = seen[at(caller)].data();
      for (int round = 0; round < rounds; ++round)
        workers.run(n, [=](Index begin, Index end) {
          for (Index i = begin; i < end; ++i) ++mine[i];
        });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto const& counts : seen) CHECK(counts == std::vector<int>(at(n), rounds));
}

TEST_CASE("no threads are refused, and a host has none of its own unless it is told") {
  CHECK_THROWS_AS(zero::HostWorkers(0), zero::InvalidArgument);
  CHECK_THROWS_AS(zero::Host(-1), zero::InvalidArgument);
  CHECK(zero::Host().stream().workers() == nullptr);
  CHECK(zero::Host(2).stream().workers()->threads() == 2);
}

namespace {

/// What element-wise work leaves on a host of so many threads.
struct Left {
  std::vector<double> squares;
  std::vector<float> sums;
  std::vector<zero::bf16> narrow;
  bool operator==(Left const& other) const {
    return squares == other.squares && sums == other.sums &&
           std::equal(narrow.begin(), narrow.end(), other.narrow.begin(), other.narrow.end(),
                      [](zero::bf16 a, zero::bf16 b) { return a.bits == b.bits; });
  }
};

Left worked(int threads, Index n) {
  zero::Host device(threads);
  auto stream = device.stream();
  using zero::View;
  Left left{std::vector<double>(4, 0.0), std::vector<float>(at(n)), std::vector<zero::bf16>(at(n))};
  View<float, zero::Host> const sums(left.sums.data(), n);
  View<zero::bf16, zero::Host> const narrow(left.narrow.data(), n);
  zero::Initial const normal = zero::Initial::normal(0.5);
  zero::initialise(stream, sums, normal, 7, 3, 11);
  zero::assign(stream, narrow, View<float const, zero::Host>(sums));
  zero::add(stream, sums, View<zero::bf16 const, zero::Host>(narrow));
  zero::add_squares(stream, View<float const, zero::Host>(sums),
                    View<double, zero::Host>(left.squares.data(), 4), 0);
  return left;
}

}  // namespace

TEST_CASE("sums of squares, conversions and initial values have the same bits on any threads") {
  // Nothing, one row, several groups of 131,072 with a part of one, and more than 256 groups, whose
  // sums go to running totals in turns.
  for (Index n : {Index{0}, Index{64}, 5 * Index{131072} + 4160, 257 * Index{131072} + 64}) {
    if (ZERO_TESTS_SANITIZED && n > 10 * Index{131072}) continue;  // half a minute
    Left const alone = worked(1, n);
    CHECK((n == 0 || alone.squares[0] > 0));
    for (int threads : {2, 3, 7}) CHECK(worked(threads, n) == alone);
  }
}

TEST_CASE("a function that gives initial values is called by one thread") {
  zero::Host device(3);
  auto stream = device.stream();
  std::vector<float> x(200'000);
  Index next = 0;  // nobody else counts
  bool in_order = true;
  zero::Initial const counts = zero::Initial::function([&](Index element) {
    in_order = in_order && element == next;
    return static_cast<float>(next++);
  });
  zero::initialise(stream, zero::View<float, zero::Host>(x.data(), std::ssize(x)), counts, 1, 0, 0);
  CHECK(in_order);
  CHECK(next == std::ssize(x));
}
