// SPDX-License-Identifier: Apache-2.0
// Cases of the area "accumulate". The model hands over the gradient of each micro-batch as it is;
// the division by the number of micro-batches and ranks is the update's, once.
#include <cases/table_training.hpp>
#include <doctest/doctest.h>

#include <cmath>

namespace {

using namespace cases;

/// Micro-batches [first, last] of which number k has the mean gradient k in every element.
MicroBatches numbered(int first, int last, int rank, int world) {
  MicroBatches micro_batches;
  for (int k = first; k <= last; ++k)
    micro_batches.emplace_back(3, static_cast<float>(k) * rank_share(rank, world));
  return micro_batches;
}

/// Weights after descent of rate 1 from 0 by these gradients.
std::vector<double> descended(std::vector<double> const& gradients) {
  double w = 0;
  for (double g : gradients) w -= g;
  return std::vector<double>(3, w);
}

TEST_CASE(
    "A03: leftover micro-batches are the caller's, and a short step divides by its own count") {
  for (int stage : {0, 1, 2, 3}) {
    for (zero::Reduction reduction : {zero::Reduction::boundary, zero::Reduction::micro_batch}) {
      CAPTURE(stage);
      CAPTURE(static_cast<int>(reduction));
      Training training{.stage = stage,
                        .world = 2,
                        .units = make_units({{2}, {1}}),
                        .optimizer = Descent{},
                        .options = {.accumulation = 4, .reduction = reduction}};
      // Ten micro-batches, then two more that fill the window begun by the last two of the ten.
      training.steps = [](int rank) {
        return Steps{numbered(1, 4, rank, 2), numbered(5, 8, rank, 2), numbered(9, 12, rank, 2)};
      };
      Outcome const kept = train(training);
      CHECK(largest_difference(kept.steps[0].weights, descended({2.5})) == 0);
      CHECK(largest_difference(kept.steps[1].weights, descended({2.5, 6.5})) == 0);
      CHECK(largest_difference(kept.steps[2].weights, descended({2.5, 6.5, 10.5})) == 0);
      CHECK(kept.last().ranks[0].decision.updates == 3);

      // The epoch's last two as a step of their own.
      training.steps = [](int rank) {
        return Steps{numbered(1, 4, rank, 2), numbered(5, 8, rank, 2), numbered(9, 10, rank, 2),
                     numbered(11, 12, rank, 2)};
      };
      Outcome const flushed = train(training);
      CHECK(largest_difference(flushed.steps[2].weights, descended({2.5, 6.5, 9.5})) == 0);
      CHECK(largest_difference(flushed.steps[3].weights, descended({2.5, 6.5, 9.5, 11.5})) == 0);
      CHECK(flushed.last().ranks[0].decision.updates == 4);
    }
  }
}

TEST_CASE("A03: a step of no or too many micro-batches is refused") {
  for (Index count : {0, 5}) {
    CAPTURE(count);
    Training const training{
        .units = make_units({{3}}), .options = {.accumulation = 4}, .steps = [count](int) {
          return Steps{numbered(1, static_cast<int>(count), 0, 1)};
        }};
    CHECK_THROWS_WITH_AS(train(training), doctest::Contains("trainer was made for 1 to 4"),
                         zero::InvalidArgument);
  }
}

TEST_CASE("A05: stage 2 clips with the norm of all micro-batches") {
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {1, 2}) {
      CAPTURE(stage);
      CAPTURE(world);
      Training training{.stage = stage,
                        .world = world,
                        .units = make_units({{2}, {1}}),
                        .optimizer = Descent{},
                        .options = {.accumulation = 2, .clip = 1.0f},
                        .steps = [world](int rank) {
                          return Steps{numbered(1, 2, rank, world), numbered(3, 4, rank, world)};
                        }};
      Outcome const outcome = train(training);
      double applied = 0;
      for (auto [step, mean] : {std::pair{0, 1.5}, std::pair{1, 3.5}}) {
        zero::Decision const& d = outcome.steps[at(step)].ranks[0].decision;
        double const norm = mean * std::sqrt(3.0);
        CHECK(d.norm == doctest::Approx(norm).epsilon(1e-12));
        applied += mean / (norm + 1e-6);
      }
      CHECK(largest_difference(outcome.last().weights, std::vector<double>(3, -applied)) < 2e-7);
      CHECK(ranks_agree(outcome));
    }
  }
}

TEST_CASE("A07: eight micro-batches of gradient 1 are divided by eight once") {
  for (int stage : {0, 1, 2, 3}) {
    for (Precision precision : {Precision::fp32, Precision::bf16}) {
      for (int world : {1, 2}) {
        CAPTURE(stage);
        CAPTURE(world);
        Training const training{
            .stage = stage,
            .world = world,
            .precision = precision,
            .units = make_units({{4}}),
            .optimizer = Descent{},
            .options = {.accumulation = 8},
            .steps = [](int) { return Steps(1, MicroBatches(8, GivenGradients::Batch(4, 1.0f))); }};
        Outcome const outcome = train(training);
        CHECK(outcome.last().ranks[0].decision.norm == 2);
        CHECK(same_bits(outcome.last().weights, std::vector<float>(4, -1.0f)));
      }
    }
  }
}

}  // namespace
