// SPDX-License-Identifier: Apache-2.0
// Cases of the area "scheduler".
#include <cases/table_training.hpp>
#include <doctest/doctest.h>
#include <support/schedule_table.hpp>

namespace {

using namespace cases;
using zero::LearningRate;
using zero::Ramp;

/// One weight at 0 and a gradient of 1 in each micro-batch: what is left to see is the rate.
Training ones(int stage, int world, zero::AdamW const& optimizer, int num_steps,
              Index accumulation = 1) {
  return {.stage = stage,
          .world = world,
          .units = make_units({{1}}),
          .optimizer = optimizer,
          .options = {.accumulation = accumulation},
          .steps = [=](int) {
            return Steps(at(num_steps),
                         MicroBatches(at(accumulation), GivenGradients::Batch(1, 1.0f)));
          }};
}

zero::AdamW scheduled(LearningRate const& rate, float lr = 1e-3f) {
  return {.lr = lr, .weight_decay = 0, .schedule = rate};
}

/// Whether update s + 1 of a run on all ranks had the rate of table entry s + first, to a float's
/// rounding.
void check_rates(Outcome const& outcome, std::vector<double> const& table, std::size_t first = 0) {
  for (std::size_t s = 0; s < outcome.steps.size(); ++s) {
    CAPTURE(s);
    for (RankRecord const& rank : outcome.steps[s].ranks) {
      CHECK(std::abs(static_cast<double>(rank.decision.learning_rate) - table[s + first]) <=
            0x1p-23 * table[s + first]);  // lr and the rate are rounded
    }
  }
}

TEST_CASE("S01: the first update of a warm-up already has the schedule's rate") {
  for (int stage : {0, 3}) {
    CAPTURE(stage);
    LearningRate const w1 = LearningRate::warmup({.updates = 10, .ramp = Ramp::linear});
    Outcome const outcome = train(ones(stage, 2, scheduled(w1), 15));
    CHECK(outcome.steps[0].weights[0] == 0);  // a rate of 0
    CHECK(outcome.steps[1].weights[0] == 0);  // and once more
    CHECK(outcome.steps[2].weights[0] < 0);
    check_rates(outcome, schedule_table::warmup_linear);
    // The form that does not idle has its own name.
    Outcome const shifted = train(ones(stage, 2, scheduled(w1.shifted()), 5));
    check_rates(shifted, schedule_table::warmup_linear, 2);
  }
}

TEST_CASE(
    "S03: a warm-up of one update is one of two, of none is none, and what is no length is "
    "refused") {
  struct Case {
    Ramp ramp;
    Index updates;
    std::vector<double> rates;
  };
  Case const cases[] = {{Ramp::logarithmic, 1, {0, 0, 1e-3, 1e-3}},
                        {Ramp::linear, 1, {0, 0, 5e-4, 1e-3}},
                        {Ramp::logarithmic, 2, {0, 0, 1e-3, 1e-3}},
                        {Ramp::linear, 2, {0, 0, 5e-4, 1e-3}},
                        {Ramp::logarithmic, 0, {1e-3, 1e-3, 1e-3, 1e-3}},
                        {Ramp::linear, 0, {1e-3, 1e-3, 1e-3, 1e-3}}};
  for (Case const& c : cases) {
    LearningRate const rate = LearningRate::warmup({.updates = c.updates, .ramp = c.ramp});
    check_rates(train(ones(1, 2, scheduled(rate), 4)), c.rates);
  }
  for (Ramp ramp : {Ramp::logarithmic, Ramp::linear}) {
    CHECK_THROWS_WITH_AS(LearningRate::warmup({.updates = -1, .ramp = ramp}),
                         "LearningRate::warmup: updates: found -1; expected 0 updates to 2^53",
                         zero::InvalidArgument);
  }
}

TEST_CASE("S05: a OneCycle without decay stays at its least rate after the cycle") {
  LearningRate const o1 = LearningRate::one_cycle({.up = 5}, 0.1);
  Outcome const outcome = train(ones(2, 2, scheduled(o1), 15));
  check_rates(outcome, schedule_table::one_cycle);
  for (std::size_t call = 10; call < 15; ++call)
    CHECK(outcome.steps[call].ranks[0].decision.learning_rate ==
          outcome.steps[10].ranks[0].decision.learning_rate);
}

TEST_CASE("S07: the number of the update is all that a schedule resumes from") {
  // The same value, asked anew from update 8 on, as after a load; a checkpoint keeps the number.
  LearningRate const d1 = LearningRate::warmup_decay({.updates = 5, .ramp = Ramp::linear}, 20);
  zero::AdamW const resumed = scheduled(d1);
  CHECK(resumed.learning_rate(8) == doctest::Approx(schedule_table::warmup_decay[7]).epsilon(1e-6));
  for (Index call = 7; call < 11; ++call) {
    CHECK(static_cast<double>(resumed.learning_rate(call + 1)) ==
          doctest::Approx(schedule_table::warmup_decay[at(call)]).epsilon(1e-6));
  }
}

TEST_CASE("S01: W1 over SGD from 0 by gradients of 1 is still at 0 after the first update") {
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    zero::Sgd optimizer{.lr = 1e-3f};
    optimizer.schedule = LearningRate::warmup({.updates = 10, .ramp = Ramp::linear});
    Training training{
        .stage = stage,
        .world = 2,
        .units = make_units({{3}}),
        .optimizer = optimizer,
        .steps = [](int) { return Steps(4, MicroBatches(1, GivenGradients::Batch(3, 1.0f))); }};
    Outcome const outcome = train(training);
    check_rates(outcome, schedule_table::warmup_linear);
    float weight = 0;
    for (std::size_t s = 0; s < outcome.steps.size(); ++s) {
      // The table's rate of this update, as a float: 0, 0, 1e-4, 2e-4.
      weight -= static_cast<float>(double{1e-3f} * (schedule_table::warmup_linear[s] / 1e-3));
      CHECK(same_bits(outcome.steps[s].weights, std::vector<float>(3, weight)));
    }
    CHECK(same_bits(outcome.steps[0].weights, std::vector<float>(3, 0.0f)));
  }
}

TEST_CASE("S11: a schedule counts updates, not micro-batches or samples") {
  LearningRate const d1 = LearningRate::warmup_decay({.updates = 5, .ramp = Ramp::linear}, 20);
  Outcome const outcome = train(ones(2, 2, scheduled(d1), 20, 4));
  REQUIRE(outcome.steps.size() == 20);  // of 80 micro-batches a rank
  check_rates(outcome, schedule_table::warmup_decay);
  CHECK(outcome.last().ranks[0].decision.learning_rate == doctest::Approx(1.3333e-4).epsilon(1e-4));
}

}  // namespace
