// SPDX-License-Identifier: Apache-2.0
// The collected tables: five steps of ten weights under AdamW, Adam and descent with momentum, in
// double at sizes on both sides of every width that a kernel may have, and in float.
#include <zero/core/noise.hpp>

#include <doctest/doctest.h>
#include <optim/float_trajectories.hpp>
#include <optim/reference.hpp>
#include <optim/slice.hpp>
#include <optim/trajectories.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace {

using namespace optim_test;

constexpr int sizes[] = {1, 7, 8, 9, 10, 15, 16, 17, 31, 33, 63, 64, 65, 100};

template <class O>
double distance(O const& optimizer, adam_table::Trajectory const& table) {
  double largest = 0;
  for (int size : sizes) {
    Index const n = zero::round_up(size, 64);
    Slice<O> slice(n);
    for (int i = 0; i < size; ++i)
      slice.weights[at(i)] = static_cast<float>(adam_table::initial[at(i % 10)]);
    for (int s = 0; s < adam_table::num_steps; ++s) {
      std::vector<float> gradients(at(n));
      for (int i = 0; i < size; ++i)
        gradients[at(i)] = static_cast<float>(adam_table::gradients[at(s)][at(i % 10)]);
      slice.update(optimizer, gradients, good(s + 1, optimizer));
      for (int i = 0; i < size; ++i) {
        adam_table::Row const& row = table[at(s)][at(i % 10)];
        largest = std::max(largest, std::abs(double{slice.weight(i)} - row.weight));
        largest = std::max(largest, std::abs(double{slice.state(0, i)} - row.m));
        if (O::num_states > 1)
          largest = std::max(largest, std::abs(double{slice.state(1, i)} - row.v));
      }
      for (Index i = size; i < n; ++i) {
        CHECK(slice.weight(i) == 0);
        for (int k = 0; k < O::num_states; ++k) CHECK(slice.state(k, i) == 0);
      }
    }
  }
  return largest;
}

/// How far a run is from the float table.
struct FloatDistance {
  int weights = 0;  ///< of other bits
  int states = 0;   ///< of other bits
  double part = 0;  ///< largest distance of a weight, as a part of its bound
};

/// The table divides the moments by 1 - beta^t and shrinks the weight before it moves it; here they
/// are multiplied by the quotient's float, and decay is in the direction. With e = 2^-24 a rounded
/// correction and its product are within 3 e of the quotient, half of that under the root, whose
/// own rounding, the sum's and the division's are 2 e each at most between the two: 10 e of a
/// direction below 1.1, times lr, a step. The weight is rounded once instead of twice, and the
/// table's 1 - lr x weight_decay is rounded: 2.5 units of the weight's last place a step.
template <class O>
FloatDistance float_distance(O const& optimizer, adam_table::FloatTrajectory const& table) {
  FloatDistance distance;
  auto const differs = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b) ? 1 : 0;
  };
  Slice<O> slice(64);
  double place[adam_table::num_elements];  // the last one's, of the largest weight so far
  auto const last_place = [](float w) {
    return std::ldexp(1.0, std::max(std::ilogb(w), -126) - 23);
  };
  for (int i = 0; i < adam_table::num_elements; ++i) {
    slice.weights[at(i)] = static_cast<float>(adam_table::initial[at(i)]);
    place[i] = last_place(slice.weights[at(i)]);
  }
  for (int s = 0; s < adam_table::num_steps; ++s) {
    std::vector<float> gradients(64);
    for (int i = 0; i < adam_table::num_elements; ++i)
      gradients[at(i)] = static_cast<float>(adam_table::gradients[at(s)][at(i)]);
    slice.update(optimizer, gradients, good(s + 1, optimizer));
    for (int i = 0; i < adam_table::num_elements; ++i) {
      adam_table::FloatRow const& row = table[at(s)][at(i)];
      place[i] = std::max(place[i], last_place(row.weight));
      distance.weights += differs(slice.weight(i), row.weight);
      distance.states += differs(slice.state(0, i), row.m);
      if (O::num_states > 1) distance.states += differs(slice.state(1, i), row.v);
      double const bound =
          (s + 1) * (2.5 * place[i] + 11 * std::ldexp(1.0, -24) * double{optimizer.lr});
      distance.part =
          std::max(distance.part, std::abs(double{slice.weight(i)} - double{row.weight}) / bound);
    }
  }
  return distance;
}

}  // namespace

// The bound is the table's own, 2e-6: weights below 4 and buffers below 8 are rounded a few times a
// step by at most 2^-22 each.
TEST_CASE("AdamW, Adam and Sgd follow the double trajectories of the table at every size") {
  CHECK(distance(zero::AdamW{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::adamw) < 2e-6);
  CHECK(distance(zero::Adam{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::adam_l2) < 2e-6);
  CHECK(distance(zero::Sgd{.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f},
                 adam_table::sgd_momentum) < 2e-6);
}

TEST_CASE("Sgd has every bit of the float table, AdamW and Adam have every bit of its moments") {
  FloatDistance const sgd =
      float_distance(zero::Sgd{.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f},
                     adam_table::float_sgd_momentum);
  CHECK(sgd.weights == 0);
  CHECK(sgd.states == 0);
  FloatDistance const adamw =
      float_distance(zero::AdamW{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::float_adamw);
  FloatDistance const adam =
      float_distance(zero::Adam{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::float_adam_l2);
  for (FloatDistance const& d : {adamw, adam}) {
    CHECK(d.states == 0);
    CHECK(d.part <= 1);
    MESSAGE(d.weights << " of 50 weights have other bits, " << d.part << " of the bound");
  }
}

TEST_CASE("decay within the gradient and beside it are far apart in the table") {
  CHECK(distance(zero::Adam{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::adamw) > 1e-4);
  CHECK(distance(zero::AdamW{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::adam_l2) > 1e-4);
}
