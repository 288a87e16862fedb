// SPDX-License-Identifier: Apache-2.0
// Cases of the area "numerics".
#include <zero/core/dtype.hpp>

#include <cases/table_training.hpp>
#include <doctest/doctest.h>

#include <cmath>

namespace {

using namespace cases;

template <class T>
float sum_of_ones(int count) {
  T sum(0.0f);
  for (int i = 0; i < count; ++i) sum = T(static_cast<float>(sum) + 1.0f);
  return static_cast<float>(sum);
}

TEST_CASE("N03: 300 micro-batches of a bf16 gradient of 1 have the mean 1") {
  // What happens where sums are kept in the short type.
  CHECK(sum_of_ones<zero::bf16>(300) == 256);
  CHECK(sum_of_ones<zero::fp16>(5000) == 2048);

  for (int world : {1, 4}) {
    for (int stage : {0, 1, 2, 3}) {
      for (zero::Reduction reduction : {zero::Reduction::boundary, zero::Reduction::micro_batch}) {
        CAPTURE(world);
        CAPTURE(stage);
        CAPTURE(static_cast<int>(reduction));
        Training training{.stage = stage,
                          .world = world,
                          .precision = Precision::bf16,
                          .units = make_units({{10}}),
                          .optimizer = Descent{},
                          .options = {.accumulation = 300, .reduction = reduction},
                          .steps = [](int) {
                            return Steps(1, MicroBatches(300, GivenGradients::Batch(10, 1.0f)));
                          }};
        Outcome const outcome = train(training);
        double const sums = 300.0 * world;
        double squares = 0;
        for (RankRecord const& rank : outcome.last().ranks) squares += rank.squares;
        CHECK(squares == 10 * sums * sums);
        CHECK(outcome.last().ranks[0].decision.norm == doctest::Approx(std::sqrt(10.0)));
        // The mean to one rounding: the factor 1 / (300 x world) is a float.
        CHECK(largest_difference(outcome.last().weights, std::vector<double>(10, -1.0)) < 1.2e-7);
      }
    }
  }
}

TEST_CASE("N03: 5000 micro-batches of an fp16 gradient of 1 have the mean 1") {
  for (int world : {1, 4}) {
    for (int stage : {0, 2}) {
      for (zero::Reduction reduction : {zero::Reduction::boundary, zero::Reduction::micro_batch}) {
        CAPTURE(world);
        CAPTURE(stage);
        Training const training{.stage = stage,
                                .world = world,
                                .precision = Precision::fp16,
                                .units = make_units({{10}}),
                                .optimizer = Descent{},
                                .options = {.accumulation = 5000,
                                            .reduction = reduction,
                                            .loss_scale = zero::LossScale::fixed(1)},
                                .steps = [](int) {
                                  return Steps(1,
                                               MicroBatches(5000, GivenGradients::Batch(10, 1.0f)));
                                }};
        Outcome const outcome = train(training);
        // 5000 and 20000 are fp16 numbers; the factor 1 / (5000 x world) is a float.
        CHECK(largest_difference(outcome.last().weights, std::vector<double>(10, -1.0)) < 1.2e-7);
        CHECK(outcome.last().ranks[0].decision.norm == doctest::Approx(std::sqrt(10.0)));
      }
    }
  }
}

TEST_CASE("N06: float masters keep what the short weights cannot") {
  for (int world : {1, 2}) {
    for (int stage : {0, 1, 2, 3}) {
      CAPTURE(world);
      CAPTURE(stage);
      Training training{.stage = stage,
                        .world = world,
                        .precision = Precision::bf16,
                        .units = make_units({{3}}, [](Index) { return 1.0 + std::pow(2.0, -12); }),
                        .optimizer = zero::AdamW{.lr = 0},
                        .steps = [](int) {
                          return Steps(1, MicroBatches(1, {0.5f, -0.25f, 1.0f}));
                        }};
      Outcome const outcome = train(training);
      CHECK(same_bits(outcome.last().weights, std::vector<float>(3, 1.000244140625f)));
      for (std::vector<float> const& seen : outcome.parameters)
        CHECK(same_bits(seen, std::vector<float>(3, 1.0f)));
    }
  }
}

TEST_CASE("N08: AdamW and Adam, decay beside the gradient and within it, follow the table") {
  for (int size : {1, 7, 8, 9, 15, 16, 17, 31, 33, 10, 63, 64, 65, 129}) {
    for (int stage : {0, 3}) {
      CAPTURE(size);
      CAPTURE(stage);
      int const world = stage == 0 ? 1 : 2;
      Training training = table_training(stage, world);
      training.units =
          make_units({{size}}, [](Index i) { return adam_table::initial[at(i % 10)]; });
      training.steps = [=](int rank) {
        Steps steps = table_steps(rank, world);
        for (MicroBatches& micro_batches : steps) {
          GivenGradients::Batch const row = micro_batches[0];
          micro_batches[0].resize(at(size));
          for (std::size_t i = 0; i < at(size); ++i) micro_batches[0][i] = row[i % row.size()];
        }
        return steps;
      };
      CHECK(distance_from_table(train(training)) < 2e-6);
      training.optimizer = table_adam();
      CHECK(distance_from(train(training), adam_table::adam_l2) < 2e-6);
    }
  }
  // Two figures of the table as they stand there: decoupled decay, not decay within the gradient.
  Outcome const outcome = train(table_training(0, 1));
  CHECK(std::abs(outcome.steps[0].weights[0] - 0.48995f) < 2e-6f);
  CHECK(std::abs(outcome.steps[4].weights[9] - 1.49925015f) < 2e-6f);
}

TEST_CASE("C13: the two forms of decay, by their own names, at two figures of the table each") {
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {1, 3}) {
      CAPTURE(stage);
      CAPTURE(world);
      Training training = table_training(stage, world);
      Outcome const beside = train(training);
      CHECK(std::abs(double{beside.steps[0].weights[0]} - 0.48995) < 2e-6);
      CHECK(std::abs(double{beside.steps[4].weights[9]} - 1.49925015) < 2e-6);
      training.optimizer = table_adam();
      Outcome const within = train(training);
      CHECK(std::abs(double{within.steps[0].weights[0]} - 0.4900000009523809) < 2e-6);
      CHECK(std::abs(double{within.steps[4].weights[9]} - 1.4500301660) < 2e-6);
    }
  }
}

TEST_CASE("N12: the norm of ten ones is the root of ten in every world") {
  for (int world : {1, 2, 4, 8}) {
    for (int stage : {0, 1, 2, 3}) {
      for (Precision precision : {Precision::fp32, Precision::bf16}) {
        CAPTURE(world);
        CAPTURE(stage);
        Training training = table_training(stage, world, {{4}, {4, 2}});
        training.precision = precision;
        training.steps = [](int) {
          return Steps(2, MicroBatches(1, GivenGradients::Batch(10, 1.0f)));
        };
        Outcome const outcome = train(training);
        for (AfterStep const& after : outcome.steps) {
          for (RankRecord const& rank : after.ranks)
            CHECK(std::abs(rank.decision.norm - 3.1622776602) < 1e-10);
        }
      }
    }
  }
}

}  // namespace
