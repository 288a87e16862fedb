// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a forward pass leaves for the backward pass, in one allocation that is carved anew for each
// micro-batch and grows only when a larger one comes.

#include <gpt2/attention.hpp>
#include <gpt2/configuration.hpp>
#include <gpt2/layer_norm.hpp>

#include <span>
#include <vector>

namespace gpt2 {

/// One block's; the comments give elements a token. The block's output is the next one's input.
template <Real T>
struct BlockActivations {
  std::span<T> input;              // width
  std::span<T> normed_1;           // width
  RowMoments<T> moments_1;         // 2
  std::span<T> qkv;                // 3 width
  std::span<T> attention_weights;  // heads x length
  std::span<T> attended;           // width
  std::span<T> middle;             // width: the input plus attention
  std::span<T> normed_2;           // width
  RowMoments<T> moments_2;         // 2
  std::span<T> expanded;           // 4 width
  std::span<T> activated;          // 4 width
  std::span<T> output;             // (the next block's input)
};

/// Gradients of activations, shared by all blocks.
template <Real T>
struct ActivationGradients {
  std::span<T> stream;             // width: of the residual stream
  std::span<T> narrow;             // width
  std::span<T> wide;               // 4 width
  std::span<T> attention_scratch;  // one block of scores, not one a token
};

/// All activations of a GPT-2 for one micro-batch of `batch` sequences of `length` tokens.
template <Real T>
class Activations {
 public:
  AttentionShape shape;
  std::vector<BlockActivations<T>> blocks;
  std::span<T> stream;  // the last block's output
  std::span<T> normed;
  RowMoments<T> moments;
  std::span<T> logits;  // then probabilities, then their gradient
  ActivationGradients<T> gradients;

  /// Makes room for `batch` sequences of `length` tokens, and for gradients if the pass trains.
  void prepare(Configuration const& size, Index batch, Index length, bool trains) {
    blocks.resize(at(size.layers));
    Carver measure;
    carve(measure, size, batch, length, trains);
    if (measure.used > std::ssize(memory_)) memory_.resize(at(measure.used));
    Carver parts{memory_.data()};
    carve(parts, size, batch, length, trains);
  }

  /// Bytes that a pass over such a micro-batch takes.
  static Index bytes(Configuration const& size, Index batch, Index length, bool trains) {
    Activations a;
    a.blocks.resize(at(size.layers));
    Carver measure;
    a.carve(measure, size, batch, length, trains);
    return measure.used * static_cast<Index>(sizeof(T));
  }

 private:
  /// Hands out parts of a buffer, each from a multiple of 64 bytes on; without a buffer it only
  /// counts.
  struct Carver {
    T* base = nullptr;
    Index used = 0;

    std::span<T> take(Index count) {
      Index const begin = used;
      used += zero::round_up(count, 64 / static_cast<Index>(sizeof(T)));
      return base == nullptr ? std::span<T>{} : std::span<T>(base + begin, at(count));
    }
    RowMoments<T> moments(Index rows) { return {take(rows), take(rows)}; }
  };

  void carve(Carver& parts, Configuration const& size, Index batch, Index length, bool trains) {
    shape = {.batch = batch, .length = length, .heads = size.heads, .width = size.width};
    Index const rows = batch * length;
    Index const width = rows * size.width;
    std::span<T> flowing = parts.take(width);
    for (BlockActivations<T>& block : blocks) {
      block.input = flowing;
      block.normed_1 = parts.take(width);
      block.moments_1 = parts.moments(rows);
      block.qkv = parts.take(3 * width);
      block.attention_weights = parts.take(shape.num_weights());
      block.attended = parts.take(width);
      block.middle = parts.take(width);
      block.normed_2 = parts.take(width);
      block.moments_2 = parts.moments(rows);
      block.expanded = parts.take(4 * width);
      block.activated = parts.take(4 * width);
      block.output = flowing = parts.take(width);
    }
    stream = flowing;
    normed = parts.take(width);
    moments = parts.moments(rows);
    logits = parts.take(rows * size.vocabulary);
    gradients = {};
    if (!trains) return;
    gradients.stream = parts.take(width);
    gradients.narrow = parts.take(width);
    gradients.wide = parts.take(4 * width);
    gradients.attention_scratch = parts.take(attention_scratch(shape));
  }

  std::vector<T> memory_;
};

}  // namespace gpt2
