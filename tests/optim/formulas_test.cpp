// SPDX-License-Identifier: Apache-2.0
// Every optimizer of the menu against its formula in double, element by element and step by step:
// each step starts from the floats that the step before left, so that a bound is what one update
// may round. The bound is computed beside the value (support/bounded.hpp).
#include <zero/core/noise.hpp>

#include <doctest/doctest.h>
#include <optim/reference.hpp>
#include <optim/slice.hpp>

#include <algorithm>
#include <string>
#include <type_traits>

namespace {

using namespace optim_test;
using zero_test::Bounded;

/// Gradients of many sizes, 0 among them.
float gradient_of(int t, Index i) {
  if (i % 17 == 3) return 0;
  double const size = std::ldexp(1.0, static_cast<int>(i % 24) - 16);
  return static_cast<float>(zero::noise_normal(2, t, i) * size);
}

/// What rounding by chance adds to a state's distance: it takes one of the two neighbours, each
/// less than a step of bf16 away. Directions are made of states before that.
template <class P>
double last_place(Bounded state) {
  if (std::is_same_v<typename zero::StorageOf<P>::State, float>) return 0;
  double const largest = std::abs(state.value) + state.error;
  return std::ldexp(1.0, std::max(std::ilogb(largest), -126) - 7);  // 8 bits, the first one implied
}

/// Largest distance from the reference, as a part of its bound; above 1: wrong. Two tensors, one of
/// them with a decay and a rate of its own.
/// @tparam P as in zero::Update; the weights are float
/// @param factor what the schedule multiplies the rate by in an update, from 1; null: 1
template <class P, class O>
double part_of_bound(O const& optimizer, double (*factor)(int) = nullptr) {
  constexpr Index n = 1024;
  Slice<O, P> slice(n);
  slice.segments = {{0, 640, 0, 0, 1, 1, 0}, {640, n, 1, 0, 0.5f, 0.25f, 1}};
  slice.tensors = 2;
  for (Index i = 0; i < n; ++i)
    slice.weights[at(i)] = i % 19 == 5 ? 0 : static_cast<float>(zero::noise_normal(1, 0, i));
  double largest = 0;
  for (int t = 1; t <= 60; ++t) {
    std::vector<float> gradients(at(n));
    for (Index i = 0; i < n; ++i) gradients[at(i)] = gradient_of(t, i);
    Decision const decision = good(t, optimizer, 0.25f);  // a power of two multiplies exactly
    if constexpr (zero::HasTrustRatio<O>) slice.measure(optimizer, gradients, decision);
    Slice<O, P> const before = slice;
    slice.update(optimizer, gradients, decision);
    for (Segment const& segment : slice.segments) {
      std::vector<Bounded> directions;
      double squares[2] = {0, 0};
      double slack[2] = {0, 0};
      for (Index i = segment.begin; i < segment.end; ++i) {
        Bounded s[2] = {};
        for (int k = 0; k < O::num_states; ++k) s[k] = double{before.state(k, i)};
        double const w = double{before.weight(i)};
        double const g = 0.25 * double{gradients[at(i)]};
        Bounded const u = reference::direction(optimizer, t, w, g, s, segment.decay);
        directions.push_back(u);
        squares[0] += w * w;
        squares[1] += u.value * u.value;
        slack[1] += 2 * std::abs(u.value) * u.error + u.error * u.error;
        for (int k = 0; k < O::num_states; ++k) {
          double const off = std::abs(double{slice.state(k, i)} - s[k].value);
          largest = std::max(largest, off == 0 ? 0 : off / (s[k].error + last_place<P>(s[k])));
        }
      }
      Bounded const scheduled =
          Bounded::rounded(reference::rate(optimizer, t) * (factor == nullptr ? 1 : factor(t)), 0);
      Bounded rate = scheduled * Bounded(double{segment.lr_scale});
      if constexpr (zero::HasTrustRatio<O>) {
        double ratio = 1;
        double error = 0;
        if (squares[0] > 0 && squares[1] > 0) {
          ratio = std::sqrt(squares[0] / squares[1]);
          error = ratio * slack[1] / squares[1];
          ratio =
              std::min(std::max(ratio, double{optimizer.min_coeff}), double{optimizer.max_coeff});
        }
        rate = rate * Bounded::rounded(ratio, error);
      }
      for (Index i = segment.begin; i < segment.end; ++i) {
        Bounded const w =
            Bounded(double{before.weight(i)}) - rate * directions[at(i - segment.begin)];
        double const off = std::abs(double{slice.weight(i)} - w.value);
        largest = std::max(largest, off == 0 ? 0 : off / w.error);
      }
    }
  }
  return largest;
}

template <class P = float, class O>
void check(std::string const& name, O const& optimizer, double (*factor)(int) = nullptr) {
  CAPTURE(name);
  double const part = part_of_bound<P>(optimizer, factor);
  CHECK(part <= 1);
  CHECK(part > 0.01);  // it is a bound on rounding, and there is rounding
  MESSAGE(name << ": " << part << " of the bound");
}

}  // namespace

TEST_CASE("every optimizer follows its formula in double, element by element") {
  check("AdamW", zero::AdamW{.lr = 1e-2f, .weight_decay = 0.1f});
  check("Adam", zero::Adam{.lr = 1e-2f, .weight_decay = 0.1f});
  check("Lion", zero::Lion{.lr = 1e-2f, .weight_decay = 0.1f});
  check("Adagrad", zero::Adagrad{.lr = 1e-2f, .lr_decay = 0.125f, .weight_decay = 0.1f});
  check("Sgd", zero::Sgd{.lr = 1e-2f, .weight_decay = 0.1f});
  check("Sgd, momentum", zero::Sgd{.lr = 1e-2f, .momentum = 0.9f, .weight_decay = 0.1f});
  check("Sgd, dampening", zero::Sgd{.lr = 1e-2f, .momentum = 0.9f, .dampening = 0.5f});
  check("Sgd, Nesterov",
        zero::Sgd{.lr = 1e-2f, .momentum = 0.9f, .weight_decay = 0.1f, .nesterov = true});
  check("Lamb", zero::Lamb{.lr = 1e-2f, .weight_decay = 0.1f});
  check("Lamb, DeepSpeed's correction",
        zero::Lamb{.lr = 1e-2f, .weight_decay = 0.1f, .correction = zero::LambCorrection::rate});
  check("Lamb, no correction", zero::Lamb{.lr = 1e-2f, .correction = zero::LambCorrection::none});
}

TEST_CASE("every optimizer follows its formula with states of bf16, element by element") {
  using Short = zero::Stored<float, zero::bf16>;
  check<Short>("AdamW", zero::AdamW{.lr = 1e-2f, .weight_decay = 0.1f});
  check<Short>("Adam", zero::Adam{.lr = 1e-2f, .weight_decay = 0.1f});
  check<Short>("Lamb", zero::Lamb{.lr = 1e-2f, .weight_decay = 0.1f});
  check<Short>("Lion", zero::Lion{.lr = 1e-2f, .weight_decay = 0.1f});
  check<Short>("Adagrad", zero::Adagrad{.lr = 1e-2f, .lr_decay = 0.125f, .weight_decay = 0.1f});
  check<Short>("Sgd", zero::Sgd{.lr = 1e-2f, .momentum = 0.9f, .nesterov = true});
}

TEST_CASE("a tensor's own rate follows the schedule, whatever the optimizer") {
  // Update t has the rate of t - 1 calls: up to lr in 10 of them, then a cosine that is 0 at 50
  // and, as transformers', goes on.
  double (*const factor)(int) = [](int t) {
    int const c = t - 1;
    if (c < 10) return c / 10.0;
    double const pi = 3.14159265358979323846;
    return 0.5 * (1 + std::cos(pi * (c - 10) / 40.0));
  };
  zero::LearningRate const cosine = zero::LearningRate::cosine(10, 50);
  check("AdamW", zero::AdamW{.lr = 1e-2f, .weight_decay = 0.1f, .schedule = cosine}, factor);
  check("Adam", zero::Adam{.lr = 1e-2f, .weight_decay = 0.1f, .schedule = cosine}, factor);
  check("Lion", zero::Lion{.lr = 1e-2f, .weight_decay = 0.1f, .schedule = cosine}, factor);
  check("Adagrad", zero::Adagrad{.lr = 1e-2f, .weight_decay = 0.1f, .schedule = cosine}, factor);
  check("Sgd", zero::Sgd{.lr = 1e-2f, .momentum = 0.9f, .schedule = cosine}, factor);
  check("Lamb", zero::Lamb{.lr = 1e-2f, .weight_decay = 0.1f, .schedule = cosine}, factor);
}

TEST_CASE("the first update: Adam's has length lr, momentum starts as the gradient itself") {
  std::vector<float> const gradients(64, 0.5f);
  auto const moved = [&](auto const& optimizer) {
    Slice<std::remove_cvref_t<decltype(optimizer)>> slice(64);
    slice.weights.assign(64, 2.0f);
    slice.update(optimizer, gradients, good(1, optimizer));
    return 2 - slice.weights[0];
  };
  CHECK(moved(zero::Adam{.lr = 0.125f}) == doctest::Approx(0.125));
  CHECK(moved(zero::Lion{.lr = 0.125f}) == 0.125f);
  CHECK(moved(zero::Adagrad{.lr = 0.125f}) == doctest::Approx(0.125));
  CHECK(moved(zero::Sgd{.lr = 0.125f}) == 0.0625f);
  CHECK(moved(zero::Sgd{.lr = 0.125f, .momentum = 0.9f}) == 0.0625f);
  // Dampening does not touch the first gradient, as in PyTorch.
  CHECK(moved(zero::Sgd{.lr = 0.125f, .momentum = 0.9f, .dampening = 0.75f}) == 0.0625f);
  CHECK(moved(zero::Sgd{.lr = 0.125f, .momentum = 0.5f, .nesterov = true}) == 0.09375f);
}

TEST_CASE("Lion: where there was never a gradient nothing moves but by decay") {
  zero::Lion const optimizer{.lr = 0.25f};
  Slice<zero::Lion> slice(64);
  slice.weights.assign(64, 2.0f);
  for (Index t = 1; t <= 10; ++t)
    slice.update(optimizer, std::vector<float>(64, t % 2 == 0 ? 0.0f : -0.0f), good(t, optimizer));
  CHECK(slice.weights == std::vector<float>(64, 2.0f));
  zero::Lion const decays{.lr = 0.25f, .weight_decay = 0.5f};
  slice.update(decays, std::vector<float>(64, 0.0f), good(11, decays));
  CHECK(slice.weights[0] == 1.75f);
}

TEST_CASE("Lion takes its sign before the momentum moves") {
  // beta1 m + (1 - beta1) g = 0.5 - 0.25 > 0, while the moved momentum would be 0.
  zero::Lion const optimizer{.lr = 1, .beta1 = 0.75f, .beta2 = 0.5f};
  Slice<zero::Lion> slice(64);
  slice.states.assign(64, 1.0f);
  slice.update(optimizer, std::vector<float>(64, -1.0f), good(1, optimizer));
  CHECK(slice.weights[0] == -1);
  CHECK(slice.states[0] == 0);
}

TEST_CASE("Adagrad's rate falls with lr_decay from the second update on") {
  zero::Adagrad const optimizer{.lr = 0.5f, .lr_decay = 0.25f};
  CHECK(optimizer.learning_rate(1) == 0.5f);
  CHECK(optimizer.learning_rate(2) == 0.4f);
  CHECK(optimizer.learning_rate(5) == 0.25f);
}

TEST_CASE("without weight decay Adam is AdamW to the bit") {
  Slice<zero::Adam> adam(64);
  Slice<zero::AdamW> adamw(64);
  for (Index i = 0; i < 64; ++i)
    adam.weights[at(i)] = adamw.weights[at(i)] = static_cast<float>(zero::noise_normal(1, 0, i));
  for (int t = 1; t <= 5; ++t) {
    std::vector<float> gradients(64);
    for (Index i = 0; i < 64; ++i) gradients[at(i)] = gradient_of(t, i);
    adam.update(zero::Adam{}, gradients, good(t, zero::Adam{}));
    adamw.update(zero::AdamW{.weight_decay = 0}, gradients, good(t, zero::AdamW{}));
  }
  CHECK(adam.weights == adamw.weights);
  CHECK(adam.states == adamw.states);
}

TEST_CASE("every optimizer has the rate of its schedule, and keeps padding 0") {
  auto const holds = [](auto optimizer) {
    using O = decltype(optimizer);
    optimizer.lr = 0.5f;
    optimizer.schedule = zero::LearningRate::linear(4, 8);
    CHECK(optimizer.learning_rate(3) == doctest::Approx(0.25));
    Slice<O> slice(64);
    if constexpr (zero::HasTrustRatio<O>)
      slice.measure(optimizer, std::vector<float>(64), good(3, optimizer));
    slice.update(optimizer, std::vector<float>(64), good(3, optimizer));
    CHECK(slice.weights == std::vector<float>(64));
    CHECK(slice.states == std::vector<float>(at(64 * O::num_states)));
  };
  holds(zero::AdamW{});
  holds(zero::Adam{.weight_decay = 0.5f});
  holds(zero::Lamb{.weight_decay = 0.5f});
  holds(zero::Lion{.weight_decay = 0.5f});
  holds(zero::Adagrad{.weight_decay = 0.5f});
  holds(zero::Sgd{.momentum = 0.5f, .weight_decay = 0.5f, .nesterov = true});
}
