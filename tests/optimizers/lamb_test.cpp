// SPDX-License-Identifier: Apache-2.0
// LAMB over ranks against its formula in double: norms are those of whole tensors, whatever slices
// these are cut into.
#include <doctest/doctest.h>
#include <optim/reference.hpp>
#include <optimizers/run.hpp>

#include <algorithm>
#include <cmath>

namespace {

using namespace optimizers;
using zero_test::Bounded;

}  // namespace

TEST_CASE("trust ratios are those of whole tensors, at every stage and world") {
  zero::Lamb const lamb{.lr = 0.03f, .weight_decay = 0.1f};
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {1, 2, 4}) {
      CAPTURE(stage);
      CAPTURE(world);
      Setup setup{.optimizer = lamb, .stage = stage, .world = world, .steps = 4};
      setup.options.clip = 0;
      setup.same_gradients = true;
      Outcome const outcome = run(setup);
      double largest = 0;
      int clamped = 0;
      int ratios = 0;
      for (std::size_t s = 1; s < outcome.steps.size(); ++s) {
        AfterStep const& before = outcome.steps[s - 1];
        AfterStep const& after = outcome.steps[s];
        std::size_t number = 0;
        Index element = 0;
        for (zero::Unit const& unit : units()) {
          for (zero::Tensor const& tensor : unit.tensors) {
            std::vector<float> const& weights = before.weights[number];
            std::vector<Bounded> directions;
            double squares[2] = {0, 0};
            double slack = 0;
            for (std::size_t i = 0; i < weights.size(); ++i) {
              Bounded states[2] = {double{before.states[0][number][i]},
                                   double{before.states[1][number][i]}};
              double const g = double{gradient(static_cast<int>(s), 0, element++)};
              Bounded const u = reference::direction(lamb, static_cast<int>(s) + 1,
                                                     double{weights[i]}, g, states, tensor.decay);
              directions.push_back(u);
              squares[0] += double{weights[i]} * double{weights[i]};
              squares[1] += u.value * u.value;
              slack += 2 * std::abs(u.value) * u.error + u.error * u.error;
            }
            if (weights.empty()) {
              ++number;
              continue;
            }
            double const plain = std::sqrt(squares[0] / squares[1]);
            double const ratio = std::clamp(plain, double{lamb.min_coeff}, double{lamb.max_coeff});
            clamped += ratio != plain ? 1 : 0;
            ++ratios;
            Bounded const rate = Bounded(double{lamb.lr}) * Bounded(double{tensor.lr_scale}) *
                                 Bounded::rounded(ratio, ratio * slack / squares[1]);
            for (std::size_t i = 0; i < weights.size(); ++i) {
              Bounded const w = Bounded(double{weights[i]}) - rate * directions[i];
              double const off = std::abs(double{after.weights[number][i]} - w.value);
              largest = std::max(largest, off == 0 ? 0 : off / w.error);
            }
            ++number;
          }
        }
      }
      CHECK(largest <= 1);
      CHECK(largest > 0.01);
      CHECK(ratios > 3 * clamped);
    }
  }
}

TEST_CASE("norms go over the wire once a step: 2 doubles a trained tensor and rank") {
  Index trained = 0;
  for (zero::Unit const& unit : units()) {
    for (zero::Tensor const& tensor : unit.tensors) trained += tensor.trainable ? 1 : 0;
  }
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {1, 2, 3}) {
      CAPTURE(stage);
      CAPTURE(world);
      Outcome const lamb = run({.optimizer = zero::Lamb{}, .stage = stage, .world = world});
      Outcome const adamw = run({.stage = stage, .world = world});
      Index const others = stage == 0 ? 0 : world - 1;
      for (std::size_t r = 0; r < lamb.ranks.size(); ++r) {
        CHECK(lamb.ranks[r].doubles - adamw.ranks[r].doubles == 2 * trained * others);
        CHECK(adamw.ranks[r].doubles == zero::norm_record_doubles * others);
        // One table more in memory, rounded up to the size that buffers have.
        CHECK(lamb.ranks[r].planned_bytes - adamw.ranks[r].planned_bytes ==
              zero::round_up(2 * trained * world * 8, 256));
      }
    }
  }
}
