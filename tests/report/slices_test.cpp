// SPDX-License-Identifier: Apache-2.0
// Slices that are read in several tiles, which hold 2^18 elements: every element comes once, in its
// place, at every stage.

#include <zero/report/slices.hpp>
#include <zero/zero.hpp>

#include <doctest/doctest.h>

#include <mutex>
#include <set>
#include <vector>

namespace zero_test {
namespace {

constexpr zero::Index trained = 3 * (zero::Index{1} << 18) + 77;
constexpr zero::Index frozen = 5 * (zero::Index{1} << 18) + 1001;

/// Element i of both tensors is i modulo 251: exact in float and in bf16.
struct LargeModel {
  using Batch = int;

  zero::Units units() const {
    auto const value =
        zero::Initial::function([](zero::Index i) { return static_cast<float>(i % 251); });
    return {{"unit",
             {{"trained", {trained}, value},
              {.name = "frozen", .shape = {frozen}, .initial = value, .trainable = false}}}};
  }
  template <class Pass>
  void operator()(Pass& pass, Batch const&) {
    auto const w = pass.forward(0);
  }
};

template <int Stage, class Precision>
std::uint64_t read_all(int world) {
  std::vector<int> seen_trained(zero::at(trained), 0);
  std::vector<int> seen_frozen(zero::at(frozen), 0);
  zero::Index wrong = 0;
  std::set<std::uint64_t> hashes;
  std::mutex mutex;
  zero::launch<zero::Threads>(world, [&](auto ranks) {
    zero::Trainer trainer{LargeModel{}, ranks, zero::AdamW{}, zero::Sharded<Stage>{}, Precision{}};
    auto const reader = [&](std::vector<int>& seen) {
      return [&](zero::PlacedTensor const&, zero::Index first, auto values) {
        std::lock_guard const lock(mutex);
        for (std::size_t i = 0; i < values.size(); ++i) {
          zero::Index const element = first + static_cast<zero::Index>(i);
          ++seen[zero::at(element)];
          wrong += static_cast<float>(values[i]) != static_cast<float>(element % 251);
        }
      };
    };
    zero::read_weights(trainer, reader(seen_trained));
    zero::read_frozen(trainer, reader(seen_frozen));
    std::uint64_t const hash = zero::parameters_hash(trainer);
    std::lock_guard const lock(mutex);
    hashes.insert(hash);
  });
  CHECK(wrong == 0);
  CHECK(std::ranges::all_of(seen_trained, [](int n) { return n == 1; }));
  CHECK(std::ranges::all_of(seen_frozen, [](int n) { return n == 1; }));
  REQUIRE(hashes.size() == 1);
  return *hashes.begin();
}

template <class Precision>
void same_at_every_stage() {
  std::uint64_t const hash = read_all<0, Precision>(1);
  for (int world : {1, 2, 3}) {
    if (ZERO_TESTS_SANITIZED && world != 2) continue;
    CHECK(read_all<0, Precision>(world) == hash);
    CHECK(read_all<1, Precision>(world) == hash);
    CHECK(read_all<2, Precision>(world) == hash);
    CHECK(read_all<3, Precision>(world) == hash);
  }
}

TEST_CASE("slices of several tiles are read whole, in fp32") { same_at_every_stage<zero::Fp32>(); }
TEST_CASE("slices of several tiles are read whole, in bf16") {
  same_at_every_stage<zero::Bf16Mixed>();
}

}  // namespace
}  // namespace zero_test
