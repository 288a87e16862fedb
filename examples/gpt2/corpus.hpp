// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run is trained on: the bytes of a text, or the tokens of a file.

#include <gpt2/batches.hpp>
#include <gpt2/settings.hpp>
#include <gpt2/text.hpp>
#include <gpt2/token_file.hpp>

#include <span>
#include <vector>

namespace gpt2 {

/// Owns a text, or the tokens of which the last tenth is held back for validation.
struct Corpus {
  Text text{};
  std::vector<std::uint16_t> tokens{};

  TokenView training() const {
    if (tokens.empty()) return text.training;
    return std::span<std::uint16_t const>(tokens).first(held_back());
  }
  TokenView validation() const {
    if (tokens.empty()) return text.validation;
    return std::span<std::uint16_t const>(tokens).subspan(held_back());
  }

 private:
  std::size_t held_back() const { return tokens.size() - tokens.size() / 10; }
};

/// What the settings name; else the fortunes.
/// @throws zero::InvalidArgument in one sentence when it cannot be read, or is empty
inline Corpus load_corpus(Settings const& s) {
  if (s.tokens.empty()) return {.text = load_text(s.text)};
  return {.tokens = load_tokens(s.tokens, s.size.vocabulary)};
}

}  // namespace gpt2
