// SPDX-License-Identifier: Apache-2.0
// Cases of the area "loss-scale".
#include <cases/table_training.hpp>
#include <doctest/doctest.h>
#include <support/loss_scale_table.hpp>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace {

using namespace cases;

zero::LossScale const one_overflow_halves =
    zero::LossScale::dynamic({.initial_power = 10, .hysteresis = 1});

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
  for (Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (int stage : {0, 1, 2, 3}) {
      CAPTURE(stage);
      bool const fp16 = precision == Precision::fp16;
      Training training = table_training(stage, 4, {{4}, {4, 2}});
      training.precision = precision;
      training.options.clip = 1.0f;
      if (fp16) training.options.loss_scale = one_overflow_halves;
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
          CHECK(rank.decision.used_scale == (fp16 ? 1024 : 1));
          CHECK(rank.decision.loss_scale == (fp16 ? 512 : 1));
        }
        CHECK(same_bits(outcome.steps[2].weights, outcome.steps[1].weights));
        CHECK(same_bits(outcome.steps[2].m, outcome.steps[1].m));
        CHECK(same_bits(outcome.steps[2].v, outcome.steps[1].v));
        CHECK(outcome.last().ranks[0].decision.skipped == 1);
        CHECK(outcome.last().ranks[0].decision.updates == 5);
        // Bias correction went on where it stood: the good steps are those of a run without it.
        // With scales of 512 and 1024 sums of the table's gradients, 1e-5 to 32, are normal fp16
        // numbers.
        Outcome without = outcome;
        without.steps.erase(without.steps.begin() + 2);
        CHECK(same_trajectory(without, good));
        CHECK(outcome.parameters_hash[0] == good.parameters_hash[0]);
      }
    }
  }
}

TEST_CASE(
    "L02: endless overflow halves down to 1 and then is an error that says so, on all ranks") {
  int const num_steps = static_cast<int>(loss_scale_table::a9.size());
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    std::vector<std::vector<zero::Decision>> seen(2);
    std::vector<std::string> texts(2);
    Training training = table_training(stage, 2, {{4}, {4, 2}});
    training.precision = Precision::fp16;
    training.steps = [num_steps](int rank) {
      Steps steps;
      while (std::ssize(steps) < num_steps) {
        steps.push_back(table_steps(rank, 2)[0]);
        if (rank == 1) steps.back()[0][2] = std::numeric_limits<float>::infinity();
      }
      return steps;
    };
    training.saw = [&seen](int rank, zero::Decision const& d) { seen[at(rank)].push_back(d); };
    training.failed = [&texts](int rank, std::exception const& e) { texts[at(rank)] = e.what(); };
    CHECK_THROWS_AS(train(training), zero::NotFinite);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(texts[rank] ==
            "step 18: a gradient is not finite at a loss scale of 1, its minimum, while every loss "
            "is finite. It arose in the backward pass, in unit 'unit_0' first (18 steps skipped, 0 "
            "made)");
      REQUIRE(std::ssize(seen[rank]) == num_steps - 1);
      for (std::size_t s = 0; s < seen[rank].size(); ++s) {
        CHECK(seen[rank][s].used_scale == loss_scale_table::a9[s].before);
        CHECK(seen[rank][s].loss_scale == loss_scale_table::a9[s].after);
      }
    }
  }
}

TEST_CASE("L02: a loss that is not finite is not reported as a scale at its minimum") {
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    Training training = table_training(stage, 2, {{4}, {4, 2}});
    training.precision = Precision::fp16;
    training.loss = [](GivenGradients::Batch const& batch) -> double { return batch[7]; };
    training.steps = [](int rank) {
      Steps steps(40, table_steps(rank, 2)[0]);
      for (MicroBatches& step : steps) {
        if (rank == 1) step[0][7] = std::nanf("");
      }
      return steps;
    };
    std::string text;
    try {
      train(training);
    } catch (zero::NotFinite const& e) {
      text = e.what();
    }
    CHECK(text ==
          "step 16: the loss of rank 1 is not finite, in 16 steps in a row by now, at a loss scale "
          "of 65536. It arose in the forward pass, which no loss scale changes; backward met it in "
          "unit 'unit_1' first (16 steps skipped, 0 made)");
  }
}

TEST_CASE("L03: the first scale is 65536 with no other setting, at every stage") {
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    Training training = table_training(stage, 2);
    training.precision = Precision::fp16;
    Outcome const outcome = train(training);
    for (RankRecord const& rank : outcome.steps[0].ranks) CHECK(rank.decision.used_scale == 65536);
    // A scale is for fp16: the others have none unless they are told.
    training.precision = Precision::bf16;
    CHECK(train(training).steps[0].ranks[0].decision.used_scale == 1);
  }
}

}  // namespace
