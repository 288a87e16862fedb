// SPDX-License-Identifier: Apache-2.0
#include "finite_differences.hpp"

#include <doctest/doctest.h>
#include <gpt2/embedding.hpp>

namespace {

using test::at;
using test::Index;

constexpr Index vocabulary = 5;
constexpr Index context = 4;  // one more than the sequences use
constexpr Index length = 3;
constexpr Index width = 6;
std::vector<gpt2::Token> const ids{2, 0, 2, 4, 2, 1};  // token 2 three times, token 3 never

TEST_CASE("an embedding is the token's row plus the position's row") {
  auto const tokens = test::values(vocabulary * width, 1);
  auto const positions = test::values(context * width, 2);
  std::vector<double> out(ids.size() * at(width));
  gpt2::embed(ids, length, std::span<double const>(tokens), positions, width, out);
  for (Index row = 0; row < std::ssize(ids); ++row) {
    for (Index i = 0; i < width; ++i) {
      double const expected =
          tokens[at(ids[at(row)] * width + i)] + positions[at(row % length * width + i)];
      CHECK(out[at(row * width + i)] == expected);
    }
  }
}

TEST_CASE("the embedding's gradients are those of finite differences") {
  auto tokens = test::values(vocabulary * width, 1);
  auto positions = test::values(context * width, 2);
  auto const grad_out = test::values(std::ssize(ids) * width, 3);
  std::vector<double> out(grad_out.size());
  std::vector<double> grad_tokens(tokens.size());
  std::vector<double> grad_positions(positions.size());
  gpt2::embed_backward(std::span<double const>(grad_out), ids, length, width, grad_tokens,
                       grad_positions);
  auto const f = [&] {
    gpt2::embed(ids, length, std::span<double const>(tokens), positions, width, out);
    return test::weighted_sum(grad_out, out);
  };
  // Each of the outputs is at most 2, has one rounding, and all are summed.
  auto const terms = static_cast<double>(out.size()) + 1;
  test::check_differences("embedding: tokens", f, tokens, grad_tokens, 2 * terms, terms);
  test::check_differences("embedding: positions", f, positions, grad_positions, 2 * terms, terms);
  for (Index i = 0; i < width; ++i) {
    CHECK(grad_tokens[at(3 * width + i)] == 0);          // a token that does not occur
    CHECK(grad_positions[at(length * width + i)] == 0);  // a place that no sequence reaches
  }
}

TEST_CASE("the embedding's gradients in float are those in double up to rounding") {
  auto const grad_out = test::values(std::ssize(ids) * width, 3);
  auto const grad_out_float = test::converted<float>(grad_out);
  std::vector<double> grad_tokens(at(vocabulary * width));
  std::vector<double> grad_positions(at(context * width));
  std::vector<float> tokens_float(grad_tokens.size());
  std::vector<float> positions_float(grad_positions.size());
  gpt2::embed_backward(std::span<double const>(grad_out), ids, length, width, grad_tokens,
                       grad_positions);
  gpt2::embed_backward(std::span<float const>(grad_out_float), ids, length, width, tokens_float,
                       positions_float);
  // At most three terms of at most 1 are added: a token's occurrences.
  test::check_rounding("embedding: tokens", tokens_float, grad_tokens, 3, 3);
  test::check_rounding("embedding: positions", positions_float, grad_positions, 3, 3);
}

TEST_CASE("a frozen embedding has no gradient") {
  auto const grad_out = test::values(std::ssize(ids) * width, 3);
  std::vector<double> grad_positions(at(context * width));
  gpt2::embed_backward(std::span<double const>(grad_out), ids, length, width, {}, grad_positions);
  CHECK(test::largest(grad_positions) > 0);
}

}  // namespace
