// SPDX-License-Identifier: Apache-2.0
#include "finite_differences.hpp"

#include <doctest/doctest.h>
#include <gpt2/linear.hpp>

namespace {

using test::at;
using test::Index;

constexpr Index rows = 7;
constexpr Index inputs = 11;
constexpr Index outputs = 5;

template <class T>
struct Layer {
  std::vector<T> x, weight, bias, residual, grad_out;
  std::vector<T> out = std::vector<T>(at(rows * outputs));
  std::vector<T> grad_x = std::vector<T>(at(rows * inputs));
  std::vector<T> grad_weight = std::vector<T>(at(inputs * outputs));
  std::vector<T> grad_bias = std::vector<T>(at(outputs));

  Layer()
      : x(test::converted<T>(test::values(rows * inputs, 1))),
        weight(test::converted<T>(test::values(inputs * outputs, 2))),
        bias(test::converted<T>(test::values(outputs, 3))),
        residual(test::converted<T>(test::values(rows * outputs, 5))),
        grad_out(test::converted<T>(test::values(rows * outputs, 4))) {}

  void forward() { gpt2::residual_linear(std::span<T const>(residual), x, weight, bias, out); }
  void backward() {
    gpt2::linear_backward(std::span<T const>(grad_out), x, weight, outputs, grad_x, grad_weight,
                          grad_bias);
  }
};

TEST_CASE("a linear layer's weights are [inputs, outputs]") {
  std::vector<double> const x{1, 10};
  std::vector<double> const weight{1, 2, 3, 4, 5, 6};  // rows 1 2 3 and 4 5 6
  std::vector<double> const bias{0.5, 0, 0};
  std::vector<double> out(3);
  gpt2::linear(std::span<double const>(x), weight, bias, out);
  CHECK(out == std::vector<double>{41.5, 52, 63});
  std::vector<double> const residual{100, 200, 300};
  gpt2::residual_linear(std::span<double const>(residual), x, weight, bias, out);
  CHECK(out == std::vector<double>{141.5, 252, 363});
}

TEST_CASE("a linear layer's gradients are those of finite differences") {
  Layer<double> layer;
  layer.backward();
  auto const f = [&] {
    layer.forward();
    return test::weighted_sum(layer.grad_out, layer.out);
  };
  // Each output sums `inputs` products of at most 1, a bias and a residual; then rows x outputs of
  // them are summed.
  double const magnitude = rows * outputs * (inputs + 2);
  double const terms = inputs + 2 + rows * outputs;
  test::check_differences("linear: x", f, layer.x, layer.grad_x, magnitude, terms);
  test::check_differences("linear: weight", f, layer.weight, layer.grad_weight, magnitude, terms);
  test::check_differences("linear: bias", f, layer.bias, layer.grad_bias, magnitude, terms);
  test::check_differences("linear: residual", f, layer.residual, layer.grad_out, magnitude, terms);
}

TEST_CASE("a linear layer in float is one in double up to rounding") {
  Layer<double> exact;
  Layer<float> layer;
  exact.forward();
  exact.backward();
  layer.forward();
  layer.backward();
  // All factors are at most 1, so a sum of n products is at most n, and has n roundings of products
  // and n of sums.
  test::check_rounding("linear: out", layer.out, exact.out, inputs + 2, 2 * inputs + 2);
  test::check_rounding("linear: grad x", layer.grad_x, exact.grad_x, outputs, 2 * outputs);
  test::check_rounding("linear: grad weight", layer.grad_weight, exact.grad_weight, rows, 2 * rows);
  test::check_rounding("linear: grad bias", layer.grad_bias, exact.grad_bias, rows, rows);
}

TEST_CASE("a linear layer adds to gradients, and leaves frozen ones alone") {
  Layer<double> once;
  once.backward();
  Layer<double> twice;
  twice.backward();
  twice.backward();
  CHECK(twice.grad_x == once.grad_x);
  for (Index i = 0; i < inputs * outputs; ++i) {
    CHECK(twice.grad_weight[at(i)] == doctest::Approx(2 * once.grad_weight[at(i)]).epsilon(1e-12));
  }
  Layer<double> frozen;
  frozen.grad_weight.clear();
  frozen.grad_bias.clear();
  frozen.backward();
  CHECK(frozen.grad_x == once.grad_x);
}

}  // namespace
