// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens, and the micro-batches of them that models are trained on.

#include <gpt2/configuration.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpt2 {

/// A token's number in the vocabulary.
using Token = std::int32_t;

/// Sequences of `length` tokens, one after the other, and for each token the one that follows it.
struct TokenBatch {
  Index length = 0;
  std::vector<Token> inputs;
  std::vector<Token> targets;

  Index sequences() const { return length > 0 ? std::ssize(inputs) / length : 0; }
};

/// @throws zero::InvalidArgument when a model of these sizes has no such sequences
inline void check_tokens(Configuration const& size, std::span<Token const> ids, Index length) {
  if (length < 1 || length > size.context || ids.empty() || std::ssize(ids) % length != 0) {
    throw zero::InvalidArgument("gpt2: a batch is one or more sequences of 1 to " +
                                std::to_string(size.context) + " tokens of one length");
  }
  for (Token id : ids) {
    if (id < 0 || id >= size.vocabulary) {
      throw zero::InvalidArgument("gpt2: token " + std::to_string(id) +
                                  " is not in the vocabulary of " +
                                  std::to_string(size.vocabulary));
    }
  }
}

/// @throws zero::InvalidArgument when a model of these sizes cannot be trained on the batch
inline void check_batch(Configuration const& size, TokenBatch const& batch) {
  check_tokens(size, batch.inputs, batch.length);
  check_tokens(size, batch.targets, batch.length);
  if (batch.targets.size() != batch.inputs.size())
    throw zero::InvalidArgument("gpt2: a batch has as many targets as inputs");
}

}  // namespace gpt2
