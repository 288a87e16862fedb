// SPDX-License-Identifier: Apache-2.0
#include "finite_differences.hpp"

#include <doctest/doctest.h>
#include <gpt2/cross_entropy.hpp>

namespace {

using test::at;
using test::Index;

constexpr Index vocabulary = 19;
constexpr Index width = 6;
std::vector<gpt2::Token> const targets{3, 0, 18, 3};
constexpr Index rows = 4;

template <class T>
struct Head {
  std::vector<T> x, tokens;
  std::vector<T> logits = std::vector<T>(at(rows * vocabulary));
  std::vector<T> grad_x = std::vector<T>(at(rows * width));
  std::vector<T> grad_tokens = std::vector<T>(at(vocabulary * width));

  Head()
      : x(test::converted<T>(test::values(rows * width, 1, -2, 2))),
        tokens(test::converted<T>(test::values(vocabulary * width, 2))) {}

  double forward() {
    gpt2::project(std::span<T const>(x), tokens, width, logits);
    return gpt2::cross_entropy(std::span<T>(logits), targets);
  }
  void backward(T factor) {
    gpt2::cross_entropy_backward(std::span<T>(logits), targets, factor);
    gpt2::project_backward(std::span<T const>(logits), x, tokens, width, grad_x, grad_tokens);
  }
};

TEST_CASE("the loss of equal logits is the logarithm of the vocabulary") {
  std::vector<float> logits(at(rows * vocabulary), 2.5f);
  // log(19) = 2.94; a float sum of 19 ones is exact
  CHECK(gpt2::cross_entropy(std::span<float>(logits), targets) ==
        doctest::Approx(std::log(19.0)).epsilon(1e-12));
}

TEST_CASE("the loss is that of the formula, also where exponentials of the logits overflow") {
  std::vector<double> logits = test::values(rows * vocabulary, 3, 900, 1100);
  double expected = 0;
  for (Index row = 0; row < rows; ++row) {
    long double sum = 0;
    for (Index i = 0; i < vocabulary; ++i)
      sum += std::exp(static_cast<long double>(logits[at(row * vocabulary + i)]));
    expected +=
        static_cast<double>(std::log(sum)) - logits[at(row * vocabulary + targets[at(row)])];
  }
  CHECK(gpt2::cross_entropy(std::span<double>(logits), targets) ==
        doctest::Approx(expected / rows).epsilon(1e-12));
}

TEST_CASE("a NaN among the logits makes the loss NaN") {
  std::vector<float> logits(at(rows * vocabulary), 1.0f);
  logits[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(gpt2::cross_entropy(std::span<float>(logits), targets)));
}

TEST_CASE("the gradients of head and loss are those of finite differences") {
  Head<double> head;
  head.forward();
  head.backward(1);
  auto const f = [&] { return head.forward(); };
  // The loss is a mean of rows, each at most 2 x largest logit + log(vocabulary) <= 2 x 12 + 3. A
  // logit sums `width` products of size 2; then come the sum over the vocabulary, and over rows.
  test::check_differences("head: x", f, head.x, head.grad_x, 27, 12 * width + vocabulary + rows);
  test::check_differences("head: tokens", f, head.tokens, head.grad_tokens, 27,
                          12 * width + vocabulary + rows);
}

TEST_CASE("the loss scale multiplies the gradients") {
  Head<double> one;
  one.forward();
  one.backward(1);
  Head<double> scaled;
  scaled.forward();
  scaled.backward(1024);  // a power of two changes no bit of the significand
  for (std::size_t i = 0; i < one.grad_x.size(); ++i)
    CHECK(scaled.grad_x[i] == 1024 * one.grad_x[i]);
  for (std::size_t i = 0; i < one.grad_tokens.size(); ++i)
    CHECK(scaled.grad_tokens[i] == 1024 * one.grad_tokens[i]);
}

TEST_CASE("head and loss in float are those in double up to rounding") {
  Head<double> exact;
  Head<float> head;
  double const exact_loss = exact.forward();
  double const loss = head.forward();
  CHECK(std::abs(loss - exact_loss) < 27 * (12 * width + vocabulary) * 6e-8);
  exact.backward(1);
  head.backward(1);
  // A logit is off by 12 x width roundings, and a probability by that many of itself; p - 1 is at
  // most 1. Then sums over the vocabulary (|tokens| <= 1, the gradients of a row sum to at most 2
  // in size), and over rows.
  double const terms = 12 * width + 8;
  test::check_rounding("head: grad x", head.grad_x, exact.grad_x, 2.0 / rows, terms + vocabulary);
  test::check_rounding("head: grad tokens", head.grad_tokens, exact.grad_tokens, 2, terms + rows);
}

}  // namespace
