// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text from a trained model, token by token: each one drawn from the softmax of its logits, by
// noise that is keyed by (seed, place), so that every rank draws the same.

#include <zero/core/noise.hpp>

#include <gpt2/token.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpt2 {

/// A token of probability softmax(logits / temperature), chosen by `uniform` in (0, 1); at
/// temperature 0 the first of the likeliest.
template <std::floating_point T>
Token draw(std::span<T const> logits, double temperature, double uniform) {
  auto const likeliest = static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
  if (temperature <= 0) return likeliest;
  double const most = logits[at(likeliest)];
  std::vector<double> weights;
  double sum = 0;
  for (T logit : logits)
    weights.push_back(sum += std::exp((static_cast<double>(logit) - most) / temperature));
  // Weights are cumulative now: the first above a uniform share of the sum.
  auto const chosen = std::ranges::upper_bound(weights, uniform * sum);
  return chosen == weights.end() ? likeliest : static_cast<Token>(chosen - weights.begin());
}

/// What a sample of text is drawn with.
struct Sampling {
  Index tokens = 300;
  double temperature = 0.7;  ///< 0: always the likeliest
  std::uint64_t seed = 1;
};

/// Continues `prompt`.
/// @param context most tokens that the model sees: the last ones
/// @param next_logits (std::span<Token const> seen) -> std::span<T const>: the logits of what
/// follows, on all ranks alike
/// @return the new tokens
template <class NextLogits>
std::vector<Token> generate(std::vector<Token> const& prompt, Index context,
                            Sampling const& sampling, NextLogits next_logits) {
  std::vector<Token> all = prompt;
  for (Index i = 0; i < sampling.tokens; ++i) {
    auto const seen = std::span<Token const>(all).last(std::min(all.size(), at(context)));
    all.push_back(
        draw(next_logits(seen), sampling.temperature, zero::noise_uniform(sampling.seed, -1, i)));
  }
  return {all.begin() + std::ssize(prompt), all.end()};
}

/// Bytes as tokens.
inline std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  for (char c : text) tokens.push_back(static_cast<Token>(static_cast<unsigned char>(c)));
  return tokens;
}

/// Tokens as text for a terminal: what is not printable ASCII or an end of line is a question mark.
inline std::string printable(std::span<Token const> tokens) {
  std::string text;
  for (Token t : tokens)
    text += t == '\n' || (t >= ' ' && t <= '~') ? static_cast<char>(t) : t == '\t' ? ' ' : '?';
  return text;
}

}  // namespace gpt2
