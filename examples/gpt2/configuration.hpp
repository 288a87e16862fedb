// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sizes of a GPT-2, and the counts that follow from them.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <string>

namespace gpt2 {

using zero::at;
using zero::Index;

/// Sizes of a GPT-2. Hugging Face calls them vocab_size, n_positions, n_embd, n_head and n_layer.
struct Configuration {
  Index vocabulary = 256;  ///< bytes are tokens
  Index context = 128;     ///< longest sequence
  Index width = 128;
  Index heads = 4;
  Index layers = 6;

  /// @throws zero::InvalidArgument in one sentence when no model has these sizes
  void check() const {
    for (Index size : {vocabulary, context, width, heads}) {
      if (size < 1) {
        throw zero::InvalidArgument(
            "gpt2: vocabulary, context, width and heads must be at least 1");
      }
    }
    if (layers < 0) throw zero::InvalidArgument("gpt2: the number of layers must not be negative");
    if (width % heads != 0) {
      throw zero::InvalidArgument("gpt2: " + std::to_string(heads) +
                                  " heads do not divide a width of " + std::to_string(width));
    }
  }
};

}  // namespace gpt2
