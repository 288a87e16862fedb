// SPDX-License-Identifier: Apache-2.0
#include <zero/report/pace.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

TEST_CASE("nothing is known before the first step") {
  zero::Pace pace;
  CHECK(std::isnan(pace.seconds_per_step()));
  CHECK(std::isnan(pace.tokens_per_s()));
  pace.add(3, 0, std::numeric_limits<double>::quiet_NaN());
  CHECK(std::isnan(pace.seconds_per_step()));
}

TEST_CASE("an even pace is exact from the first step on") {
  zero::Pace pace;
  for (int step = 0; step < 50; ++step) {
    pace.add(0.5, 1, 1000);
    REQUIRE(pace.seconds_per_step() == doctest::Approx(0.5));
    REQUIRE(pace.tokens_per_s() == doctest::Approx(1000));
  }
}

TEST_CASE("a slow first step is forgotten") {
  zero::Pace pace;
  pace.add(10, 1, 10);
  for (int step = 0; step < 100; ++step) pace.add(1, 1, 100);
  // Left of the first step: at most exp(-100 / 27.5) of it, 27.5 being a quarter of the whole run.
  CHECK(pace.seconds_per_step() < 1.02);
  CHECK(pace.tokens_per_s() > 98);
}

TEST_CASE("an evaluation now and then counts in the mean and does not make it jump") {
  zero::Pace pace;
  double lowest = 1e9, highest = 0;
  for (int step = 1; step <= 400; ++step) {
    pace.add(1, 1, 100);
    if (step % 10 == 0) pace.add(5, 0, 100);
    if (step <= 100) continue;
    lowest = std::fmin(lowest, pace.seconds_per_step());
    highest = std::fmax(highest, pace.seconds_per_step());
  }
  // The mean is 1.5 s; 5 s in a memory of at least 37 s move it by an eighth at most.
  CHECK(lowest > 1.5 * 7 / 8);
  CHECK(highest < 1.5 * 9 / 8);
}

TEST_CASE("a lasting change is followed") {
  zero::Pace pace;
  for (int step = 0; step < 60; ++step) pace.add(1, 1, 100);
  for (int step = 0; step < 60; ++step) pace.add(2, 1, 50);
  CHECK(pace.seconds_per_step() > 1.8);
  CHECK(pace.tokens_per_s() < 60);
}

TEST_CASE("a rate that is not a number is left out and harms nothing") {
  zero::Pace pace;
  pace.add(1, 1, std::numeric_limits<double>::infinity());
  CHECK(std::isnan(pace.tokens_per_s()));
  pace.add(1, 1, 100);
  pace.add(1, 1, std::numeric_limits<double>::quiet_NaN());
  CHECK(pace.tokens_per_s() == doctest::Approx(100));
  CHECK(pace.seconds_per_step() == doctest::Approx(1));
}

TEST_CASE("a clock that goes back counts as no time") {
  zero::Pace pace;
  pace.add(1, 1, 100);
  pace.add(-5, 1, 100);
  CHECK(pace.seconds_per_step() == doctest::Approx(0.5));
}
