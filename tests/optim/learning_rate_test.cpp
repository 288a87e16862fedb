// SPDX-License-Identifier: Apache-2.0
#include <zero/optim/adamw.hpp>
#include <zero/optim/learning_rate.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <type_traits>

namespace {

using zero::Index;
using zero::LearningRate;

/// get_linear_schedule_with_warmup of transformers, with `current` scheduler calls already made.
double transformers_linear(Index current, Index warmup, Index total) {
  if (current < warmup)
    return static_cast<double>(current) / static_cast<double>(std::max<Index>(1, warmup));
  return std::max(0.0, static_cast<double>(total - current) /
                           static_cast<double>(std::max<Index>(1, total - warmup)));
}

TEST_CASE("without a schedule the rate is the optimizer's") {
  for (Index t : {1, 2, 1000, 1 << 30}) CHECK(LearningRate().factor(t) == 1);
}

TEST_CASE("linear has the numbers of transformers at every update, degenerate lengths too") {
  for (Index warmup : {0, 1, 2, 3, 10, 20, 25}) {
    for (Index total : {0, 1, 2, 10, 20, 21}) {
      LearningRate const rate = LearningRate::linear(warmup, total);
      for (Index t = 1; t <= 30; ++t) {
        CAPTURE(warmup);
        CAPTURE(total);
        CAPTURE(t);
        CHECK(rate.factor(t) == transformers_linear(t - 1, warmup, total));
      }
    }
  }
}

TEST_CASE("a warm-up starts at 0, peaks after its updates and ends at 0, never below") {
  LearningRate const rate = LearningRate::linear(4, 10);
  CHECK(rate.factor(1) == 0);
  CHECK(rate.factor(2) == 0.25);
  CHECK(rate.factor(5) == 1);
  CHECK(rate.factor(8) == 0.5);
  CHECK(rate.factor(10) > 0);
  CHECK(rate.factor(11) == 0);
  CHECK(rate.factor(1'000'000) == 0);
  CHECK(LearningRate::linear(0, 10).factor(1) == 1);
}

TEST_CASE("before the first good update the rate is the first one's, for a skipped first step") {
  CHECK(LearningRate::linear(4, 10).factor(0) == LearningRate::linear(4, 10).factor(1));
  CHECK(LearningRate::linear(0, 10).factor(0) == 1);
}

TEST_CASE("negative counts are refused by name") {
  CHECK_THROWS_WITH_AS(LearningRate::linear(-1, 10),
                       "LearningRate::linear: warmup: found -1; expected 0 updates to 2^53",
                       zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(LearningRate::linear(1, -10),
                       "LearningRate::linear: total: found -10; expected 0 updates to 2^53",
                       zero::InvalidArgument);
}

TEST_CASE("counts beyond 32 bits are exact") {
  Index const total = Index{1} << 40;
  LearningRate const rate = LearningRate::linear(total / 2, total);
  CHECK(rate.factor(total / 4 + 1) == 0.5);
  CHECK(rate.factor(3 * (total / 4) + 1) == 0.5);
}

TEST_CASE("the optimizer's rate is lr times the factor, rounded once") {
  zero::AdamW const optimizer{.lr = 3e-4f, .schedule = LearningRate::linear(3, 7)};
  for (Index t = 1; t < 10; ++t) {
    CHECK(optimizer.learning_rate(t) ==
          static_cast<float>(double{3e-4f} * transformers_linear(t - 1, 3, 7)));
  }
  static_assert(std::is_trivially_copyable_v<LearningRate>);
}

}  // namespace
