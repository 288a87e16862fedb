// SPDX-License-Identifier: Apache-2.0
// Cases of the area "loss-scale" that do not need a scale: what one rank's overflow does to all.
#include <cases/table_training.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace {

using namespace cases;

/// Six steps of which the third has a bad element 5 on rank 2 alone; or the five good ones.
Steps six_steps(int rank, float bad, bool with_bad_step) {
  Steps steps = table_steps(rank, 4);
  if (!with_bad_step) return steps;
  MicroBatches third = steps[2];
  if (rank == 2) third[0][5] = bad;
  steps.insert(steps.begin() + 2, third);
  return steps;
}

TEST_CASE("L06: one bad element on one rank skips the step on all, and nothing else") {
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    for (int stage : {0, 1, 2, 3}) {
      CAPTURE(stage);
      Training training = table_training(stage, 4, {{4}, {4, 2}});
      training.precision = precision;
      training.options.clip = 1.0f;
      training.steps = [](int rank) { return six_steps(rank, 0, false); };
      Outcome const good = train(training);

      for (float bad : {std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity(), std::nanf("")}) {
        CAPTURE(bad);
        training.steps = [bad](int rank) { return six_steps(rank, bad, true); };
        Outcome const outcome = train(training);
        CHECK(ranks_agree(outcome));
        for (RankRecord const& rank : outcome.steps[2].ranks) {
          CHECK(rank.decision.skip == 1);
          CHECK(rank.decision.skipped == 1);
          CHECK(rank.decision.updates == 2);
          CHECK(rank.decision.bad_unit == 1);
          CHECK(!std::isfinite(rank.decision.norm));
        }
        CHECK(same_bits(outcome.steps[2].weights, outcome.steps[1].weights));
        CHECK(same_bits(outcome.steps[2].m, outcome.steps[1].m));
        CHECK(same_bits(outcome.steps[2].v, outcome.steps[1].v));
        // Bias correction went on where it stood: the good steps are those of a run without it.
        Outcome without = outcome;
        without.steps.erase(without.steps.begin() + 2);
        CHECK(same_trajectory(without, good));
        CHECK(outcome.parameters_hash[0] == good.parameters_hash[0]);
        CHECK(outcome.last().ranks[0].decision.skipped == 1);
        CHECK(outcome.last().ranks[0].decision.updates == 5);
      }
    }
  }
}

}  // namespace
