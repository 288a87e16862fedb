// SPDX-License-Identifier: Apache-2.0
#include <zero/model/initial.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace {

using zero::at;
using zero::Index;
using zero::Initial;

/// `count` elements from `first` on, as a device writes them.
template <class T>
std::vector<T> written(Initial const& initial, std::uint64_t seed, Index tensor, Index first,
                       Index count) {
  std::vector<T> values(at(count), T(-77.0f));
  zero::HostStream stream;
  zero::initialise(stream, zero::View<T, zero::Host>(values.data(), count), initial, seed, tensor,
                   first);
  return values;
}

TEST_CASE("constants, zeros and functions of the element are what they say") {
  CHECK(Initial().value(1, 2, 3) == 0);
  CHECK(Initial::constant(1.5).value(1, 2, 3) == 1.5f);
  CHECK(Initial::constant(0.1).value(9, 9, 9) == 0.1f);
  auto const ramp = Initial::function([](Index i) { return static_cast<float>(i) * 0.5f; });
  CHECK(ramp.value(1, 2, 7) == 3.5f);
  CHECK(written<float>(ramp, 1, 0, 10, 3) == std::vector<float>{5.0f, 5.5f, 6.0f});
  constexpr Index far = Index{1} << 40;
  auto const number = Initial::function([](Index i) { return static_cast<float>(i - far); });
  CHECK(written<float>(number, 1, 0, far, 2) == std::vector<float>{0.0f, 1.0f});
}

TEST_CASE("normal and uniform values have their mean, deviation and range") {
  Index const n = 50'000;
  double sum = 0;
  double squares = 0;
  auto const normal = Initial::normal(0.02, 0.5);
  for (Index i = 0; i < n; ++i) {
    double const x = (double{normal.value(1, 0, i)} - 0.5) / 0.02;
    sum += x;
    squares += x * x;
  }
  double const root = std::sqrt(static_cast<double>(n));
  CHECK(std::abs(sum / static_cast<double>(n)) < 6 / root);
  CHECK(std::abs(squares / static_cast<double>(n) - 1) < 6 * std::sqrt(2.0) / root);

  auto const uniform = Initial::uniform(-3, 5);
  sum = 0;
  bool inside = true;
  for (Index i = 0; i < n; ++i) {
    float const x = uniform.value(1, 0, i);
    inside = inside && x >= -3 && x <= 5;
    sum += double{x};
  }
  CHECK(inside);
  CHECK(std::abs(sum / static_cast<double>(n) - 1) < 6 * 8 / std::sqrt(12.0) / root);
}

TEST_CASE("a slice holds the bits that the whole tensor holds there") {
  Index const n = 1000;
  for (Initial const& initial : {Initial::normal(0.02), Initial::uniform(-1, 1)}) {
    std::vector<float> const whole = written<float>(initial, 5, 3, 0, n);
    for (Index parts : {2, 3, 7}) {
      std::vector<float> joined;
      for (Index p = 0; p < parts; ++p) {
        Index const begin = p * n / parts;
        auto const part = written<float>(initial, 5, 3, begin, (p + 1) * n / parts - begin);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      CHECK(joined == whole);
    }
  }
}

TEST_CASE("tensors and seeds have values of their own") {
  auto const normal = Initial::normal(1);
  auto const base = written<float>(normal, 1, 0, 0, 100);
  CHECK(written<float>(normal, 1, 0, 0, 100) == base);
  CHECK(written<float>(normal, 2, 0, 0, 100) != base);
  CHECK(written<float>(normal, 1, 1, 0, 100) != base);
  CHECK(written<float>(normal, 1, 0, 1, 100) != base);
}

TEST_CASE("short types hold the float value rounded once") {
  auto const normal = Initial::normal(1);
  auto const floats = written<float>(normal, 1, 4, 0, 500);
  auto const shorts = written<zero::bf16>(normal, 1, 4, 0, 500);
  auto const halves = written<zero::fp16>(normal, 1, 4, 0, 500);
  bool equal = true;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    equal = equal && shorts[i].bits == zero::bf16(floats[i]).bits &&
            halves[i].bits == zero::fp16(floats[i]).bits;
  }
  CHECK(equal);
}

TEST_CASE("the values are fixed for all time: a later library starts a model alike") {
  // The doubles of core/noise_test.cpp, rounded to float.
  CHECK(Initial::normal(1).value(1, 0, 0) == 0.13724914932873378f);
  CHECK(Initial::normal(2, 10).value(1, 0, 1) == static_cast<float>(10 + 2 * 1.287962862854164));
  CHECK(Initial::uniform(0, 1).value(1, 1, 0) == 0.7867101553239042f);
}

}  // namespace
