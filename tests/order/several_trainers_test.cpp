// SPDX-License-Identifier: Apache-2.0
// Trainers do not meet: two on the same ranks, and several worlds in one process.

#include <support/agreement.hpp>

#include <thread>
#include <vector>

namespace zero_test {
namespace {

void beside_another(Family const& family, OnDevice device) {
  Config config;
  config.model = everything();
  config = family.applied_to(config);
  Result const alone = reference_of(config);
  config.device = device;
  config.loop = Loop::two_trainers;
  for (int stage : {0, 1, 2, 3}) {
    config.stage = stage;
    check_against(alone, config);
  }
}

TEST_CASE("two trainers on the same ranks that step in turn give the bits of one alone") {
  for (Family const& family : families({1, 2, 3})) beside_another(family, OnDevice::host);
}

// Their collectives share channels, and come to them from streams of their own.
TEST_CASE("two trainers on the same ranks, on a device that runs work late") {
  beside_another({2, false, 1, std::nullopt}, OnDevice::late);
  beside_another({3, true, 1, std::nullopt}, OnDevice::late);
}

TEST_CASE("worlds of several stages at once in one process give the bits of each alone") {
  std::vector<Config> configs;
  for (int stage : {0, 1, 2, 3}) {
    for (bool bf16 : {false, true}) {
      Config config;
      config.model = stage % 2 == 0 ? everything() : tied();
      config.world = 1 + stage;
      config.stage = stage;
      config.bf16 = bf16;
      config.steps = 5;
      configs.push_back(config);
    }
  }
  std::vector<Result> together(configs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < configs.size(); ++i)
    threads.emplace_back([&, i] { together[i] = run(configs[i]); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < configs.size(); ++i) {
    CHECK_MESSAGE(difference(reference_of(configs[i]), together[i]) == "", configs[i]);
    CHECK_MESSAGE(fault(together[i], configs[i].bf16) == "", configs[i]);
  }
}

}  // namespace
}  // namespace zero_test
