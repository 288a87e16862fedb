// SPDX-License-Identifier: Apache-2.0
#include <zero/core/noise.hpp>
#include <zero/optim/adamw.hpp>

#include <doctest/doctest.h>
#include <optim/slice.hpp>
#include <support/adam_table.hpp>

#include <cmath>
#include <cstring>
#include <vector>

namespace {

using optim_test::good;
using zero::AdamW;
using zero::at;
using zero::bf16;
using zero::Decision;
using zero::Index;

AdamW table_adamw() { return {.lr = 1e-2f, .weight_decay = 0.01f}; }

/// Float weights and states, and parameters of 16 bits where a test makes room for them.
using Slice = optim_test::Slice<AdamW, bf16>;

TEST_CASE("AdamW follows the double trajectory of the table at every size") {
  double largest = 0;
  for (int size : {1, 7, 8, 9, 10, 15, 16, 17, 31, 33, 63, 64, 65, 100}) {
    Index const n = zero::round_up(size, 64);
    Slice slice(n);
    for (int i = 0; i < size; ++i)
      slice.weights[at(i)] = static_cast<float>(adam_table::initial[at(i % 10)]);
    adam_table::Reference reference(size);
    for (int s = 0; s < adam_table::num_steps; ++s) {
      std::vector<float> gradients(at(n));
      for (int i = 0; i < size; ++i)
        gradients[at(i)] = static_cast<float>(adam_table::gradients[at(s)][at(i % 10)]);
      slice.update(table_adamw(), gradients, good(s + 1, table_adamw()));
      reference.step(s);
      for (int i = 0; i < size; ++i) {
        adam_table::Element const& e = reference.elements()[at(i)];
        largest = std::max({largest, std::abs(double{slice.weights[at(i)]} - e.weight),
                            std::abs(double{slice.states[at(i)]} - e.m),
                            std::abs(double{slice.states[at(n + i)]} - e.v)});
      }
      // Padding has weight and gradient 0 and keeps them.
      for (Index i = size; i < n; ++i) {
        CHECK((slice.weights[at(i)] == 0 && slice.states[at(i)] == 0 &&
               slice.states[at(n + i)] == 0));
      }
    }
  }
  CHECK(largest < 2e-6);
}

TEST_CASE("AdamW follows double over a thousand random elements and two hundred steps") {
  Index const n = 1024;
  Slice slice(n);
  std::vector<adam_table::Element> reference(at(n));
  for (Index i = 0; i < n; ++i) {
    slice.weights[at(i)] = static_cast<float>(zero::noise_normal(1, 0, i));
    reference[at(i)].weight = double{slice.weights[at(i)]};
  }
  AdamW const optimizer{.lr = 1e-3f, .weight_decay = 0.1f};
  adam_table::Rates const rates{double{optimizer.lr}, double{optimizer.beta1},
                                double{optimizer.beta2}, double{optimizer.eps},
                                double{optimizer.weight_decay}};
  // Gradients of different elements are of different size.
  auto const magnitude = [](Index i) { return std::ldexp(1.0, static_cast<int>(i % 16) - 8); };
  double largest_weight = 0;
  double largest_m = 0;
  double largest_v = 0;
  for (int t = 1; t <= 200; ++t) {
    std::vector<float> gradients(at(n));
    for (Index i = 0; i < n; ++i)
      gradients[at(i)] = static_cast<float>(zero::noise_normal(2, t, i) * magnitude(i));
    slice.update(optimizer, gradients, good(t, optimizer, 0.25f));
    for (Index i = 0; i < n; ++i) {
      adam_table::Element& e = reference[at(i)];
      double const g = 0.25 * double{gradients[at(i)]};
      e.update(t, g, rates);
      double const scale = 0.25 * magnitude(i);
      largest_weight = std::max(largest_weight, std::abs(double{slice.weights[at(i)]} - e.weight));
      largest_m = std::max(largest_m, std::abs(double{slice.states[at(i)]} - e.m) / scale);
      largest_v =
          std::max(largest_v, std::abs(double{slice.states[at(n + i)]} - e.v) / (scale * scale));
    }
  }
  // With e = 2^-24: an update rounds a weight below 4 by at most 2 e, 200 times, and each direction
  // of size below 10 by some 10 e of itself, times the rate. A moment is rounded three times an
  // update. In units of the gradients' magnitude, m is below 1.5 and remembers 10 updates; v is
  // 0.001 times the sum of at most 200 squares, below 0.4.
  double const e = std::ldexp(1.0, -24);
  double const weight_bound = 200 * (2 * e + 1e-3 * 100 * e);
  double const m_bound = 10 * 3 * e * 1.5;
  double const v_bound = 200 * 3 * e * 0.4;
  CHECK(largest_weight < weight_bound);
  CHECK(largest_weight > 0);
  CHECK(largest_m < m_bound);
  CHECK(largest_v < v_bound);
  MESSAGE("of their bounds: weights " << largest_weight / weight_bound << ", m "
                                      << largest_m / m_bound << ", v " << largest_v / v_bound);
}

TEST_CASE("bias correction starts at the first update and is computed in double") {
  AdamW const optimizer;
  CHECK(optimizer.constants(1).m_correction ==
        static_cast<float>(1 / (1 - static_cast<double>(0.9f))));
  CHECK(optimizer.constants(1).v_correction ==
        static_cast<float>(1 / (1 - static_cast<double>(0.999f))));
  CHECK(optimizer.constants(100'000).m_correction == 1);
  CHECK(optimizer.constants(100'000).v_correction == 1);
  CHECK(optimizer.constants(1000).v_correction ==
        doctest::Approx(1 / (1 - std::pow(0.999, 1000))).epsilon(1e-4));
}

TEST_CASE("decay and rate of a segment are that tensor's, and no other's") {
  AdamW const optimizer{.lr = 0.1f, .weight_decay = 0.5f};
  Slice slice(256);
  slice.weights.assign(256, 2.0f);
  slice.segments = {{0, 64, 0, 0, 1, 1}, {64, 128, 1, 0, 0, 1}, {128, 192, 2, 0, 1, 0.5f}};
  slice.update(optimizer, std::vector<float>(256, 1.0f), good(1, optimizer));
  // The first step's direction is 1 + 0.5 decay x 2.
  for (Index i = 0; i < 256; ++i) {
    CAPTURE(i);
    double const expected = i < 64 ? 2 - 0.1 * 2 : i < 128 ? 2 - 0.1 * 1 : 2 - 0.05 * 2;
    if (i < 192) CHECK(slice.weights[at(i)] == doctest::Approx(expected).epsilon(1e-6));
    if (i >= 192) CHECK((slice.weights[at(i)] == 2 && slice.states[at(i)] == 0));
  }
}

TEST_CASE("a rate scale of 0 keeps the weight and still moves the moments") {
  AdamW const optimizer{.lr = 0.1f};
  Slice slice(64);
  slice.weights.assign(64, 2.0f);
  slice.segments[0].lr_scale = 0;
  slice.update(optimizer, std::vector<float>(64, 1.0f), good(1, optimizer));
  CHECK(slice.weights[0] == 2);
  CHECK(slice.states[0] == doctest::Approx(0.1));
}

TEST_CASE("a skip leaves every bit as it is") {
  Slice slice(64);
  slice.rounded.resize(64);
  for (Index i = 0; i < 64; ++i) {
    slice.weights[at(i)] = static_cast<float>(zero::noise_normal(1, 0, i));
    slice.states[at(i)] = -0.0f;
    slice.states[at(64 + i)] = std::nanf("7");
    slice.rounded[at(i)].bits = static_cast<std::uint16_t>(0xff80 + i);
  }
  Slice const before = slice;
  Decision decision = good(3, AdamW{});
  decision.skip = 1;
  slice.update(AdamW{}, std::vector<float>(64, std::nanf("")), decision);
  CHECK(std::memcmp(slice.weights.data(), before.weights.data(), 64 * 4) == 0);
  CHECK(std::memcmp(slice.states.data(), before.states.data(), 128 * 4) == 0);
  CHECK(std::memcmp(slice.rounded.data(), before.rounded.data(), 64 * 2) == 0);
}

TEST_CASE("16-bit gradients are read as floats, and parameters are the weights rounded once") {
  AdamW const optimizer{.lr = 1e-2f};
  Slice floats(64);
  for (Index i = 0; i < 64; ++i)
    floats.weights[at(i)] = static_cast<float>(zero::noise_normal(1, 0, i));
  Slice shorts = floats;
  shorts.rounded.resize(64);
  for (Index t = 1; t <= 3; ++t) {
    std::vector<float> gradients(64);
    std::vector<bf16> short_gradients;
    for (Index i = 0; i < 64; ++i) {
      short_gradients.emplace_back(static_cast<float>(zero::noise_normal(2, t, i)));
      gradients[at(i)] = static_cast<float>(short_gradients.back());
    }
    floats.update(optimizer, gradients, good(t, optimizer, 0.125f));
    shorts.update(optimizer, short_gradients, good(t, optimizer, 0.125f));
    CHECK(shorts.weights == floats.weights);
    CHECK(shorts.states == floats.states);
    bool rounded_once = true;
    for (std::size_t i = 0; i < 64; ++i)
      rounded_once = rounded_once && shorts.rounded[i].bits == bf16(shorts.weights[i]).bits;
    CHECK(rounded_once);
  }
}

TEST_CASE("the factor of the decision multiplies the gradient before anything else") {
  AdamW const optimizer;
  Slice scaled(64);
  Slice plain(64);
  scaled.update(optimizer, std::vector<float>(64, 3.0f), good(1, optimizer, 0.5f));
  plain.update(optimizer, std::vector<float>(64, 1.5f), good(1, optimizer));
  CHECK(scaled.states == plain.states);
  CHECK(scaled.weights == plain.weights);
}

TEST_CASE("gradients of 0 decay the weight alone, and tiny ones stay finite") {
  AdamW const optimizer{.lr = 0.1f, .weight_decay = 0.5f};
  Slice slice(64);
  slice.weights.assign(64, 2.0f);
  slice.update(optimizer, std::vector<float>(64, 0.0f), good(1, optimizer));
  CHECK(slice.weights[0] == doctest::Approx(2 - 0.1 * 0.5 * 2));
  CHECK(slice.states[0] == 0);
  slice.update(optimizer, std::vector<float>(64, 1e-40f), good(2, optimizer));
  CHECK(std::isfinite(slice.weights[0]));
}

}  // namespace
