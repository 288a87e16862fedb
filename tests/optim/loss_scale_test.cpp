// SPDX-License-Identifier: Apache-2.0
// The loss scale as decide() moves it, against the tables of DeepSpeed's state machine and by hand.
#include <zero/optim/decision.hpp>
#include <zero/optim/not_finite.hpp>

#include <doctest/doctest.h>
#include <support/loss_scale_table.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using zero::Decision;
using zero::DecisionInputs;
using zero::Index;
using zero::LossScale;
using zero::LossScaleState;
using zero::SkipCause;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Makes steps with a loss scale.
class Steps {
 public:
  explicit Steps(LossScale const& option) : option_(option) {
    decision_.loss_scale = decision_.used_scale = option.initial();
    decision_.scale_state = LossScaleState::first(option);
  }
  /// Two ranks; the gradient is of size 3 and 4 times the scale.
  Decision const& good() {
    double const s = static_cast<double>(decision_.loss_scale);
    return decide({9 * s * s, 0, 7, 0}, {16 * s * s, 0, 7, 0});
  }
  Decision const& overflow() { return decide({infinity, 2, 7, 0}, {1, 0, 7, 0}); }
  Decision const& bad_loss() { return decide({infinity, 3, 7, 0}, {infinity, 2, 7, std::nan("")}); }
  /// 'o': overflow, '.': good step; the scale after each.
  std::vector<float> scales(std::string const& sequence) {
    std::vector<float> all;
    for (char c : sequence) all.push_back((c == 'o' ? overflow() : good()).loss_scale);
    return all;
  }
  Decision const& last() const { return decision_; }

 private:
  Decision const& decide(std::vector<double> records, std::vector<double> const& second) {
    records.insert(records.end(), second.begin(), second.end());
    zero::decide(decision_, records.data(), DecisionInputs{2, 0, 4, option_},
                 [](Index t) { return static_cast<float>(t); });
    return decision_;
  }

  LossScale option_;
  Decision decision_{};
};

void check_table(LossScale const& option, std::vector<loss_scale_table::Row> const& table) {
  Steps steps(option);
  Index updates = 0;
  for (loss_scale_table::Row const& row : table) {
    CHECK(steps.last().loss_scale == row.before);
    CHECK(steps.last().scale_state.hysteresis == row.hysteresis_before);
    Decision const d = row.overflow ? steps.overflow() : steps.good();
    updates += row.overflow ? 0 : 1;
    CHECK(d.used_scale == row.before);
    CHECK(d.skip == (row.overflow ? 1 : 0));
    CHECK(d.cause == (row.overflow ? SkipCause::gradient : SkipCause::none));
    CHECK(d.loss_scale == row.after);
    CHECK(d.scale_state.hysteresis == row.hysteresis_after);
    CHECK(d.scale_state.last_overflow == row.last_overflow);
    CHECK(d.skipped == row.skipped);
    CHECK(d.updates == updates);
    CHECK(d.failed == (row.error ? 1 : 0));
    if (row.overflow) continue;
    // By the scale of this step's backward, grown or not: 5 over 4 contributions.
    CHECK(d.norm == 1.25);
    CHECK(d.factor == 1 / (4 * row.before));
  }
}

TEST_CASE("a moving scale follows the tables, and unscales by what backward used") {
  check_table(LossScale::dynamic({.initial_power = 8, .window = 4, .hysteresis = 1}),
              loss_scale_table::a1);
  check_table(LossScale::dynamic(), loss_scale_table::a9);
}

TEST_CASE("a halving does not give overflows back, a whole window does") {
  Steps steps(LossScale::dynamic({.initial_power = 10, .window = 3, .hysteresis = 3}));
  // Three overflows halve; then each one does; after 3 + 1 good steps it doubles and forgets.
  CHECK(steps.scales("ooo") == std::vector<float>{1024, 1024, 512});
  CHECK(steps.scales("o.o") == std::vector<float>{256, 256, 128});
  CHECK(steps.scales("....") == std::vector<float>{128, 128, 128, 256});
  CHECK(steps.scales("ooo") == std::vector<float>{256, 256, 128});
  CHECK(steps.scales("...o") == std::vector<float>{128, 128, 128, 64});
}

TEST_CASE("consecutive hysteresis gives overflows back at each good step") {
  zero::DynamicLossScale const consecutive{
      .initial_power = 10, .window = 100, .hysteresis = 2, .consecutive_hysteresis = true};
  CHECK(Steps(LossScale::dynamic(consecutive)).scales("o.o.oo.o") ==
        std::vector<float>{1024, 1024, 1024, 1024, 1024, 512, 512, 512});
  // And without: the second overflow halves, wherever it comes.
  zero::DynamicLossScale const plain{.initial_power = 10, .window = 100, .hysteresis = 2};
  CHECK(Steps(LossScale::dynamic(plain)).scales("o.o.oo.o") ==
        std::vector<float>{1024, 1024, 512, 512, 256, 128, 128, 64});
}

TEST_CASE("the scale grows once in window + 1 good steps, then in window, whatever the window") {
  for (int window : {1, 2, 5}) {
    Steps steps(LossScale::dynamic({.initial_power = 0, .window = window, .hysteresis = 1}));
    float expected = 1;
    for (int step = 1; step <= 30; ++step) {
      if (step > 1 && (step - 1) % window == 0) expected *= 2;
      CHECK(steps.good().loss_scale == expected);
    }
  }
}

TEST_CASE("the minimum is reached exactly, and an overflow there has failed") {
  Steps steps(LossScale::dynamic({.initial_power = 3, .hysteresis = 1, .minimum = 3}));
  CHECK(steps.overflow().loss_scale == 4);
  CHECK(steps.overflow().loss_scale == 3);
  CHECK(steps.last().failed == 0);
  CHECK(steps.overflow().failed == 1);
  CHECK(steps.last().loss_scale == 3);
  Decision const failed = steps.last();
  CHECK(steps.good().failed == 1);  // whoever looks late still learns of it
  CHECK(steps.overflow().updates == failed.updates);
  CHECK(steps.last().skipped == failed.skipped);
  CHECK(steps.last().bad_unit == failed.bad_unit);
}

TEST_CASE("growth ends where only gradients of 0 would go on") {
  Steps steps(LossScale::dynamic({.initial_power = 99, .window = 1, .hysteresis = 1}));
  CHECK(steps.scales("....") == std::vector<float>{0x1p99f, 0x1p100f, 0x1p100f, 0x1p100f});
  CHECK(steps.overflow().loss_scale == 0x1p99f);
}

TEST_CASE("a fixed scale stays, skips and never fails by overflows") {
  Steps steps(LossScale::fixed(1000));
  for (int i = 0; i < 40; ++i) {
    CHECK(steps.overflow().loss_scale == 1000);
    CHECK(steps.last().failed == 0);
  }
  CHECK(steps.good().norm == doctest::Approx(1.25).epsilon(1e-15));
  CHECK(steps.last().factor == 1.0f / 4000);
}

TEST_CASE("a loss that is not finite is no overflow: the scale does not move") {
  Steps steps(LossScale::dynamic({.initial_power = 4, .window = 3, .hysteresis = 1}));
  steps.scales("...");
  for (int i = 1; i <= 15; ++i) {
    Decision const d = steps.bad_loss();
    CHECK(d.cause == SkipCause::loss);
    CHECK(d.bad_loss_rank == 1);
    CHECK(d.bad_unit == 2);  // of all ranks the unit that backward comes to first
    CHECK(d.loss_scale == 16);
    CHECK(d.bad_losses == i);
    CHECK(d.skipped == i);
    CHECK(d.failed == 0);
  }
  // Growth goes on where it stood: three good steps before and one now.
  CHECK(steps.good().loss_scale == 32);
  CHECK(steps.last().bad_losses == 0);
  CHECK(steps.last().bad_loss_rank == -1);
}

TEST_CASE("losses that are not finite for long enough in a row have failed") {
  Steps steps(LossScale::dynamic({.max_bad_losses = 3}));
  steps.bad_loss();
  steps.bad_loss();
  steps.overflow();
  steps.bad_loss();
  steps.bad_loss();
  CHECK(steps.last().failed == 0);
  CHECK(steps.bad_loss().failed == 1);
  Steps patient(LossScale::dynamic({.max_bad_losses = 0}));
  for (int i = 0; i < 100; ++i) CHECK(patient.bad_loss().failed == 0);
  // A scale that stays ends so as well: 16 in a row unless it was told another number.
  Steps fixed(LossScale::fixed(1));
  for (int i = 0; i < 15; ++i) CHECK(fixed.bad_loss().failed == 0);
  CHECK(fixed.bad_loss().failed == 1);
  Steps short_of_patience(LossScale::fixed(8, 2));
  CHECK(short_of_patience.bad_loss().failed == 0);
  CHECK(short_of_patience.bad_loss().failed == 1);
  Steps patient_and_fixed(LossScale::fixed(8, 0));
  for (int i = 0; i < 100; ++i) CHECK(patient_and_fixed.bad_loss().failed == 0);
}

TEST_CASE("ranks that diverge say nothing of the scale") {
  Decision d;
  LossScale const option = LossScale::dynamic({.hysteresis = 1});
  d.loss_scale = option.initial();
  double const records[] = {infinity, 1, 7, 0, 1, 0, 8, 0};
  zero::decide(d, records, DecisionInputs{2, 0, 2, option}, [](Index) { return 1.0f; });
  CHECK(d.cause == SkipCause::divergence);
  CHECK(d.loss_scale == 65536);
}

TEST_CASE("a decision that has failed is put into words") {
  auto const place_of = [](Index u) { return "unit 'h." + std::to_string(u) + "'"; };
  Decision d;
  zero::check_finite(d, 3, place_of);
  d.failed = 1;
  d.cause = SkipCause::gradient;
  d.bad_unit = 4;
  d.used_scale = 1;
  d.skipped = 18;
  CHECK_THROWS_WITH_AS(
      zero::check_finite(d, 18, place_of),
      "step 18: a gradient is not finite at a loss scale of 1, its minimum, while every loss is "
      "finite. It arose in the backward pass, in unit 'h.4' first (18 steps skipped, 0 made)",
      zero::NotFinite);
  d.cause = SkipCause::loss;
  d.bad_loss_rank = 2;
  d.bad_losses = 16;
  d.used_scale = 65536;
  d.updates = 5;
  CHECK_THROWS_WITH_AS(
      zero::check_finite(d, 23, place_of),
      "step 23: the loss of rank 2 is not finite, in 16 steps in a row by now, at a loss scale of "
      "65536. It arose in the forward pass, which no loss scale changes; backward met it in unit "
      "'h.4' first (18 steps skipped, 5 made)",
      zero::NotFinite);
}

template <class F>
void check_refused(F make, char const* text) {
  CHECK_THROWS_WITH_AS(make(), text, zero::InvalidArgument);
}

TEST_CASE("loss scales that cannot be are refused by name") {
  using L = LossScale;
  check_refused([] { L::fixed(0); }, "LossScale::fixed: found 0; expected 2^-24 to 2^100");
  check_refused([] { L::fixed(-1024); }, "LossScale::fixed: found -1024; expected 2^-24 to 2^100");
  check_refused([] { L::fixed(std::nanf("")); },
                "LossScale::fixed: found nan; expected 2^-24 to 2^100");
  check_refused([] { L::fixed(std::numeric_limits<float>::infinity()); },
                "LossScale::fixed: found inf; expected 2^-24 to 2^100");
  check_refused([] { L::fixed(8, -1); },
                "LossScale::fixed: max_bad_losses: found -1; expected a number of steps, or 0 for "
                "any");
  check_refused([] { L::dynamic({.initial_power = 101}); },
                "LossScale::dynamic: initial_power: found 101; expected -24 to 100");
  check_refused([] { L::dynamic({.window = 0}); },
                "LossScale::dynamic: window: found 0; expected 1 step to 2^53");
  check_refused([] { L::dynamic({.hysteresis = 0}); },
                "LossScale::dynamic: hysteresis: found 0; expected 1 overflow to 2^53");
  check_refused([] { L::dynamic({.minimum = 0}); },
                "LossScale::dynamic: minimum: found 0; expected 2^-24 to the initial scale");
  check_refused([] { L::dynamic({.initial_power = 2, .minimum = 8}); },
                "LossScale::dynamic: minimum: found 8; expected 2^-24 to the initial scale");
  check_refused([] { L::dynamic({.max_bad_losses = -1}); },
                "LossScale::dynamic: max_bad_losses: found -1; expected a number of steps, or 0 "
                "for any");
}

}  // namespace
