// SPDX-License-Identifier: Apache-2.0
// Cases of the area "clip". The large gradients are those of step 3 of the table, exact in float,
// so norms are held to the last bits of double.
#include <cases/table_training.hpp>
#include <doctest/doctest.h>

#include <cmath>

namespace {

using namespace cases;

Training step_3_alone(int stage, int world, std::vector<std::vector<Index>> const& sizes) {
  Training training = table_training(stage, world, sizes);
  training.options.clip = 1.0f;
  training.steps = [world](int rank) { return table_steps(rank, world, 1, 2, 1); };
  return training;
}

/// The part of the norm that each rank's own elements make, of the mean gradient.
std::vector<double> partial_sums(Outcome const& outcome) {
  std::vector<double> sums;
  auto const world = static_cast<double>(outcome.owned.size());
  for (RankRecord const& rank : outcome.last().ranks) sums.push_back(rank.squares / world / world);
  return sums;
}

TEST_CASE("K01: the norm is taken over owned shards, once each, and equal on every rank") {
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    Outcome const two = train(step_3_alone(stage, 2, {{5, 5}}));
    CHECK(partial_sums(two) == std::vector<double>{55, 149.25});
    Outcome const four = train(step_3_alone(stage, 4, {{4, 4, 2}}));
    CHECK(partial_sums(four) == std::vector<double>{54, 86.25, 64, 0});

    for (Outcome const* outcome : {&two, &four}) {
      CHECK(ranks_agree(*outcome));
      for (RankRecord const& rank : outcome->last().ranks) {
        zero::Decision const& d = rank.decision;
        CHECK(std::abs(d.norm - adam_table::step_3_norm) < 1e-14);
        CHECK(std::abs(d.clip_factor - adam_table::step_3_clip_factor) < 1e-16);
      }
    }
  }
}

TEST_CASE("K01: gradients of earlier steps do not enter the norm") {
  for (int stage : {0, 1, 2, 3}) {
    for (Index accumulation : {1, 2}) {
      CAPTURE(stage);
      CAPTURE(accumulation);
      Training training = table_training(stage, 4, {{4}, {4, 2}}, accumulation);
      training.options.clip = 1.0f;
      Outcome const outcome = train(training);
      for (std::size_t s = 0; s < outcome.steps.size(); ++s) {
        double sum = 0;
        for (double g : adam_table::gradients[s]) sum += g * g;
        double const norm = outcome.steps[s].ranks[0].decision.norm;
        CHECK(std::abs(norm - std::sqrt(sum)) < 1e-6 * std::sqrt(sum));
      }
    }
  }
}

TEST_CASE("K02: the norm before clipping and the norm of what is applied are both told") {
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {1, 4}) {
      CAPTURE(stage);
      CAPTURE(world);
      Training training = step_3_alone(stage, world, {{4, 4, 2}});
      training.optimizer = Descent{};
      training.units = make_units({{4, 4, 2}});
      Outcome const outcome = train(training);
      zero::Decision const& d = outcome.last().ranks[0].decision;
      CHECK(d.norm == doctest::Approx(14.2916).epsilon(1e-5));
      CHECK(std::abs(d.clipped_norm() - 0.99999993) < 1e-8);

      // What descent of rate 1 from 0 applied.
      double applied = 0;
      for (float w : outcome.last().weights) applied += double{w} * double{w};
      CHECK(std::abs(std::sqrt(applied) - 0.99999993) < 1e-7);
    }
  }
}

TEST_CASE("K02: a norm below the limit, and a limit of 0, change nothing") {
  for (float clip : {0.0f, 1e6f}) {
    for (int stage : {0, 3}) {
      CAPTURE(clip);
      CAPTURE(stage);
      Training training = step_3_alone(stage, 2, {{4, 4, 2}});
      training.options.clip = clip;
      Outcome const outcome = train(training);
      CHECK(outcome.last().ranks[0].decision.clip_factor == 1);
      CHECK(outcome.last().ranks[0].decision.factor == 0.5f);
    }
  }
}

}  // namespace
