// SPDX-License-Identifier: Apache-2.0
// Cases of the area "bad input".
#include <cases/table_training.hpp>
#include <doctest/doctest.h>

#include <cmath>

namespace {

using namespace cases;

Training on_units(int stage, int world, zero::Units units, Index elements) {
  return {.stage = stage,
          .world = world,
          .units = std::move(units),
          .options = {.clip = 1.0f},
          .steps = [elements](int) {
            return Steps(2, MicroBatches(1, GivenGradients::Batch(at(elements), 0.5f)));
          }};
}

TEST_CASE("B01: a model with nothing to train is refused in a sentence on every rank") {
  zero::Units frozen = make_units({{4, 2}});
  for (zero::Tensor& tensor : frozen[0].tensors) tensor.trainable = false;
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {1, 2}) {
      CAPTURE(stage);
      CAPTURE(world);
      auto const refused = [&](zero::Units units, char const* sentence) {
        CHECK_THROWS_WITH_AS(train(on_units(stage, world, std::move(units), 0)), sentence,
                             zero::InvalidArgument);
      };
      refused({}, "model: it has no units");
      refused(make_units({{}}),
              "model: none of its 0 elements is trainable; there is nothing to train");
      refused(make_units({{0}, {0, 0}}),
              "model: none of its 0 elements is trainable; there is nothing to train");
      refused(frozen, "model: none of its 6 elements is trainable; there is nothing to train");
    }
  }
}

TEST_CASE("B01: a unit without tensors, without elements or all frozen trains beside others") {
  Outcome const plain = train(on_units(0, 1, make_units({{5}}), 5));
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {1, 2, 3}) {
      CAPTURE(stage);
      CAPTURE(world);
      zero::Units units = make_units({{}, {0}, {5}, {3, 4}, {}});
      for (zero::Tensor& tensor : units[3].tensors) tensor.trainable = false;
      Outcome const outcome = train(on_units(stage, world, units, 5));
      CHECK(same_trajectory(outcome, plain));
      CHECK(ranks_agree(outcome));
      CHECK(outcome.last().ranks[0].decision.norm == std::sqrt(5 * 0.25));
      CHECK(outcome.last().ranks[0].decision.skipped == 0);
    }
  }
}

TEST_CASE("B02: one small tensor on one rank gets its gradient") {
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {1, 2}) {
      CAPTURE(stage);
      CAPTURE(world);
      Training training = on_units(stage, world, make_units({{1}}, [](Index) { return 3; }), 1);
      training.options.clip = 0;
      training.steps = [](int) { return Steps(1, MicroBatches(1, {2.0f})); };
      training.optimizer = Descent{};
      CHECK(train(training).last().weights == std::vector<float>{1.0f});
      training.optimizer = zero::Sgd{.lr = 1};
      CHECK(train(training).last().weights == std::vector<float>{1.0f});

      training.optimizer = zero::AdamW{.lr = 1.0f, .weight_decay = 0};
      Outcome const adamw = train(training);
      CHECK(adamw.last().weights[0] == doctest::Approx(2.0));  // Adam's first step has length lr
      CHECK(adamw.last().m[0] == doctest::Approx(0.2));
      CHECK(adamw.last().v[0] == doctest::Approx(0.004));
    }
  }
}

}  // namespace
