// SPDX-License-Identifier: Apache-2.0
// Settings that would make weights not finite, or move them the wrong way, are refused by name
// before anything is allocated.

#include <zero/zero.hpp>

#include <doctest/doctest.h>
#include <order/visits_model.hpp>

#include <limits>
#include <string>

namespace zero_test {
namespace {

template <class O>
std::string refusal(O optimizer) {
  try {
    zero::Trainer trainer{VisitsModel{}, zero::SingleRank<>{}, optimizer};
  } catch (zero::InvalidArgument const& e) {
    return e.what();
  }
  return "";
}

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

template <class O>
void refuses_rates(std::string const& name) {
  CHECK(refusal(O{}) == "");
  CHECK(refusal(O{.lr = 0}) == "");
  CHECK(refusal(O{.lr = -1}) == name + "::lr: found -1; expected a number from 0");
  CHECK(refusal(O{.lr = nan}) == name + "::lr: found nan; expected a number from 0");
  CHECK(refusal(O{.lr = inf}) == name + "::lr: found inf; expected a number from 0");
  CHECK(refusal(O{.weight_decay = -0.5f}) ==
        name + "::weight_decay: found -0.5; expected a number from 0");
}

template <class O>
void refuses_betas(std::string const& name) {
  CHECK(refusal(O{.beta1 = 0}) == "");
  CHECK(refusal(O{.beta1 = 1}) == name + "::beta1: found 1; expected 0 to below 1");
  CHECK(refusal(O{.beta2 = -0.5f}) == name + "::beta2: found -0.5; expected 0 to below 1");
}

TEST_CASE("settings that no optimizer can use are refused by name") {
  refuses_rates<zero::AdamW>("AdamW");
  refuses_rates<zero::Adam>("Adam");
  refuses_rates<zero::Lamb>("Lamb");
  refuses_rates<zero::Lion>("Lion");
  refuses_rates<zero::Adagrad>("Adagrad");
  refuses_rates<zero::Sgd>("Sgd");
  refuses_betas<zero::AdamW>("AdamW");
  refuses_betas<zero::Adam>("Adam");
  refuses_betas<zero::Lamb>("Lamb");
  refuses_betas<zero::Lion>("Lion");
}

TEST_CASE("an epsilon of 0, which divides 0 by 0 where there is no gradient, is refused") {
  std::string const expected =
      "::eps: found 0; expected a number above 0, which keeps elements without a gradient finite";
  CHECK(refusal(zero::AdamW{.eps = 0}) == "AdamW" + expected);
  CHECK(refusal(zero::Adam{.eps = 0}) == "Adam" + expected);
  CHECK(refusal(zero::Lamb{.eps = 0}) == "Lamb" + expected);
  CHECK(refusal(zero::Adagrad{.eps = 0}) == "Adagrad" + expected);
}

TEST_CASE("Nesterov without momentum, and bounds the wrong way round, are refused") {
  CHECK(refusal(zero::Sgd{.momentum = 0.9f, .nesterov = true}) == "");
  CHECK(refusal(zero::Sgd{.nesterov = true}) ==
        "Sgd::momentum: found 0; expected above 0, for nesterov");
  CHECK(refusal(zero::Sgd{.momentum = 0.5f, .dampening = 0.25f, .nesterov = true}) ==
        "Sgd::dampening: found 0.25; expected 0, for nesterov");
  CHECK(refusal(zero::Lamb{.min_coeff = 2, .max_coeff = 1}) ==
        "Lamb::max_coeff: found 1; expected a finite number, at least min_coeff");
  CHECK(refusal(zero::Lamb{.max_coeff = inf}) ==
        "Lamb::max_coeff: found inf; expected a finite number, at least min_coeff");
  CHECK(refusal(zero::Lamb{.max_coeff = nan}) ==
        "Lamb::max_coeff: found nan; expected a finite number, at least min_coeff");
}

}  // namespace
}  // namespace zero_test
