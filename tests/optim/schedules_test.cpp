// SPDX-License-Identifier: Apache-2.0
// Schedules against tables of DeepSpeed's numbers, and against the formulas of DeepSpeed and
// transformers written out here in double. What is compared differs by the order of a few double
// operations alone: 16 roundings of 2^-53.
#include <zero/optim/adamw.hpp>
#include <zero/optim/learning_rate.hpp>
#include <zero/optim/momentum.hpp>

#include <doctest/doctest.h>
#include <support/schedule_table.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <type_traits>

namespace {

using zero::Index;
using zero::LearningRate;
using zero::Momentum;
using zero::OneCycle;
using zero::Ramp;
using zero::Warmup;

using Formula = std::function<double(Index calls)>;

constexpr double pi = std::numbers::pi;

bool close(double a, double b) { return std::abs(a - b) <= 16 * 0x1p-53 * std::abs(b); }

void check_table(LearningRate const& rate, double lr, std::vector<double> const& table) {
  for (std::size_t c = 0; c < table.size(); ++c) {
    CAPTURE(c);
    CHECK(close(lr * rate.factor(static_cast<Index>(c) + 1), table[c]));
  }
}

void check_formula(LearningRate const& rate, Formula const& formula, Index most = 40) {
  for (Index c = 0; c < most; ++c) {
    CAPTURE(c);
    CHECK(close(rate.factor(c + 1), formula(c)));
  }
}

double d(Index n) { return static_cast<double>(n); }

TEST_CASE("DeepSpeed's schedules have the numbers of the tables") {
  Warmup const ten{.updates = 10, .ramp = Ramp::linear};
  check_table(LearningRate::warmup(ten), 1e-3, schedule_table::warmup_linear);
  check_table(LearningRate::warmup({.updates = 10}), 1e-3, schedule_table::warmup_log);
  Warmup const five{.updates = 5, .ramp = Ramp::linear};
  check_table(LearningRate::warmup_decay(five, 20), 1e-3, schedule_table::warmup_decay);
  check_table(LearningRate::warmup_cosine(five, 20), 1e-3, schedule_table::warmup_cosine);
  check_table(LearningRate::one_cycle({.up = 5}, 0.1), 1e-3, schedule_table::one_cycle);
  check_table(LearningRate::range_test({.updates = 5}), 1e-4, schedule_table::range_test);
}

TEST_CASE("a momentum cycles against the rate, with the numbers of the table") {
  Momentum const momentum = Momentum::one_cycle({.up = 5});
  auto const& table = schedule_table::one_cycle_momentum;
  for (std::size_t c = 0; c < table.size(); ++c) {
    CAPTURE(c);
    CHECK(close(momentum.value(static_cast<Index>(c) + 1), table[c]));
  }
}

TEST_CASE("DeepSpeed's warm-ups, from any start, in both ramps, of any length") {
  for (Index n : {1, 2, 3, 7, 10}) {
    for (double start : {0.0, 0.25, 1.0}) {
      for (Ramp ramp : {Ramp::linear, Ramp::logarithmic}) {
        CAPTURE(n);
        CAPTURE(start);
        Warmup const warmup{n, start, ramp};
        Index const w = std::max<Index>(2, n);
        auto const gamma = [&](Index i) {
          if (i < 0) return 0.0;
          if (i >= w) return 1.0;
          return ramp == Ramp::linear ? d(i) / d(w) : std::log(d(i + 1)) / std::log(d(w));
        };
        check_formula(LearningRate::warmup(warmup),
                      [&](Index c) { return start + (1 - start) * gamma(c - 1); });
        for (Index total : {0, 5, 20}) {
          check_formula(LearningRate::warmup_decay(warmup, total), [&](Index c) {
            Index const i = c - 1;
            double const fall = std::max(0.0, d(total - i) / d(std::max<Index>(1, total - w)));
            return start + (1 - start) * (i < w ? gamma(i) : fall);
          });
          double const end = 0.125;
          check_formula(LearningRate::warmup_cosine(warmup, total, end), [&](Index c) {
            Index const i = c - 1;
            if (i < 0) return 0.0;
            if (i < w) return start + (1 - start) * gamma(i);
            double const p = std::min(1.0, d(i - w + 1) / d(std::max<Index>(1, total - w)));
            return end + (1 - end) * (1 + std::cos(pi * p)) / 2;
          });
        }
      }
    }
  }
}

TEST_CASE("transformers' schedules, degenerate lengths too") {
  for (Index warmup : {0, 1, 3, 10, 25}) {
    for (Index total : {0, 1, 3, 20, 21}) {
      CAPTURE(warmup);
      CAPTURE(total);
      double const span = d(std::max<Index>(1, total - warmup));
      auto const rise = [&](Index c) { return d(c) / d(std::max<Index>(1, warmup)); };
      check_formula(LearningRate::constant_with_warmup(warmup),
                    [&](Index c) { return c < warmup ? rise(c) : 1.0; });
      check_formula(LearningRate::linear(warmup, total), [&](Index c) {
        return c < warmup ? rise(c) : std::max(0.0, d(total - c) / span);
      });
      for (double cycles : {0.5, 1.0, 2.25}) {
        check_formula(LearningRate::cosine(warmup, total, cycles), [&](Index c) {
          if (c < warmup) return rise(c);
          double const p = d(c - warmup) / span;
          return std::max(0.0, 0.5 * (1 + std::cos(pi * cycles * 2 * p)));
        });
      }
      for (double power : {1.0, 2.0, 0.5}) {
        double const end = 1e-7 / 5e-5;  // lr_end / lr
        check_formula(LearningRate::polynomial(warmup, total, power, end), [&](Index c) {
          if (c < warmup) return rise(c);
          if (c > total) return end;
          double const left = 1 - d(c - warmup) / span;
          return (1 - end) * std::pow(left, power) + end;
        });
      }
    }
  }
}

/// DeepSpeed's OneCycle: its height after `calls`, by way of its real-valued x.
double cycle_height(Index calls, Index up, Index down) {
  double const whole = d(up + down);
  double const cycle = std::floor(1 + d(calls) / whole);
  double const x = 1 + d(calls) / whole - cycle;
  double const ratio = d(up) / whole;
  return x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
}

TEST_CASE("a cycle rises and falls in its own lengths, then decays") {
  for (Index up : {1, 4, 8}) {
    for (Index down : {1, 2, 8}) {  // sums of which some are no powers of two: 1 + x rounds
      OneCycle const cycle{.up = up, .down = down, .decay_updates = 3};
      LearningRate const rate = LearningRate::one_cycle(cycle, 0.25, 0.5);
      Momentum const momentum = Momentum::one_cycle(cycle, 0.5, 0.75, 0.0625);
      for (Index c = 0; c < 40; ++c) {
        CAPTURE(up);
        CAPTURE(down);
        CAPTURE(c);
        bool const over = c > up + down;
        double const a = over ? 0 : cycle_height(c, up, down);
        double const k = d(c - up - down) / 3;
        double const expected = over ? 0.25 / (1 + 0.5 * k) : 0.25 + 0.75 * a;
        // x loses 2^-53 where 1 is added to it, and is divided by down / S >= 1/9.
        CHECK(std::abs(rate.factor(c + 1) - expected) <= 32 * 0x1p-53);
        double const moving = over ? 0.75 * (1 + 0.0625 * k) : 0.75 - 0.25 * a;
        double const first = 0.5;  // DeepSpeed sets it at construction, whatever the formula says
        CHECK(std::abs(momentum.value(c + 1) - (c == 0 ? first : std::min(moving, 1.0))) <=
              0x1p-24);
        CHECK(static_cast<float>(momentum.value(c + 1)) < 1);
      }
    }
  }
}

TEST_CASE("stairs of a cycle, counted by hand") {
  // Up 4 updates on 2 stairs: 0 0 1/2 1/2 1; down 6 on 3: floor(rest * 3 / 6) / 3.
  LearningRate const rate =
      LearningRate::one_cycle({.up = 4, .down = 6, .up_stairs = 2, .down_stairs = 3}, 0);
  double const third = 1.0 / 3;
  std::vector<double> const expected{0, 0, 0.5, 0.5, 1, 2 * third, 2 * third, third, third, 0, 0};
  for (std::size_t c = 0; c < expected.size(); ++c)
    CHECK(rate.factor(static_cast<Index>(c) + 1) == doctest::Approx(expected[c]).epsilon(1e-15));
  // The second count defaults to the first.
  LearningRate const same = LearningRate::one_cycle({.up = 4, .up_stairs = 2}, 0);
  CHECK(same.factor(6) == 0.5);  // three updates are left of the fall: floor(3 * 2 / 4) / 2
}

TEST_CASE("a range test grows in a line or on a staircase") {
  for (bool staircase : {false, true}) {
    check_formula(LearningRate::range_test({.updates = 4, .rate = 0.5, .staircase = staircase}),
                  [&](Index c) {
                    double const t = d(c) / 4;
                    return 1 + 0.5 * (staircase ? std::floor(t) : t);
                  });
  }
}

TEST_CASE("a warm-up of no updates is none") {
  for (Ramp ramp : {Ramp::linear, Ramp::logarithmic}) {
    Warmup const none{.updates = 0, .ramp = ramp};
    check_formula(LearningRate::warmup(none), [](Index) { return 1.0; });
    check_formula(LearningRate::warmup_decay(none, 10),
                  [](Index c) { return std::clamp(d(11 - c) / 10, 0.0, 1.0); });
    CHECK(LearningRate::warmup_cosine(none, 10).factor(1) == 1);
    CHECK(LearningRate::warmup_cosine(none, 10, 0.5).factor(11) == 0.5);
  }
  CHECK(LearningRate::constant_with_warmup(0).factor(1) == 1);
  CHECK(LearningRate::cosine(0, 10).factor(1) == 1);
  CHECK(LearningRate::polynomial(0, 10).factor(1) == 1);
}

TEST_CASE("shifted forms learn from the first update to the last of the total") {
  Warmup const linear{.updates = 4, .ramp = Ramp::linear};
  Warmup const logarithmic{.updates = 4};
  LearningRate const all[] = {LearningRate::warmup_decay(linear, 10).shifted(),
                              LearningRate::warmup_decay(logarithmic, 10).shifted(),
                              LearningRate::linear(4, 10).shifted(),
                              LearningRate::polynomial(4, 10).shifted()};
  for (LearningRate const& rate : all) {
    CHECK(rate.factor(1) > 0);
    CHECK(rate.factor(10) > 0);
    CHECK(rate.factor(11) == 0);
    CHECK(rate.factor(4) == 1);
  }
  for (LearningRate const& rate : {all[0], all[2], all[3]}) {
    CHECK(rate.factor(1) == 0.25);
    CHECK(rate.factor(10) == doctest::Approx(1.0 / 7).epsilon(1e-15));
  }
  // (1 + cos(6 pi / 7)) / 2, in the last update above the end; by hand, as all here.
  double const last = 0.04951556604879044;
  LearningRate const cosine = LearningRate::cosine(4, 10).shifted();
  CHECK(cosine.factor(4) == 1);
  CHECK(cosine.factor(10) == doctest::Approx(last).epsilon(1e-14));
  CHECK(cosine.factor(11) == 0);
  // DeepSpeed's is one update ahead of that: it ends in the last one of the total.
  LearningRate const to_tenth = LearningRate::warmup_cosine(linear, 10, 0.1).shifted();
  CHECK(to_tenth.factor(9) == doctest::Approx(0.1 + 0.9 * last).epsilon(1e-14));
  CHECK(to_tenth.factor(10) == 0.1);
  CHECK(to_tenth.factor(11) == 0.1);
  CHECK(LearningRate::warmup(linear).shifted().factor(2) == 0.5);
  CHECK(LearningRate::warmup_cosine({4, 0.5, Ramp::linear}, 10).shifted().factor(1) == 0.625);
  CHECK(LearningRate::constant_with_warmup(4).shifted().factor(4) == 1);
  // Once is enough, and where nothing idles nothing is shifted.
  CHECK(LearningRate::linear(4, 10).shifted().shifted().factor(1) == 0.25);
  CHECK(LearningRate::linear(0, 10).shifted().factor(3) == LearningRate::linear(0, 10).factor(3));
  CHECK(LearningRate::one_cycle({.up = 2}, 0.5).shifted().factor(1) == 0.5);
}

TEST_CASE("any update may be asked for, in any order, however large") {
  LearningRate const all[] = {LearningRate(),
                              LearningRate::linear(3, 9),
                              LearningRate::cosine(3, 9),
                              LearningRate::polynomial(3, 9, 2, 0.1),
                              LearningRate::warmup({.updates = 3}),
                              LearningRate::warmup_decay({.updates = 3}, 9).shifted(),
                              LearningRate::warmup_cosine({.updates = 3}, 9),
                              LearningRate::one_cycle({.up = 3, .decay_updates = 2}, 0.1, 0.5),
                              LearningRate::range_test({})};
  for (LearningRate const& rate : all) {
    LearningRate const copy = rate;  // what a resumed run is given
    for (Index t = 20; t >= 0; --t) CHECK(rate.factor(t) == copy.factor(t));
    CHECK(rate.factor(0) == rate.factor(1));
    CHECK(std::isfinite(rate.factor(std::numeric_limits<Index>::max())));
    CHECK(rate.factor(std::numeric_limits<Index>::max()) >= 0);
  }
  static_assert(std::is_trivially_copyable_v<LearningRate>);
}

TEST_CASE("a start above the peak falls to it, as DeepSpeed computes") {
  // min + (max - min) x way with max = 1, min = 3, way = i / 4.
  auto const falling = LearningRate::warmup({.updates = 4, .start = 3, .ramp = Ramp::linear});
  double const rates[] = {3, 3, 2.5, 2, 1.5, 1, 1};
  for (Index t = 1; t <= 7; ++t) CHECK(falling.factor(t) == rates[t - 1]);
  auto const sunken = LearningRate::one_cycle({.up = 2}, 3);  // 3, 2, 1 in the middle, 2, 3
  double const cycle[] = {3, 2, 1, 2, 3};
  for (Index t = 1; t <= 5; ++t) CHECK(sunken.factor(t) == cycle[t - 1]);
}

template <class F>
void check_refused(F make, char const* text) {
  CHECK_THROWS_WITH_AS(make(), text, zero::InvalidArgument);
}

TEST_CASE("what cannot be is refused by name, with what was found and expected") {
  using L = LearningRate;
  double const nan = std::nan("");
  check_refused([] { L::warmup({.updates = -1}); },
                "LearningRate::warmup: updates: found -1; expected 0 updates to 2^53");
  check_refused([] { L::warmup_decay({.updates = (Index{1} << 53) + 1}, 3); },
                "LearningRate::warmup_decay: updates: found 9007199254740993; expected 0 updates "
                "to 2^53");
  check_refused([] { L::warmup({.start = -0.5}); },
                "LearningRate::warmup: start: found -0.5; expected a finite multiple, 0 or more, "
                "of the optimizer's "
                "rate");
  check_refused([] { L::warmup_cosine({}, -3); },
                "LearningRate::warmup_cosine: total: found -3; expected 0 updates to 2^53");
  check_refused([&] { L::warmup_cosine({}, 3, nan); },
                "LearningRate::warmup_cosine: end: found nan; expected a finite multiple, 0 or "
                "more, of the optimizer's rate");
  check_refused([] { L::cosine(1, 2, -0.5); },
                "LearningRate::cosine: cycles: found -0.5; expected 0 to 1e9");
  check_refused([] { L::polynomial(1, 2, 1, 1); },
                "LearningRate::polynomial: end: found 1; expected 0 to below 1 times the "
                "optimizer's rate");
  check_refused([&] { L::polynomial(1, 2, nan); },
                "LearningRate::polynomial: power: found nan; expected 0 to 1e9");
  check_refused([] { L::one_cycle({.up = 0}, 0); },
                "LearningRate::one_cycle: up: found 0; expected 1 update to 2^53");
  check_refused([] { L::one_cycle({.down = -2}, 0); },
                "LearningRate::one_cycle: down: found -2; expected 1 update to 2^53, or -1 for as "
                "many as up");
  check_refused([] { L::one_cycle({}, -2); },
                "LearningRate::one_cycle: low: found -2; expected a finite multiple, 0 or more, of "
                "the optimizer's rate");
  check_refused([] { L::range_test({.updates = 0}); },
                "LearningRate::range_test: updates: found 0; expected 1 update to 2^53");
  check_refused([] { L::range_test({.rate = -1}); },
                "LearningRate::range_test: rate: found -1; expected a finite rate of 0 or more");
  check_refused([] { Momentum::one_cycle({}, 0.9, 1); },
                "Momentum::one_cycle: high: found 1; expected 0 to below 1");
  check_refused([] { Momentum::one_cycle({.decay_updates = -1}); },
                "Momentum::one_cycle: decay_updates: found -1; expected 1 update to 2^53, or 0 for "
                "no decay");
}

TEST_CASE("an optimizer under a cycled momentum is the optimizer with the update's beta1") {
  zero::AdamW const adamw{.lr = 0.01f, .beta2 = 0.99f};
  Momentum const momentum = Momentum::one_cycle({.up = 3});
  zero::CycledMomentum const cycled(adamw, momentum);
  static_assert(zero::Optimizer<std::remove_const_t<decltype(cycled)>>);
  float weight = 0.5f;
  float states[2] = {};
  float other = 0.5f;
  float other_states[2] = {};
  for (Index t = 1; t <= 9; ++t) {
    float const gradient = static_cast<float>(t % 4) - 1.5f;
    zero::AdamW moved = adamw;
    moved.beta1 = static_cast<float>(momentum.value(t));
    weight -= cycled.learning_rate(t) *
              cycled.direction(cycled.constants(t), weight, gradient, states, 1);
    other -= moved.learning_rate(t) *
             moved.direction(moved.constants(t), other, gradient, other_states, 1);
    CHECK(weight == other);
    CHECK(states[0] == other_states[0]);
  }
  float unmoved[2] = {};
  adamw.direction(adamw.constants(1), 0.5f, 1, unmoved, 1);
  float first[2] = {};
  cycled.direction(cycled.constants(1), 0.5f, 1, first, 1);
  CHECK(first[0] != unmoved[0]);  // 0.8 against 0.9
}

}  // namespace
