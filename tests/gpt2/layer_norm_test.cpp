// SPDX-License-Identifier: Apache-2.0
#include "finite_differences.hpp"

#include <doctest/doctest.h>
#include <gpt2/layer_norm.hpp>

namespace {

using test::at;
using test::Index;

constexpr Index rows = 5;
constexpr Index width = 37;  // no multiple of the lanes

template <class T>
struct Norm {
  std::vector<T> x, weight, bias, grad_out;
  std::vector<T> out = std::vector<T>(at(rows * width));
  std::vector<T> mean = std::vector<T>(at(rows));
  std::vector<T> inverse = std::vector<T>(at(rows));
  std::vector<T> grad_x = std::vector<T>(at(rows * width));
  std::vector<T> grad_weight = std::vector<T>(at(width));
  std::vector<T> grad_bias = std::vector<T>(at(width));

  Norm()
      : x(test::converted<T>(test::values(rows * width, 1, -2, 3))),
        weight(test::converted<T>(test::values(width, 2, 0.5, 1.5))),
        bias(test::converted<T>(test::values(width, 3))),
        grad_out(test::converted<T>(test::values(rows * width, 4))) {}

  void forward() { gpt2::layer_norm(std::span<T const>(x), weight, bias, out, {mean, inverse}); }
  void backward() {
    gpt2::layer_norm_backward(std::span<T const>(grad_out), x, weight, {mean, inverse}, grad_x,
                              grad_weight, grad_bias);
  }
};

TEST_CASE("layer norm gives every row mean 0 and variance 1 before its scale and shift") {
  Norm<double> norm;
  std::ranges::fill(norm.weight, 1.0);
  std::ranges::fill(norm.bias, 0.0);
  norm.forward();
  for (Index row = 0; row < rows; ++row) {
    double sum = 0;
    double squares = 0;
    for (Index i = 0; i < width; ++i) {
      double const v = norm.out[at(row * width + i)];
      sum += v;
      squares += v * v;
    }
    CHECK(sum / width == doctest::Approx(0).epsilon(1e-12));
    // epsilon = 1e-5 beside a variance of about 2 takes 5e-6 away
    CHECK(squares / width == doctest::Approx(1).epsilon(1e-5));
  }
}

TEST_CASE("layer norm's gradients are those of finite differences") {
  Norm<double> norm;
  norm.forward();
  norm.backward();
  auto const f = [&] {
    norm.forward();
    return test::weighted_sum(norm.grad_out, norm.out);
  };
  // |out| <= 1.5 sqrt(width) + 1 and |grad_out| <= 1; an element depends on two sums over the
  // width, six more operations, and the final sum.
  double const magnitude = rows * width * (1.5 * std::sqrt(width) + 1);
  double const terms = 2 * width + 6 + rows * width;
  test::check_differences("layer norm: x", f, norm.x, norm.grad_x, magnitude, terms);
  test::check_differences("layer norm: weight", f, norm.weight, norm.grad_weight, magnitude, terms);
  test::check_differences("layer norm: bias", f, norm.bias, norm.grad_bias, magnitude, terms);
}

TEST_CASE("layer norm in float is layer norm in double up to rounding") {
  Norm<double> exact;
  Norm<float> norm;
  exact.forward();
  exact.backward();
  norm.forward();
  norm.backward();
  // A row sums `width` terms in 16 lanes (3 a lane, 16 more), twice one after the other, and ten
  // operations follow; n = (x - mean) inverse is at most sqrt(width), in the gradient of x it is
  // multiplied by a mean.
  double const terms = 2 * (3 + 16) + 10;
  double const size = std::sqrt(width);
  test::check_rounding("layer norm: out", norm.out, exact.out, 1.5 * size + 1, terms);
  double const inverse = test::largest(exact.inverse);
  test::check_rounding("layer norm: grad x", norm.grad_x, exact.grad_x, inverse * 1.5 * (2 + size),
                       terms);
  test::check_rounding("layer norm: grad weight", norm.grad_weight, exact.grad_weight, rows * size,
                       terms + rows);
  test::check_rounding("layer norm: grad bias", norm.grad_bias, exact.grad_bias, rows, rows);
}

TEST_CASE("layer norm adds to gradients, and leaves frozen ones alone") {
  Norm<double> once;
  once.forward();
  once.backward();
  Norm<double> twice;
  twice.forward();
  twice.backward();
  twice.backward();
  for (Index i = 0; i < width; ++i) {
    CHECK(twice.grad_weight[at(i)] == doctest::Approx(2 * once.grad_weight[at(i)]).epsilon(1e-12));
    CHECK(twice.grad_bias[at(i)] == doctest::Approx(2 * once.grad_bias[at(i)]).epsilon(1e-12));
  }
  Norm<double> frozen;
  frozen.grad_weight.clear();
  frozen.grad_bias.clear();
  frozen.forward();
  frozen.backward();
  CHECK(frozen.grad_x == once.grad_x);
}

}  // namespace
