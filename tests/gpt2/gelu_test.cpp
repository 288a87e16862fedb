// SPDX-License-Identifier: Apache-2.0
#include "finite_differences.hpp"

#include <doctest/doctest.h>
#include <gpt2/gelu.hpp>

#include <numbers>

namespace {

using test::at;
using test::Index;

/// GPT-2's formula as it is written, in double.
double by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

TEST_CASE("exponential in float is within 2 units in the last place, and NaN stays NaN") {
  double worst = 0;
  for (int i = -86999; i < 87000; ++i) {
    auto const x = static_cast<float>(i) * 1e-3f;
    double const exact = std::exp(static_cast<double>(x));
    double const ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(gpt2::exponential(x)) - exact) / ulp);
  }
  MESSAGE("exponential: largest error " << worst << " units in the last place");
  CHECK(worst <= 2);
  CHECK(gpt2::exponential(0.0f) == 1.0f);
  CHECK(gpt2::exponential(-1000.0f) < 2e-38f);
  CHECK(gpt2::exponential(-std::numeric_limits<float>::infinity()) < 2e-38f);
  CHECK(gpt2::exponential(1000.0f) == gpt2::exponential(87.0f));
  CHECK(gpt2::exponential(std::numeric_limits<float>::infinity()) == gpt2::exponential(87.0f));
  CHECK(std::isnan(gpt2::exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("gelu is GPT-2's tanh formula") {
  std::vector<double> const x = test::values(1000, 1, -6, 6);
  std::vector<double> out(x.size());
  gpt2::gelu(std::span<double const>(x), out);
  // 1 + tanh(u) cancels near -1, where it is right to about 4 roundings of numbers of size 1.
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(std::abs(out[i] - by_tanh(x[i])) <= 8e-16 * std::abs(x[i]));
}

TEST_CASE("gelu's gradient is that of finite differences") {
  std::vector<double> x = test::values(200, 1, -6, 6);
  std::vector<double> const weights = test::values(200, 2);
  std::vector<double> out(x.size());
  std::vector<double> gradient = weights;
  gpt2::gelu_backward(std::span<double const>(x), gradient);
  auto const f = [&] {
    gpt2::gelu(std::span<double const>(x), out);
    return test::weighted_sum(weights, out);
  };
  // |gelu(x)| <= 6. The exponent is at most 26 and has 5 roundings, so 130 of them reach the
  // result; 200 are summed.
  test::check_differences("gelu: x", f, x, gradient, 200 * 6, 130 + 200);
}

TEST_CASE("gelu in float is gelu in double up to rounding") {
  std::vector<double> const x = test::values(1000, 3, -6, 6);
  std::vector<double> out(x.size());
  std::vector<double> gradient(x.size(), 1.0);
  gpt2::gelu(std::span<double const>(x), out);
  gpt2::gelu_backward(std::span<double const>(x), gradient);
  auto const x_float = test::converted<float>(x);
  std::vector<float> out_float(x.size());
  std::vector<float> gradient_float(x.size(), 1.0f);
  gpt2::gelu(std::span<float const>(x_float), out_float);
  gpt2::gelu_backward(std::span<float const>(x_float), gradient_float);
  // gate = 1 / (1 + e^-u): a relative error of 5 roundings in u moves the gate by gate (1 - gate) u
  // of that, which is below 0.23, and x times it by 6 times that; the exponential (2 units), sum,
  // division and product add 7.
  test::check_rounding("gelu: out", out_float, out, 6, 5 * 0.23 + 7);
  // gate, and x gate (1 - gate) slope (1 + 3 cubic x^2) <= 1.2 whose factors carry about 20
  // roundings
  test::check_rounding("gelu: gradient", gradient_float, gradient, 1.2 + 1, 20);
}

}  // namespace
