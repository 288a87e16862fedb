// SPDX-License-Identifier: Apache-2.0
// Updates whose states are bf16, and whose master weights are cut in two halves.
#include <zero/core/noise.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lion.hpp>

#include <doctest/doctest.h>
#include <optim/slice.hpp>

#include <bit>
#include <cmath>

namespace {

using namespace optim_test;
using zero::AdamW;
using zero::bf16;
using zero::Stored;

std::vector<bf16> gradients_of(int t, Index n) {
  std::vector<bf16> gradients;
  for (Index i = 0; i < n; ++i)
    gradients.emplace_back(static_cast<float>(zero::noise_normal(2, t, i)));
  return gradients;
}

}  // namespace

TEST_CASE("halves of the master weights keep the bits of whole ones") {
  constexpr Index n = 4096;
  AdamW const optimizer{.lr = 1e-2f, .weight_decay = 0.1f};
  Slice<AdamW, bf16> whole(n);
  Slice<AdamW, Stored<bf16, float, true>> split(n);
  whole.rounded.resize(n);
  split.rounded.resize(n);
  for (Index i = 0; i < n; ++i) {
    float const w = static_cast<float>(zero::noise_normal(1, 0, i));
    whole.weights[at(i)] = w;
    split.rounded[at(i)] = zero::UpperHalf(w).rounded();
    split.weights[at(i)] = zero::LowerHalf(w);
  }
  for (int t = 1; t <= 20; ++t) {
    whole.update(optimizer, gradients_of(t, n), good(t, optimizer));
    split.update(optimizer, gradients_of(t, n), good(t, optimizer));
    bool same = true;
    for (Index i = 0; i < n; ++i) {
      same = same && std::bit_cast<std::uint32_t>(split.weight(i)) ==
                         std::bit_cast<std::uint32_t>(whole.weight(i));
      // Rounded to nearest both; only ties differ, and there by one step.
      bool const tie = (std::bit_cast<std::uint32_t>(whole.weight(i)) & 0xffffu) == 0x8000u;
      same = same && (tie || split.rounded[at(i)].bits == whole.rounded[at(i)].bits);
    }
    CHECK(same);
    CHECK(split.states == whole.states);
  }
}

TEST_CASE("states of bf16 are float states rounded up or down, and right in the mean") {
  // One update from zero states: m = 0.1 g, and v = 0.001 g^2, for one gradient in many elements.
  constexpr Index n = 1 << 16;
  AdamW const optimizer;
  float const g = 1.2345678f;
  Slice<AdamW, Stored<float, bf16>> slice(n);
  slice.update(optimizer, std::vector<float>(n, g), good(1, optimizer));
  double const exact[] = {(1 - double{0.9f}) * double{g},
                          (1 - double{0.999f}) * double{g} * double{g}};
  for (int k = 0; k < 2; ++k) {
    double const step = std::ldexp(1.0, std::ilogb(exact[k]) - 7);  // between neighbours
    double sum = 0;
    bool neighbours = true;
    for (Index i = 0; i < n; ++i) {
      double const s = double{slice.state(k, i)};
      neighbours = neighbours && std::abs(s - exact[k]) < step;
      sum += s;
    }
    CHECK(neighbours);
    // n draws of a deviation below step / 2: the mean is off by more than 5 step / 2 / sqrt(n) once
    // in a million.
    CHECK(std::abs(sum / n - exact[k]) < 5 * step / 2 / std::sqrt(double{n}));
  }
}

TEST_CASE("a state that moves by less than half of its last bit still moves") {
  // v stays near 1 under gradients of 1.1: each update adds 2e-4, a 20th of a bf16 step above 1.
  constexpr Index n = 4096;
  AdamW const optimizer{.lr = 0};
  Slice<AdamW, Stored<float, bf16>> slice(n);
  for (Index i = 0; i < n; ++i) slice.states[at(n + i)] = bf16(1.0f);
  for (int t = 1; t <= 100; ++t)
    slice.update(optimizer, std::vector<float>(n, 1.1f), good(t, optimizer));
  double mean = 0;
  for (Index i = 0; i < n; ++i) mean += double{slice.state(1, i)} / n;
  double const g2 = double{1.1f} * double{1.1f};
  double const expected = g2 + (1 - g2) * std::pow(double{0.999f}, 100);
  CHECK(bf16(1.0f + 2e-4f).bits == bf16(1.0f).bits);  // rounding to nearest would stay at 1
  // A hundred roundings of a deviation below 2^-7 / 2 in each of 4096 elements: 5 of their mean's.
  CHECK(std::abs(mean - expected) < 5 * std::ldexp(1.0, -8) * 10 / 64);
}

TEST_CASE("the noise is that of seed, update, tensor, element and state, and of nothing else") {
  constexpr Index n = 256;
  AdamW const optimizer;
  using Short = Slice<AdamW, Stored<float, bf16>>;
  auto const run = [&](auto change) {
    Short slice(n);
    slice.segments = {{0, 128, 3, 0, 1, 1}, {128, n, 4, 0, 1, 1}};
    Index t = 7;
    change(slice, t);
    slice.update(optimizer, std::vector<float>(n, 0.7f), good(t, optimizer));
    std::vector<std::uint16_t> bits;
    for (bf16 s : slice.states) bits.push_back(s.bits);
    return bits;
  };
  auto const plain = run([](Short&, Index&) {});
  CHECK(run([](Short&, Index&) {}) == plain);
  CHECK(run([](Short& s, Index&) { s.seed = 2; }) != plain);
  CHECK(run([](Short&, Index& t) { t = 8; }) != plain);
  CHECK(run([](Short& s, Index&) { s.segments[0].tensor = 5; }) != plain);
  // The two tensors of equal gradients are rounded differently, and so are the two states.
  CHECK(std::vector(plain.begin(), plain.begin() + 128) !=
        std::vector(plain.begin() + 128, plain.begin() + 256));
  // A rank that owns the second half of the second tensor alone has its very bits.
  Short part(64);
  part.segments = {{0, 64, 4, 64, 1, 1}};
  part.update(optimizer, std::vector<float>(64, 0.7f), good(7, optimizer));
  for (Index i = 0; i < 64; ++i) {
    CHECK(part.states[at(i)].bits == plain[at(192 + i)]);
    CHECK(part.states[at(64 + i)].bits == plain[at(n + 192 + i)]);
  }
}
