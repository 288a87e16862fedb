// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a forward pass leaves for the backward pass on a GPU, in one allocation that is made before
// the first step and carved anew for each shape of micro-batch.

#include <gpt2/configuration.hpp>
#include <gpt2/cuda/attention.cuh>
#include <gpt2/cuda/column_sum.cuh>
#include <gpt2/recompute.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace gpt2::cuda {

/// One block's; the comments give elements a token. The block's output is the next one's input.
template <class T>
struct BlockActivations {
  T* input = nullptr;         // width
  T* normed_1 = nullptr;      // width
  RowMoments moments_1{};     // 2 floats
  T* qkv = nullptr;           // 3 width
  void* attention = nullptr;  // as AttentionMemory says
  T* attended = nullptr;      // width
  T* middle = nullptr;        // width: the input plus attention
  T* normed_2 = nullptr;      // width
  RowMoments moments_2{};     // 2 floats
  T* expanded = nullptr;      // 4 width
  T* activated = nullptr;     // 4 width
  T* output = nullptr;        // (the next block's input)
};

/// The sizes that activations depend on.
struct ActivationShape {
  Configuration size;
  Index batch = 0;   ///< sequences
  Index length = 0;  ///< of each
  bool trains = false;
  Recompute recompute = Recompute::none;

  Index rows() const { return batch * length; }
  AttentionShape attention() const {
    return {.batch = batch, .length = length, .heads = size.heads, .width = size.width};
  }
};

/// All activations of a GPT-2 for one micro-batch, as places in a buffer. Without a buffer it only
/// measures.
template <class T>
class Activations {
 public:
  std::vector<BlockActivations<T>> blocks;
  T* stream = nullptr;  // the last block's output
  T* normed = nullptr;
  RowMoments moments{};
  T* logits = nullptr;  // then their gradient
  float* losses = nullptr;
  float* sums = nullptr;  // partial sums over rows
  void* attention_scratch = nullptr;
  T* grad_stream = nullptr;  // width: of the residual stream
  T* grad_narrow = nullptr;  // width
  T* grad_wide = nullptr;    // 4 width

  /// Bytes that a pass of this shape takes.
  static Index bytes(ActivationShape const& shape) {
    Activations a;
    return a.carve(nullptr, shape);
  }

  /// Hands out parts of a buffer, each from a multiple of 256 bytes on. @return bytes used
  Index carve(std::byte* base, ActivationShape const& s) {
    base_ = base;
    used_ = 0;
    Index const rows = s.rows();
    Index const width = rows * s.size.width;
    AttentionMemory const attention = Attention<T>::memory(s.attention());
    bool const whole = s.trains && s.recompute == Recompute::block;
    bool const cheap = s.trains && s.recompute == Recompute::cheap;
    blocks.assign(at(s.size.layers), {});
    BlockActivations<T> shared;  // what blocks do not keep
    if (!blocks.empty() && (cheap || whole || !s.trains)) take_made_again(shared, s);
    if (!blocks.empty() && (whole || !s.trains)) take_kept(shared, s, attention);
    T* flowing = elements(width);
    T* const other = s.trains ? nullptr : elements(width);
    for (BlockActivations<T>& block : blocks) {
      block = shared;
      block.input = flowing;
      if (s.trains && s.recompute == Recompute::none) take_made_again(block, s);
      if (s.trains && !whole) take_kept(block, s, attention);
      // Without a backward pass two buffers take turns.
      flowing = s.trains ? elements(width) : flowing == other ? blocks.front().input : other;
      block.output = flowing;
    }
    stream = flowing;
    normed = elements(width);
    moments = take_moments(rows);
    logits = elements(rows * s.size.vocabulary);
    losses = take<float>(rows);
    attention_scratch = take<std::byte>(attention.scratch);
    if (s.trains) {
      Index const floats = std::max(layer_norm_scratch(rows, s.size.width),
                                    column_sum_scratch(rows, 4 * s.size.width));
      sums = take<float>(floats);
      grad_stream = elements(width);
      grad_narrow = elements(width);
      grad_wide = elements(4 * width);
    }
    return used_;
  }

 private:
  template <class E>
  E* take(Index count) {
    Index const begin = used_;
    used_ += zero::round_up(count * Index{sizeof(E)}, 256);
    return base_ == nullptr ? nullptr : reinterpret_cast<E*>(base_ + begin);
  }
  T* elements(Index count) { return take<T>(count); }
  RowMoments take_moments(Index rows) { return {take<float>(rows), take<float>(rows)}; }

  void take_made_again(BlockActivations<T>& block, ActivationShape const& s) {
    block.normed_1 = elements(s.rows() * s.size.width);
    block.normed_2 = elements(s.rows() * s.size.width);
    block.activated = elements(4 * s.rows() * s.size.width);
  }
  void take_kept(BlockActivations<T>& block, ActivationShape const& s,
                 AttentionMemory const& attention) {
    Index const width = s.rows() * s.size.width;
    block.moments_1 = take_moments(s.rows());
    block.qkv = elements(3 * width);
    block.attention = take<std::byte>(attention.kept);
    block.attended = elements(width);
    block.middle = elements(width);
    block.moments_2 = take_moments(s.rows());
    block.expanded = elements(4 * width);
  }

  std::byte* base_ = nullptr;
  Index used_ = 0;
};

}  // namespace gpt2::cuda
