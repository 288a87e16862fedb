// SPDX-License-Identifier: Apache-2.0
// The collected table: five steps of ten weights under AdamW, Adam and descent with momentum, at
// sizes on both sides of every width that a kernel may have.
#include <zero/core/noise.hpp>

#include <doctest/doctest.h>
#include <optim/reference.hpp>
#include <optim/slice.hpp>
#include <optim/trajectories.hpp>

#include <algorithm>

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

}  // namespace

// The bound is the table's own, 2e-6: weights below 4 and buffers below 8 are rounded a few times a
// step by at most 2^-22 each.
TEST_CASE("AdamW, Adam and Sgd follow the double trajectories of the table at every size") {
  CHECK(distance(zero::AdamW{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::adamw) < 2e-6);
  CHECK(distance(zero::Adam{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::adam_l2) < 2e-6);
  CHECK(distance(zero::Sgd{.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f},
                 adam_table::sgd_momentum) < 2e-6);
}

TEST_CASE("decay within the gradient and beside it are far apart in the table") {
  CHECK(distance(zero::Adam{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::adamw) > 1e-4);
  CHECK(distance(zero::AdamW{.lr = 1e-2f, .weight_decay = 0.01f}, adam_table::adam_l2) > 1e-4);
}
