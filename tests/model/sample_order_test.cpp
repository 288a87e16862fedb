// SPDX-License-Identifier: Apache-2.0
#include <zero/model/sample_order.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace {

using zero::at;
using zero::Index;

std::vector<Index> all(Index n, int rank, int world, std::uint64_t seed, Index epoch) {
  auto const order = zero::sample_order(n, rank, world, seed, epoch);
  std::vector<Index> entries(order.begin(), order.end());
  REQUIRE(std::ssize(entries) == order.size());
  return entries;
}

TEST_CASE("one rank sees every sample once an epoch") {
  for (Index n : {0, 1, 2, 3, 7, 64, 255, 256, 257, 1000, 4097}) {
    for (Index epoch : {0, 1, 5}) {
      std::vector<Index> entries = all(n, 0, 1, 9, epoch);
      std::ranges::sort(entries);
      std::vector<Index> expected(at(n));
      std::iota(expected.begin(), expected.end(), Index{0});
      INFO("n = " << n << ", epoch " << epoch);
      CHECK(entries == expected);
    }
  }
}

TEST_CASE("ranks share no sample, all have the same number, and fewer than a world are left over") {
  for (int world : {1, 2, 3, 4, 8}) {
    for (Index n : {0, 1, 5, 24, 100, 1001}) {
      std::set<Index> seen;
      for (int rank = 0; rank < world; ++rank) {
        auto const entries = all(n, rank, world, 3, 2);
        CHECK(std::ssize(entries) == n / world);
        seen.insert(entries.begin(), entries.end());
      }
      CHECK(std::ssize(seen) == n / world * world);
      CHECK((seen.empty() || (*seen.begin() >= 0 && *seen.rbegin() < n)));
    }
  }
}

TEST_CASE("a step takes the same samples at every world") {
  Index const n = 1003;
  Index const samples_a_step = 24;
  auto const step_samples = [&](int world, Index step) {
    std::vector<Index> samples;
    Index const each = samples_a_step / world;
    for (int rank = 0; rank < world; ++rank) {
      auto const order = zero::sample_order(n, rank, world, 5, 1);
      for (Index k = 0; k < each; ++k) samples.push_back(order[step * each + k]);
    }
    std::ranges::sort(samples);
    return samples;
  };
  for (Index step = 0; step < n / samples_a_step; ++step) {
    for (int world : {2, 3, 4, 6, 8, 12, 24})
      CHECK(step_samples(world, step) == step_samples(1, step));
  }
}

TEST_CASE("seed and epoch each change the order, and equal arguments give equal orders") {
  auto const first = all(500, 1, 2, 7, 0);
  CHECK(all(500, 1, 2, 7, 0) == first);
  auto const places_kept = [&](std::vector<Index> const& other) {
    Index kept = 0;
    for (std::size_t i = 0; i < first.size(); ++i) kept += first[i] == other[i] ? 1 : 0;
    return kept;
  };
  // Of 250 places an unrelated order keeps 0.5 on average; 8 or more with probability below 1e-8.
  CHECK(places_kept(all(500, 1, 2, 7, 1)) < 8);
  CHECK(places_kept(all(500, 1, 2, 8, 0)) < 8);
  CHECK(places_kept(all(500, 0, 2, 7, 0)) < 8);
}

TEST_CASE("the order is fixed for all time: a run resumes with a later library where it stopped") {
  CHECK(all(10, 0, 1, 1, 0) == std::vector<Index>{0, 2, 9, 8, 4, 6, 3, 1, 5, 7});
}

TEST_CASE("every sample comes to every place about equally often, and neighbours are unrelated") {
  Index const n = 12;
  Index const epochs = 12000;
  std::vector<Index> counts(at(n * n));
  Index following = 0;  // pairs of places whose samples are k, k + 1
  for (Index epoch = 0; epoch < epochs; ++epoch) {
    auto const entries = all(n, 0, 1, 42, epoch);
    for (Index place = 0; place < n; ++place) {
      ++counts[at(place * n + entries[at(place)])];
      if (place > 0 && entries[at(place)] == entries[at(place - 1)] + 1) ++following;
    }
  }
  // Each of 144 counts is binomial with mean 1000 and deviation 30; six of those hold for all but
  // 3e-7 of seeds.
  auto const [least, most] = std::ranges::minmax(counts);
  CHECK(least > 820);
  CHECK(most < 1180);
  // 11 pairs an epoch, each with probability 11 / (12 x 11): mean 11000, deviation about 100.
  CHECK(following > 10400);
  CHECK(following < 11600);
}

TEST_CASE("every order of a few samples comes up") {
  std::map<std::vector<Index>, Index> orders;
  for (Index epoch = 0; epoch < 24000; ++epoch) ++orders[all(4, 0, 1, 11, epoch)];
  CHECK(orders.size() == 24);
  // binomial: mean 1000, deviation 31
  for (auto const& [order, count] : orders) CHECK(std::abs(count - 1000) < 186);
}

TEST_CASE("an order of 2^62 samples takes no memory and is entered anywhere") {
  Index const n = (Index{1} << 62) + 12345;
  auto const order = zero::sample_order(n, 3, 4, 1, 7);
  CHECK(order.size() == n / 4);
  std::set<Index> seen;
  for (Index k = 0; k < 1000; ++k) {
    seen.insert(order[k]);
    seen.insert(order[order.size() - 1 - k]);
  }
  CHECK(seen.size() == 2000);
  CHECK(*seen.begin() >= 0);
  CHECK(*seen.rbegin() < n);
  static_assert(sizeof(order) <= 80);
}

TEST_CASE("an epoch that four ranks have begun goes on over three, every sample once") {
  Index const n = 1000;
  Index const taken = 4 * 37;
  std::vector<Index> all;
  for (int rank = 0; rank < 4; ++rank) {
    auto const order = zero::sample_order(n, rank, 4, 5, 2);
    for (Index k = 0; k < 37; ++k) all.push_back(order[k]);
  }
  for (int rank = 0; rank < 3; ++rank) {
    auto const order = zero::sample_order(n, rank, 3, 5, 2, taken);
    CHECK(order.size() == (n - taken) / 3);
    for (Index sample : order) all.push_back(sample);
  }
  std::set<Index> const once(all.begin(), all.end());
  CHECK(once.size() == all.size());
  CHECK(std::ssize(all) == taken + (n - taken) / 3 * 3);
  // On one rank the order is the whole permutation: what is left of it is its tail.
  auto const whole = zero::sample_order(n, 0, 1, 5, 2);
  auto const rest = zero::sample_order(n, 0, 1, 5, 2, taken);
  for (Index k = 0; k < rest.size(); ++k) CHECK(rest[k] == whole[taken + k]);
  CHECK(zero::sample_order(n, 0, 1, 5, 2, n).empty());
}

TEST_CASE("impossible arguments are refused in a sentence") {
  CHECK_THROWS_WITH_AS(zero::sample_order(-1, 0, 1, 0, 0),
                       "sample_order: the number of samples is -1", zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(zero::sample_order(5, 2, 2, 0, 0),
                       "sample_order: there is no rank 2 in a world of 2", zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(zero::sample_order(5, -1, 2, 0, 0),
                       "sample_order: there is no rank -1 in a world of 2", zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(zero::sample_order(5, 0, 0, 0, 0),
                       "sample_order: there is no rank 0 in a world of 0", zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(zero::sample_order(5, 0, 1, 0, -1), "sample_order: the epoch is -1",
                       zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(zero::sample_order(5, 0, 1, 0, 0, 6),
                       "sample_order: an epoch of 5 samples has no place 6", zero::InvalidArgument);
}

}  // namespace
