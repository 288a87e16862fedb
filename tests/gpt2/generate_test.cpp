// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <gpt2/generate.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace {

using gpt2::at;
using gpt2::Index;
using gpt2::Token;

TEST_CASE("at temperature 0 the likeliest token is drawn, the first of equals") {
  std::vector<float> const logits{-1, 3, 2, 3};
  for (double uniform : {0.001, 0.5, 0.999}) {
    CHECK(gpt2::draw(std::span<float const>(logits), 0, uniform) == 1);
  }
}

TEST_CASE("tokens are drawn with the probabilities of softmax(logits / temperature)") {
  std::vector<double> const logits{std::log(0.1), std::log(0.6), std::log(0.3)};
  auto const counts = [&](double temperature) {
    std::vector<double> share(3);
    for (Index i = 0; i < 10000; ++i) {
      double const uniform = (static_cast<double>(i) + 0.5) / 10000;
      share[at(gpt2::draw(std::span<double const>(logits), temperature, uniform))] += 1e-4;
    }
    return share;
  };
  // uniform runs over a grid of 10,000: each share is right to one of its steps
  auto const one = counts(1);
  CHECK(std::abs(one[0] - 0.1) < 1.5e-4);
  CHECK(std::abs(one[1] - 0.6) < 1.5e-4);
  // at temperature 1/2 probabilities are squared: 0.01, 0.36, 0.09 over 0.46
  auto const half = counts(0.5);
  CHECK(std::abs(half[0] - 0.01 / 0.46) < 1.5e-4);
  CHECK(std::abs(half[1] - 0.36 / 0.46) < 1.5e-4);
}

TEST_CASE("any logits and any noise give a token") {
  float const inf = std::numeric_limits<float>::infinity();
  float const nan = std::numeric_limits<float>::quiet_NaN();
  for (std::vector<float> const& logits :
       {std::vector<float>{nan, nan}, {inf, 0}, {-inf, -inf}, {1e30f, -1e30f}, {nan, 1}}) {
    for (double uniform : {1e-300, 0.5, 1 - 1e-16}) {
      Token const token = gpt2::draw(std::span<float const>(logits), 0.7, uniform);
      CHECK(token >= 0);
      CHECK(token < 2);
    }
  }
}

TEST_CASE(
    "generation continues the prompt, sees no more than the context, and depends on seed alone") {
  std::size_t longest = 0;
  std::vector<float> logits(10);
  auto const next = [&](std::span<Token const> seen) {
    longest = std::max(longest, seen.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<Token>(i) == (seen.back() + 1) % 10 ? 2.0f : 0.0f;
    }
    return std::span<float const>(logits);
  };
  auto const likeliest = gpt2::generate({3, 4}, 5, {.tokens = 8, .temperature = 0}, next);
  CHECK(likeliest == std::vector<Token>{5, 6, 7, 8, 9, 0, 1, 2});
  CHECK(longest == 5);
  auto const drawn = [&](std::uint64_t seed) {
    return gpt2::generate({3}, 5, {.tokens = 50, .temperature = 1, .seed = seed}, next);
  };
  CHECK(drawn(1) == drawn(1));
  CHECK(drawn(1) != drawn(2));
}

TEST_CASE("bytes become tokens, and tokens text that no terminal stumbles over") {
  CHECK(gpt2::tokens_of("a\xff") == std::vector<Token>{97, 255});
  CHECK(gpt2::printable(gpt2::tokens_of("Ab~ \n\t\x1b[0m\xc3")) == "Ab~ \n ?[0m?");
}

}  // namespace
