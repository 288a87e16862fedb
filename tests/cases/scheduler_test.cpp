// SPDX-License-Identifier: Apache-2.0
// Cases of the area "scheduler", for the schedule that there is.
#include <cases/table_training.hpp>
#include <doctest/doctest.h>

namespace {

using namespace cases;

TEST_CASE("S01: the first update of a warm-up already has the schedule's rate") {
  for (int stage : {0, 3}) {
    CAPTURE(stage);
    Training training = table_training(stage, 2);
    zero::AdamW optimizer = table_adamw();
    optimizer.schedule = zero::LearningRate::linear(10, 100);
    training.optimizer = optimizer;
    Outcome const outcome = train(training);
    CHECK(outcome.steps[0].ranks[0].decision.learning_rate == 0);
    std::vector<float> initial;
    for (double w : adam_table::initial) initial.push_back(static_cast<float>(w));
    CHECK(same_bits(outcome.steps[0].weights, initial));
    for (int s = 0; s < adam_table::num_steps; ++s) {
      CHECK(outcome.steps[at(s)].ranks[1].decision.learning_rate ==
            doctest::Approx(1e-2 * s / 10).epsilon(1e-6));
    }
  }
}

TEST_CASE(
    "S01: descent from 0 by gradients of 1 is still at 0 after the first update of a warm-up") {
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    zero::Sgd optimizer{.lr = 1e-3f};
    optimizer.schedule = zero::LearningRate::linear(10, 100);
    Training training{
        .stage = stage,
        .world = 2,
        .units = make_units({{3}}),
        .optimizer = optimizer,
        .steps = [](int) { return Steps(2, MicroBatches(1, GivenGradients::Batch(3, 1.0f))); }};
    Outcome const outcome = train(training);
    CHECK(same_bits(outcome.steps[0].weights, std::vector<float>(3, 0.0f)));
    float const rate = static_cast<float>(double{1e-3f} * 0.1);
    CHECK(same_bits(outcome.steps[1].weights, std::vector<float>(3, -rate)));
  }
}

TEST_CASE("S11: a schedule counts updates, not micro-batches or samples") {
  Training training = table_training(2, 2, {{10}}, 4);
  zero::AdamW optimizer = table_adamw();
  optimizer.schedule = zero::LearningRate::linear(0, 20);
  training.optimizer = optimizer;
  training.steps = [](int rank) {
    Steps steps;
    while (steps.size() < 20) {
      for (MicroBatches& micro_batches : table_steps(rank, 2, 4))
        steps.push_back(std::move(micro_batches));
    }
    return steps;
  };
  Outcome const outcome = train(training);
  REQUIRE(outcome.steps.size() == 20);  // of 80 micro-batches a rank
  for (int s = 0; s < 20; ++s) {
    CHECK(outcome.steps[at(s)].ranks[0].decision.learning_rate ==
          doctest::Approx(1e-2 * (20 - s) / 20.0).epsilon(1e-6));
  }
}

}  // namespace
