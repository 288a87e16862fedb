// SPDX-License-Identifier: Apache-2.0
#include "finite_differences.hpp"

#include <doctest/doctest.h>
#include <gpt2/attention.hpp>

namespace {

using test::at;
using test::Index;

template <class T>
struct Attention {
  gpt2::AttentionShape shape;
  std::vector<T> qkv, grad_out;
  std::vector<T> weights = std::vector<T>(at(shape.num_weights()));
  std::vector<T> out = std::vector<T>(at(shape.batch * shape.length * shape.width));
  std::vector<T> grad_qkv = std::vector<T>(qkv.size(), T(123));  // overwritten
  std::vector<T> scratch = std::vector<T>(at(gpt2::attention_scratch(shape)));

  explicit Attention(gpt2::AttentionShape of)
      : shape(of),
        qkv(test::converted<T>(test::values(of.batch * of.length * 3 * of.width, 1, -2, 2))),
        grad_out(test::converted<T>(test::values(of.batch * of.length * of.width, 2))) {}

  void forward() { gpt2::attention(std::span<T const>(qkv), shape, weights, out); }
  void backward() {
    gpt2::attention_backward(std::span<T const>(grad_out), qkv, weights, shape, grad_qkv, scratch);
  }
};

/// Attention of one query, written from the formula.
std::vector<double> by_formula(Attention<double> const& a, Index sequence, Index query,
                               Index head) {
  Index const size = a.shape.head_width();
  auto const part = [&](Index place, Index which) {
    return a.qkv.data() + (sequence * a.shape.length + place) * 3 * a.shape.width +
           which * a.shape.width + head * size;
  };
  std::vector<double> out(at(size));
  double sum = 0;
  for (Index key = 0; key <= query; ++key) {
    double score = 0;
    for (Index i = 0; i < size; ++i) score += part(query, 0)[i] * part(key, 1)[i];
    double const weight = std::exp(score / std::sqrt(static_cast<double>(size)));
    sum += weight;
    for (Index i = 0; i < size; ++i) out[at(i)] += weight * part(key, 2)[i];
  }
  for (double& v : out) v /= sum;
  return out;
}

// The second shape has more queries than a block holds, and a last block that is not full.
gpt2::AttentionShape const several{.batch = 2, .length = 5, .heads = 3, .width = 12};
gpt2::AttentionShape const blocks{.batch = 1, .length = 67, .heads = 2, .width = 4};

TEST_CASE("attention is softmax(q k^T / sqrt(d)) v over what stands before") {
  for (auto const& shape : {several, blocks}) {
    Attention<double> a(shape);
    a.forward();
    for (Index sequence = 0; sequence < shape.batch; ++sequence) {
      for (Index query = 0; query < shape.length; ++query) {
        for (Index head = 0; head < shape.heads; ++head) {
          auto const expected = by_formula(a, sequence, query, head);
          Index const begin =
              (sequence * shape.length + query) * shape.width + head * shape.head_width();
          // values of at most 2, weights that sum to 1, each right to a few dozen roundings
          for (Index i = 0; i < shape.head_width(); ++i) {
            CHECK(std::abs(a.out[at(begin + i)] - expected[at(i)]) < 1e-13);
          }
        }
      }
    }
  }
}

TEST_CASE("a token's attention does not change with what follows it") {
  Attention<double> a(blocks);
  a.forward();
  std::vector<double> const before = a.out;
  Index const last = (blocks.length - 1) * 3 * blocks.width;
  for (Index i = 0; i < 3 * blocks.width; ++i) a.qkv[at(last + i)] = 77;
  a.forward();
  for (Index i = 0; i < (blocks.length - 1) * blocks.width; ++i)
    CHECK(a.out[at(i)] == before[at(i)]);
}

TEST_CASE("attention's gradients are those of finite differences") {
  for (auto const& shape : {several, blocks}) {
    Attention<double> a(shape);
    a.forward();
    a.backward();
    auto const f = [&] {
      a.forward();
      return test::weighted_sum(a.grad_out, a.out);
    };
    // Outputs are means of values, at most 2. A score is at most 4 sqrt(head width) <= 8 and sums
    // head width products, so its rounding reaches the weight 8 x 4 fold; then sums over keys and
    // over all outputs.
    auto const outputs = static_cast<double>(a.out.size());
    double const terms = 32 + 2 * static_cast<double>(shape.length) + outputs;
    test::check_differences("attention: qkv", f, a.qkv, a.grad_qkv, 2 * outputs, terms);
  }
}

TEST_CASE("attention in float is attention in double up to rounding") {
  for (auto const& shape : {several, blocks}) {
    Attention<double> exact(shape);
    Attention<float> a(shape);
    exact.forward();
    exact.backward();
    a.forward();
    a.backward();
    // As above: 32 roundings by the score, 16 lanes and a few more by the softmax, then a sum over
    // keys whose weights add up to 1. In the gradient of values and keys the sum is over queries,
    // whose weights do not.
    auto const length = static_cast<double>(shape.length);
    test::check_rounding("attention: out", a.out, exact.out, 2, 32 + 24 + length);
    test::check_rounding("attention: grad qkv", a.grad_qkv, exact.grad_qkv,
                         test::largest(exact.grad_qkv) + 8, 2 * (32 + 24 + length));
  }
}

}  // namespace
