// SPDX-License-Identifier: Apache-2.0
// The step waits for all that it needs: with any wait deleted that no other implies, a run on the
// late device has other bits.

#include <conformance/branch_model.hpp>
#include <doctest/doctest.h>
#include <support/late_device.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace {

using zero::Index;
using zero_test::BranchModel;
using zero_test::BranchResult;
using zero_test::LateDevice;
using zero_test::LateSettings;
using zero_test::LateWait;
using zero_test::run_branch;
using zero_test::WithLateSettings;

/// No run of two equal ranks depends on the deadline; it must never decide what is seen here.
LateSettings const quiet{.deadline = std::chrono::seconds(30), .log_waits = true};

template <int Stage>
BranchResult run_late(zero::Options const& options, LateSettings const& settings,
                      BranchModel const& model = {}) {
  WithLateSettings const with(settings);
  return run_branch<LateDevice, Stage>(2, options, model);
}

struct Count {
  int waits = 0;
  int implied = 0;
  int noticed = 0;
};

/// Deletes every wait that is not implied, one at a time, on every rank alike.
template <int Stage>
Count check_waits(zero::Options const& options, BranchModel const& model = {}) {
  BranchResult const right = run_late<Stage>(options, quiet, model);
  REQUIRE(right.error == "");
  REQUIRE(right.skipped == 0);
  Count count;
  std::string const names[] = {"compute", "gathering", "reducing"};
  for (std::size_t i = 0; i < right.waits.size(); ++i) {
    LateWait const& wait = right.waits[i];
    ++count.waits;
    if (wait.implied) {
      ++count.implied;
      continue;
    }
    LateSettings faulty = quiet;
    faulty.ignored_wait = static_cast<Index>(i);
    faulty.early = wait.waiting;  // as early as it may, and what it should wait for, late
    bool const noticed = !(run_late<Stage>(options, faulty, model) == right);
    count.noticed += int{noticed};
    CHECK_MESSAGE(
        noticed, "wait " << i << ", of " << names[wait.waiting] << " for " << names[wait.recorded]);
  }
  MESSAGE("stage " << Stage << ": " << count.waits << " waits, " << count.implied << " implied, "
                   << count.noticed << " deletions noticed");
  return count;
}

TEST_CASE("stage 0: every wait that is not implied is needed [slow]") {
  CHECK(check_waits<0>({}).noticed > 10);
  CHECK(check_waits<0>({.bucket = 1 << 20}).noticed > 5);
  CHECK(check_waits<0>({.accumulation = 2}).noticed > 10);
  CHECK(check_waits<0>({.accumulation = 2, .reduction = zero::Reduction::micro_batch}).noticed >
        10);
}

TEST_CASE("stage 1: every wait that is not implied is needed [slow]") {
  CHECK(check_waits<1>({}).noticed > 20);
  CHECK(check_waits<1>({.bucket = 1 << 20}).noticed > 10);
  CHECK(check_waits<1>({.accumulation = 2}).noticed > 20);
}

TEST_CASE("stage 2: every wait that is not implied is needed [slow]") {
  CHECK(check_waits<2>({}).noticed > 20);
  CHECK(check_waits<2>({.bucket = 1 << 20}).noticed > 10);
  CHECK(check_waits<2>({.accumulation = 2}).noticed > 20);
  CHECK(check_waits<2>({.accumulation = 2, .reduction = zero::Reduction::boundary}).noticed > 20);
}

TEST_CASE("stage 3: every wait that is not implied is needed [slow]") {
  CHECK(check_waits<3>({}).noticed > 30);
  CHECK(check_waits<3>({.prefetch = 0}).noticed > 30);
  CHECK(check_waits<3>({.prefetch = 2}, {.evaluates = false}).noticed > 30);
  CHECK(check_waits<3>({.bucket = 1 << 20}).noticed > 20);
  CHECK(check_waits<3>({.accumulation = 2}, {.growth = 90}).noticed > 30);
  CHECK(check_waits<3>({.persistence_threshold = 200}, {.evaluates = false}).noticed > 20);
}

/// No wait at all: the run must not come out right, whichever stream is ahead.
template <int Stage>
void check_without_waits() {
  BranchResult const right = run_late<Stage>({}, quiet);
  for (int early : {LateSettings::no_stream, 0, 1, 2}) {
    LateSettings faulty = quiet;
    faulty.ignored_wait = LateSettings::every_wait;
    faulty.early = early;
    CHECK(!(run_late<Stage>({}, faulty) == right));
  }
}

TEST_CASE("without any wait no stage trains right [slow]") {
  check_without_waits<0>();
  check_without_waits<1>();
  check_without_waits<2>();
  check_without_waits<3>();
}

}  // namespace
