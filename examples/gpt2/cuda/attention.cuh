// SPDX-License-Identifier: Apache-2.0
#pragma once
// Causal self-attention with several heads; the host reference is gpt2/attention.hpp. In 16 bits by
// cuDNN, which keeps one number a row; in float, and for head widths that cuDNN does not take, by
// plain products, which keep all weights. Shapes: qkv [batch, length, 3 width]; out [batch, length,
// width]; weights [batch, heads, length, length].

#include <gpt2/cuda/flash_attention.hpp>
#include <gpt2/cuda/gemm.hpp>
#include <gpt2/cuda/softmax.cuh>

#include <memory>
#include <type_traits>

namespace gpt2::cuda {

/// What attention needs of memory besides its inputs and outputs, in bytes.
struct AttentionMemory {
  Index kept = 0;     ///< from a block's forward to its backward
  Index scratch = 0;  ///< within one call
};

/// Attention of one model on one stream at a time.
/// @tparam T float, zero::bf16 or zero::fp16
template <class T>
class Attention {
 public:
  /// @param products outlives this
  Attention(zero::cuda::Device& device, Products<T>& products, AttentionShape const& most)
      : products_(products) {
    if (!flash(most)) return;
    flash_ = std::make_unique<FlashAttention>(
        device, std::is_same_v<T, zero::bf16> ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF);
  }

  static AttentionMemory memory(AttentionShape const& s) {
    Index const rows = s.batch * s.heads * s.length;
    if (flash(s)) return {rows * Index{sizeof(float)}, rows * Index{sizeof(float)}};
    Index const weights = rows * s.length;
    Index const scratch = weights * Index{sizeof(float)};
    return {weights * Index{sizeof(T)},
            std::is_same_v<T, float> ? scratch : scratch + weights * Index{sizeof(T)}};
  }

  /// Before the first pass of a shape; see FlashAttention::prepare.
  void prepare(AttentionShape const& shape, bool trains) {
    if (flash_) flash_->prepare(shape, trains);
  }

  /// out = softmax(q k^T / sqrt(head width)) v
  /// @param kept, scratch as memory(shape) says
  void forward(cudaStream_t stream, AttentionShape const& s, T* out, T const* qkv, void* kept,
               void* scratch) {
    if (flash_) {
      flash_->forward(stream, s, {.qkv = qkv, .out = out, .stats = static_cast<float*>(kept)});
      return;
    }
    Places const p(s, kept, scratch);
    for (Index b = 0; b < s.batch; ++b) {
      T const* const from = qkv + b * s.length * 3 * s.width;
      products_(stream, scores_of(s, 3 * s.width, 3 * s.width),
                {.a = from, .b = from + s.width, .out = p.scores + b * p.sequence}, p.scale, true);
    }
    causal_softmax(stream, p.weights, p.scores, s.batch * s.heads * s.length, s.length);
    for (Index b = 0; b < s.batch; ++b) {
      products_(stream, columns_of(s, false, 3 * s.width, s.width),
                {.a = p.weights + b * p.sequence,
                 .b = qkv + b * s.length * 3 * s.width + 2 * s.width,
                 .out = out + b * s.length * s.width});
    }
  }

  /// grad_qkv from grad_out; overwrites it.
  void backward(cudaStream_t stream, AttentionShape const& s, T* grad_qkv, T const* grad_out,
                T const* qkv, T* out, void* kept, void* scratch) {
    if (flash_) {
      flash_->backward(stream, s,
                       {.qkv = qkv,
                        .out = out,
                        .stats = static_cast<float*>(kept),
                        .grad_out = grad_out,
                        .grad_qkv = grad_qkv,
                        .row_sums = static_cast<float*>(scratch)});
      return;
    }
    Places const p(s, kept, scratch);
    for (Index b = 0; b < s.batch; ++b) {
      T const* const grad = grad_out + b * s.length * s.width;
      T const* const from = qkv + b * s.length * 3 * s.width;
      products_(stream, columns_of(s, true, s.width, 3 * s.width),
                {.a = p.weights + b * p.sequence,
                 .b = grad,
                 .out = grad_qkv + b * s.length * 3 * s.width + 2 * s.width});
      products_(stream, scores_of(s, s.width, 3 * s.width),
                {.a = grad, .b = from + 2 * s.width, .out = p.scores + b * p.sequence}, 1, true);
    }
    causal_softmax_backward(stream, p.grad_scores, p.scores, p.weights,
                            s.batch * s.heads * s.length, s.length);
    for (Index b = 0; b < s.batch; ++b) {
      T const* const from = qkv + b * s.length * 3 * s.width;
      T* const to = grad_qkv + b * s.length * 3 * s.width;
      T const* const grad_scores = p.grad_scores + b * p.sequence;
      products_(stream, columns_of(s, false, 3 * s.width, 3 * s.width),
                {.a = grad_scores, .b = from + s.width, .out = to}, p.scale);
      products_(stream, columns_of(s, true, 3 * s.width, 3 * s.width),
                {.a = grad_scores, .b = from, .out = to + s.width}, p.scale);
    }
  }

 private:
  static bool flash(AttentionShape const& s) {
    return !std::is_same_v<T, float> && FlashAttention::takes(s.head_width());
  }

  /// Where plain attention keeps what.
  struct Places {
    T* weights;
    float* scores;   // and the gradient of the weights
    T* grad_scores;  // of the scores; in float in the same place
    Index sequence;  // elements of a sequence's weights
    float scale;

    Places(AttentionShape const& s, void* kept, void* scratch)
        : weights(static_cast<T*>(kept)),
          scores(static_cast<float*>(scratch)),
          sequence(s.heads * s.length * s.length),
          scale(1.0f / std::sqrt(static_cast<float>(s.head_width()))) {
      if constexpr (std::is_same_v<T, float>) {
        grad_scores = scores;
      } else {
        grad_scores = reinterpret_cast<T*>(scores + s.batch * sequence);
      }
    }
  };

  /// [length, head width] x [length, head width]^T for every head of a sequence.
  static Product scores_of(AttentionShape const& s, Index a_stride, Index b_stride) {
    return {.rows = s.length,
            .columns = s.length,
            .inner = s.head_width(),
            .b_transposed = true,
            .a_stride = a_stride,
            .b_stride = b_stride,
            .batch = s.heads,
            .a_step = s.head_width(),
            .b_step = s.head_width(),
            .out_step = s.length * s.length};
  }
  /// [length, length] x [length, head width] for every head of a sequence.
  static Product columns_of(AttentionShape const& s, bool transposed, Index b_stride,
                            Index out_stride) {
    return {.rows = s.length,
            .columns = s.head_width(),
            .inner = s.length,
            .a_transposed = transposed,
            .b_stride = b_stride,
            .out_stride = out_stride,
            .batch = s.heads,
            .a_step = s.length * s.length,
            .b_step = s.head_width(),
            .out_step = s.head_width()};
  }

  Products<T>& products_;
  std::unique_ptr<FlashAttention> flash_;
};

}  // namespace gpt2::cuda
