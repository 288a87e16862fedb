// SPDX-License-Identifier: Apache-2.0
#include <zero/core/noise.hpp>
#include <zero/optim/lamb.hpp>

#include <doctest/doctest.h>
#include <optim/slice.hpp>

#include <cmath>

namespace {

using namespace optim_test;
using zero::Lamb;

/// Six tensors over four slices of 3 x 64 elements: some cut by slice borders, one in a slice
/// alone.
Slice<Lamb> six_tensors() {
  Slice<Lamb> slice(768);
  slice.tensors = 6;
  slice.ranks = 4;
  slice.segments = {{0, 64, 0, 0, 1, 1, 0},    {64, 448, 1, 0, 0, 2, 1},
                    {448, 512, 2, 0, 1, 1, 2}, {512, 576, 3, 0, 1, 1, 3},
                    {576, 704, 4, 0, 1, 1, 4}, {704, 768, 5, 0, 1, 1, 5}};
  for (Index i = 0; i < 768; ++i)
    slice.weights[at(i)] = static_cast<float>(zero::noise_normal(1, 0, i));
  return slice;
}
std::vector<float> gradients_of(int t) {
  std::vector<float> gradients(768);
  for (Index i = 0; i < 768; ++i)
    gradients[at(i)] = static_cast<float>(zero::noise_normal(2, t, i));
  return gradients;
}

}  // namespace

TEST_CASE("a trust ratio is clamped, and 1 where a norm is 0") {
  Lamb const lamb;
  CHECK(lamb.trust_ratio(2, 1) == 2);
  CHECK(lamb.trust_ratio(1, 3) == static_cast<float>(1.0 / 3.0));
  CHECK(lamb.trust_ratio(0, 1) == 1);
  CHECK(lamb.trust_ratio(1, 0) == 1);
  CHECK(lamb.trust_ratio(0, 0) == 1);
  CHECK(lamb.trust_ratio(1000, 1) == 10);
  CHECK(lamb.trust_ratio(1, 1000) == 0.01f);
  Lamb const wide{.min_coeff = 0, .max_coeff = 1e9f};
  CHECK(wide.trust_ratio(1000, 1) == 1000);
  CHECK(wide.trust_ratio(1, 1000) == 0.001f);
}

TEST_CASE("sums of squares are those of whole tensors, in double") {
  Lamb const lamb{.weight_decay = 0.5f};
  Slice<Lamb> slice = six_tensors();
  std::vector<float> const gradients = gradients_of(1);
  slice.measure(lamb, gradients, good(1, lamb), 0, 4);
  for (Segment const& segment : slice.segments) {
    double weights = 0;
    double directions = 0;
    for (Index i = segment.begin; i < segment.end; ++i) {
      double const w = double{slice.weights[at(i)]};
      double const g = double{gradients[at(i)]};
      double const u = g / (std::abs(g) + 1e-8) + 0.5 * double{segment.decay} * w;  // t = 1
      weights += w * w;
      directions += u * u;
    }
    double sums[2] = {0, 0};
    for (Index r = 0; r < 4; ++r) {
      for (Index k = 0; k < 2; ++k) sums[k] += slice.norms[at(2 * (r * 6 + segment.trained) + k)];
    }
    CHECK(sums[0] == doctest::Approx(weights).epsilon(1e-14));  // squares of floats are exact
    CHECK(sums[1] == doctest::Approx(directions).epsilon(1e-5));
  }
}

TEST_CASE("a rank that measures its slice has the sums of one that measures all") {
  Lamb const lamb{.weight_decay = 0.5f};
  Slice<Lamb> whole = six_tensors();
  std::vector<float> const gradients = gradients_of(1);
  whole.measure(lamb, gradients, good(1, lamb), 0, 4);
  std::vector<double> gathered(whole.norms.size());
  for (Index r = 0; r < 4; ++r) {
    Slice<Lamb> mine(192);
    mine.tensors = 6;
    mine.ranks = 4;
    mine.segments.clear();
    for (Segment s : whole.segments) {
      s.first += std::max(r * 192 - s.begin, Index{0});
      s.begin = std::max(s.begin - r * 192, Index{0});
      s.end = std::min(s.end - r * 192, Index{192});
      if (s.begin < s.end) mine.segments.push_back(s);
    }
    std::vector<float> const part(gradients.begin() + r * 192, gradients.begin() + (r + 1) * 192);
    std::copy_n(whole.weights.begin() + r * 192, 192, mine.weights.begin());
    mine.measure(lamb, part, good(1, lamb), r);
    for (Index i = r * 12; i < (r + 1) * 12; ++i) gathered[at(i)] = mine.norms[at(i)];
  }
  CHECK(gathered == whole.norms);
}

TEST_CASE("measuring moves nothing, and a skip measures nothing") {
  Lamb const lamb;
  Slice<Lamb> slice = six_tensors();
  Slice<Lamb> const before = slice;
  Decision skip = good(1, lamb);
  skip.skip = 1;
  slice.measure(lamb, std::vector<float>(768, std::nanf("")), skip, 0, 4);
  CHECK(slice.norms == std::vector<double>(48));
  slice.measure(lamb, gradients_of(1), good(1, lamb), 0, 4);
  CHECK(slice.norms != std::vector<double>(48));
  CHECK(slice.weights == before.weights);
  CHECK(slice.states == before.states);
}

TEST_CASE("each tensor moves by its own ratio: lr times the weights' norm, whatever the gradient") {
  Lamb const lamb{.lr = 0.125f, .min_coeff = 0, .max_coeff = 1e9f};
  Slice<Lamb> slice = six_tensors();
  Slice<Lamb> const before = slice;
  slice.measure(lamb, gradients_of(1), good(1, lamb), 0, 4);
  slice.update(lamb, gradients_of(1), good(1, lamb));
  for (Segment const& segment : slice.segments) {
    double moved = 0;
    double weights = 0;
    for (Index i = segment.begin; i < segment.end; ++i) {
      double const w = double{before.weights[at(i)]};
      moved += std::pow(double{slice.weights[at(i)]} - w, 2);
      weights += w * w;
    }
    double const expected = 0.125 * double{segment.lr_scale} * std::sqrt(weights);
    CHECK(std::sqrt(moved) == doctest::Approx(expected).epsilon(1e-5));
  }
}
