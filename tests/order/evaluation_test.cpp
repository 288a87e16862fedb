// SPDX-License-Identifier: Apache-2.0
// Evaluation gathers and never reduces, and leaves no trace in what is trained.

#include <support/agreement.hpp>

namespace zero_test {
namespace {

TEST_CASE("evaluations gather at stage 3, send nothing below it and reduce nowhere") {
  for (int world : {1, 2, 4}) {
    for (int stage : {0, 1, 2, 3}) {
      for (int accumulation : {1, 3}) {
        Config config;
        config.model = everything();
        config.world = world;
        config.stage = stage;
        config.options.accumulation = accumulation;
        config.evaluates = true;
        for (RankNumbers const& n : run(config).ranks) {
          CHECK(n.reductions_in_evaluations == 0);
          CHECK((n.gathers_in_evaluations > 0) == (stage == 3 && world > 1));
        }
      }
    }
  }
}

TEST_CASE("evaluations between steps change nothing that is trained") {
  for (Family const& family : families({1, 2, 3})) {
    for (int stage : {0, 1, 2, 3}) {
      Config config;
      config.model = everything();
      config = family.applied_to(config);
      config.stage = stage;
      Result const without = run(config);
      config.evaluates = true;
      Result with = run(config);
      CHECK(with.steps[0].evaluations[0] > 0);
      CHECK(with.steps[0].generations[0] != with.steps[0].evaluations[0]);
      for (StepResult& step : with.steps) {
        step.evaluations.assign(step.evaluations.size(), 0);
        step.generations.assign(step.generations.size(), 0);
      }
      CHECK(difference(without, with) == "");
    }
  }
}

TEST_CASE("a pass of repeated forward visits takes extra slots once and keeps them") {
  Config config;
  config.model = everything();
  config.world = 2;
  config.stage = 3;
  config.steps = 2;
  config.evaluates = true;
  zero::Index const after_two = run(config).ranks[0].extra_slots;
  config.steps = 6;
  zero::Index const after_six = run(config).ranks[0].extra_slots;
  CHECK(after_two > 0);
  CHECK(after_six == after_two);
}

}  // namespace
}  // namespace zero_test
