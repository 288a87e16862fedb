// SPDX-License-Identifier: Apache-2.0
// Whatever the order in which streams get on, a run has the bits that it has on the host.

#include <conformance/branch_model.hpp>
#include <doctest/doctest.h>
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>

#include <chrono>
#include <vector>

namespace {

using zero_test::BranchResult;
using zero_test::LateDevice;
using zero_test::LateSettings;
using zero_test::run_branch;
using zero_test::WithLateSettings;

constexpr std::chrono::microseconds delay{100};

/// As late as may be; each stream as early as may be against the others; all at once; and each of
/// these with random delays before every item and every wait.
std::vector<LateSettings> paces() {
  std::vector<LateSettings> all;
  for (int early : {LateSettings::no_stream, 0, 1, 2, LateSettings::every_stream}) {
    all.push_back({.early = early});
    all.push_back({.longest_delay = delay, .seed = 7 + all.size(), .early = early});
  }
  for (std::uint64_t seed : {100u, 101u, 102u})
    all.push_back({.longest_delay = delay, .seed = seed, .early = LateSettings::every_stream});
  return all;
}

template <int Stage>
void check_paces() {
  zero::Options const one{.clip = 1.0f};
  zero::Options const two{.accumulation = 2, .clip = 1.0f, .prefetch = 3, .bucket = 800};
  for (zero::Options const& options : {one, two}) {
    for (int world : {1, 3}) {
      CAPTURE(world);
      BranchResult const expected = run_branch<zero::Host, Stage>(world, options);
      CHECK(expected.error == "");
      CHECK(expected.skipped == 0);
      CHECK(run_branch<zero_test::GuardedDevice, Stage>(world, options) == expected);
      for (LateSettings const& settings : paces()) {
        CAPTURE(settings.early);
        CAPTURE(settings.seed);
        WithLateSettings const with(settings);
        CHECK(run_branch<LateDevice, Stage>(world, options) == expected);
      }
    }
  }
}

TEST_CASE("stage 0: random delays at every wait leave bits unchanged") { check_paces<0>(); }
TEST_CASE("stage 1: random delays at every wait leave bits unchanged") { check_paces<1>(); }
TEST_CASE("stage 2: random delays at every wait leave bits unchanged") { check_paces<2>(); }
TEST_CASE("stage 3: random delays at every wait leave bits unchanged") { check_paces<3>(); }

}  // namespace
