// SPDX-License-Identifier: Apache-2.0
// Cases of the area "partition": sizes that do not divide, empty tensors, shards without elements.
// Each row's trajectory, norms and factors hold; owned ranges are this library's, whose tensors
// start at multiples of 64 elements.
#include <zero/shard/layout.hpp>

#include <cases/table_training.hpp>
#include <doctest/doctest.h>

#include <cmath>

namespace {

using namespace cases;

constexpr double tolerance = 2e-6;

/// Gradients that 1 x, 2 x and the shares of two ranks represent exactly, so that the mean over
/// ranks is exact too.
float exact_gradient(Index element, Index step) {
  return static_cast<float>((element * 7 + step * 5) % 17 - 8) / 16.0f;
}

TEST_CASE("P01: an empty tensor that starts inside a shard trains") {
  auto const training = [](int stage, int world, std::vector<std::vector<Index>> const& sizes) {
    return Training{
        .stage = stage,
        .world = world,
        .units = make_units(sizes, [](Index i) { return 0.25 * static_cast<double>(i) - 3; }),
        .steps = [world](int rank) {
          Steps steps(3);
          for (Index s = 0; s < 3; ++s) {
            GivenGradients::Batch& batch = steps[at(s)].emplace_back();
            for (Index i = 0; i < 32; ++i)
              batch.push_back(exact_gradient(i, s) * rank_share(rank, world));
          }
          return steps;
        }};
  };

  zero::Layout const layout(make_units({{8, 0, 24}}), 2);
  CHECK(layout.slice(0) == 64);
  Index pieces_of_empty = 0;
  for (Index rank : {0, 1}) {
    layout.pieces(0, true, layout.slice_begin(0, rank), layout.slice(0),
                  [&](zero::PlacedTensor const&, zero::Piece const& piece) {
                    if (piece.tensor_index == 1) ++pieces_of_empty;
                  });
  }
  CHECK(pieces_of_empty == 0);

  Outcome const without = train(training(0, 1, {{8, 24}}));
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    Outcome const inside = train(training(stage, 2, {{8, 0, 24}}));
    CHECK(same_trajectory(inside, without));
    CHECK(ranks_agree(inside));
    CHECK(inside.owned == std::vector<Index>{8, 24});
    CHECK(same_trajectory(train(training(stage, 2, {{0, 8, 24, 0}})), without));
    CHECK(same_trajectory(train(training(stage, 2, {{8}, {0}, {24}})), without));
  }
}

TEST_CASE("P03: a rank whose shard is only padding trains") {
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    Outcome const split = train(table_training(stage, 4, {{4, 4, 2}}));
    CHECK(split.owned == std::vector<Index>{4, 4, 2, 0});
    CHECK(distance_from_table(split) < tolerance);
    CHECK(ranks_agree(split));

    Outcome const whole = train(table_training(stage, 4));
    CHECK(whole.owned == std::vector<Index>{10, 0, 0, 0});
    CHECK(same_trajectory(whole, split));
    CHECK(ranks_agree(whole));
  }
}

TEST_CASE("P04: an odd number of ranks trains") {
  Outcome const alone = train(table_training(0, 1));
  for (int world : {3, 5, 7}) {
    for (int stage : {0, 1, 2, 3}) {
      CAPTURE(world);
      CAPTURE(stage);
      Outcome const outcome = train(table_training(stage, world, {{4, 4, 2}}));
      for (std::size_t s = 0; s < outcome.steps.size(); ++s) {
        std::vector<float> const& expected = alone.steps[s].weights;
        CHECK(largest_difference(outcome.steps[s].weights, {expected.begin(), expected.end()}) <
              1e-6);
      }
      CHECK(ranks_agree(outcome));
    }
  }
}

TEST_CASE("P09: a bucket larger than the model leaves no gradient behind") {
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    Training training = table_training(stage, 2, {{3}, {3}, {4}});
    training.optimizer = Descent{};
    Outcome const alone = train(training);
    training.options.bucket = 500'000'000;
    Outcome const bucketed = train(training);

    std::vector<double> expected;
    for (std::size_t i = 0; i < adam_table::num_elements; ++i)
      expected.push_back(adam_table::initial[i] - adam_table::gradients[0][i]);
    CHECK(largest_difference(bucketed.steps[0].weights, expected) < tolerance);
    CHECK(same_trajectory(bucketed, alone));
    // Three units of 128 padded elements: whatever is kept, it is far from 5e8 elements.
    for (Index peak : bucketed.peak_bytes) CHECK(peak < 16'000);
  }
}

TEST_CASE("P11: a tensor of fewer elements than ranks trains, and padding never enters the norm") {
  auto const training = [](int stage, int world) {
    Training t{.stage = stage,
               .world = world,
               .units = make_units({{6}}, [](Index i) { return 1.0 / static_cast<double>(i + 1); }),
               .options = {.clip = 1.0f},
               .steps = [world](int rank) {
                 Steps steps(3);
                 for (Index s = 0; s < 3; ++s) {
                   GivenGradients::Batch& batch = steps[at(s)].emplace_back();
                   for (Index i = 0; i < 6; ++i)
                     batch.push_back(4 * exact_gradient(i, s) * rank_share(rank, world));
                 }
                 return steps;
               }};
    t.units[0].tensors[0].shape = {2, 3};
    return t;
  };
  Outcome const alone = train(training(0, 1));
  for (int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    Outcome const outcome = train(training(stage, 8));
    CHECK(outcome.owned == std::vector<Index>{6, 0, 0, 0, 0, 0, 0, 0});
    CHECK(same_trajectory(outcome, alone));
    CHECK(ranks_agree(outcome));
    for (Index s = 0; s < 3; ++s) {
      double sum = 0;
      for (Index i = 0; i < 6; ++i) sum += std::pow(4 * double{exact_gradient(i, s)}, 2);
      CHECK(sum > 1);
      zero::Decision const& d = outcome.steps[at(s)].ranks[0].decision;
      CHECK(std::abs(d.norm - std::sqrt(sum)) < 1e-12);
      CHECK(d.clip_factor == doctest::Approx(1 / (d.norm + 1e-6)).epsilon(1e-12));
    }
  }
}

TEST_CASE("P13: stages 0 to 3 give the same trajectory from the same start") {
  double largest = 0;
  for (int world : {1, 2, 3, 4}) {
    for (Index accumulation : {1, 3}) {
      for (float clip : {0.0f, 1.0f}) {
        for (zero::Reduction reduction :
             {zero::Reduction::boundary, zero::Reduction::micro_batch}) {
          CAPTURE(world);
          CAPTURE(accumulation);
          CAPTURE(clip);
          CAPTURE(static_cast<int>(reduction));
          Outcome stage_0;
          for (int stage : {0, 1, 2, 3}) {
            CAPTURE(stage);
            Training training = table_training(stage, world, {{4}, {4, 2}}, accumulation);
            training.options.clip = clip;
            training.options.reduction = reduction;
            Outcome outcome = train(training);
            double const distance = distance_from_table(outcome, double{clip});
            CHECK(distance < tolerance);
            largest = std::max(largest, distance);
            CHECK(ranks_agree(outcome));
            if (stage == 0) {
              stage_0 = std::move(outcome);
            } else {
              CHECK(same_trajectory(outcome, stage_0));
              CHECK(same_bits(outcome.parameters[0], stage_0.parameters[0]));
              CHECK(outcome.parameters_hash[0] == stage_0.parameters_hash[0]);
            }
          }
        }
      }
    }
  }
  MESSAGE("largest distance from the double trajectory: " << largest << " of " << tolerance);
}

}  // namespace
