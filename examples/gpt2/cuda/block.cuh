// SPDX-License-Identifier: Apache-2.0
#pragma once
// One pre-norm transformer block on a GPU; the host reference is gpt2/block.hpp.

#include <gpt2/cuda/activations.cuh>
#include <gpt2/cuda/linear.cuh>
#include <gpt2/units.hpp>

#include <array>

namespace gpt2::cuda {

template <class T>
using BlockWeights = std::array<T const*, num_block_tensors>;

/// Null where a tensor is frozen.
template <class T>
using BlockGradients = std::array<T*, num_block_tensors>;

/// The layers of all blocks, on one stream at a time.
template <class T>
class Block {
 public:
  Block(zero::cuda::Device& device, AttentionShape const& most)
      : linear_(device), attention_(device, linear_.products(), most) {}

  Products<T>& products() { return linear_.products(); }
  Attention<T>& attention() { return attention_; }

  /// Fills everything between a.input and a.output, and a.output where it is asked for.
  void forward(cudaStream_t stream, AttentionShape const& s, BlockWeights<T> const& w,
               BlockActivations<T> const& a, void* attention_scratch, bool output = true) {
    Index const rows = s.rows();
    Index const width = s.width;
    layer_norm(stream, a.normed_1, a.moments_1, a.input, w[ln_1_weight], w[ln_1_bias], rows, width);
    linear_.forward(stream, {rows, width, 3 * width}, a.qkv, a.normed_1, w[attn_c_attn_weight],
                    w[attn_c_attn_bias]);
    attention_.forward(stream, s, a.attended, a.qkv, a.attention, attention_scratch);
    linear_.forward(stream, {rows, width, width}, a.middle, a.attended, w[attn_c_proj_weight],
                    w[attn_c_proj_bias], a.input);
    layer_norm(stream, a.normed_2, a.moments_2, a.middle, w[ln_2_weight], w[ln_2_bias], rows,
               width);
    linear_.forward_gelu(stream, {rows, width, 4 * width}, a.expanded, a.activated, a.normed_2,
                         w[mlp_c_fc_weight], w[mlp_c_fc_bias]);
    if (!output) return;
    linear_.forward(stream, {rows, 4 * width, width}, a.output, a.activated, w[mlp_c_proj_weight],
                    w[mlp_c_proj_bias], a.middle);
  }

  /// Makes again what forward did not keep.
  void recompute(cudaStream_t stream, AttentionShape const& s, BlockWeights<T> const& w,
                 BlockActivations<T> const& a, void* attention_scratch, Recompute what) {
    if (what == Recompute::block) forward(stream, s, w, a, attention_scratch, false);
    if (what != Recompute::cheap) return;
    layer_norm(stream, a.normed_1, a.moments_1, a.input, w[ln_1_weight], w[ln_1_bias], s.rows(),
               s.width);
    layer_norm(stream, a.normed_2, a.moments_2, a.middle, w[ln_2_weight], w[ln_2_bias], s.rows(),
               s.width);
    gelu(stream, a.activated, a.expanded, 4 * s.rows() * s.width);
  }

  /// Turns d.grad_stream from the gradient of the output into that of the input, and writes g, or
  /// adds to it.
  void backward(cudaStream_t stream, AttentionShape const& s, BlockWeights<T> const& w,
                BlockActivations<T> const& a, Activations<T> const& d, BlockGradients<T> const& g,
                bool adds) {
    Index const rows = s.rows();
    Index const width = s.width;
    auto const gradient_of = [&](int weight, int bias) {
      return GradientOf<T>{g[at(weight)], g[at(bias)], adds};
    };
    LinearShape const narrowing{rows, 4 * width, width};
    linear_.parameter_gradient(stream, narrowing, gradient_of(mlp_c_proj_weight, mlp_c_proj_bias),
                               d.grad_stream, a.activated, d.sums);
    linear_.input_gradient_gelu(stream, narrowing, d.grad_wide, d.grad_stream, w[mlp_c_proj_weight],
                                a.expanded);
    LinearShape const widening{rows, width, 4 * width};
    linear_.parameter_gradient(stream, widening, gradient_of(mlp_c_fc_weight, mlp_c_fc_bias),
                               d.grad_wide, a.normed_2, d.sums);
    linear_.input_gradient(stream, widening, d.grad_narrow, d.grad_wide, w[mlp_c_fc_weight]);
    layer_norm_backward(stream, d.grad_stream, g[ln_2_weight], g[ln_2_bias], adds, d.grad_narrow,
                        a.middle, w[ln_2_weight], a.moments_2, rows, width, d.sums);

    LinearShape const square{rows, width, width};
    linear_.parameter_gradient(stream, square, gradient_of(attn_c_proj_weight, attn_c_proj_bias),
                               d.grad_stream, a.attended, d.sums);
    linear_.input_gradient(stream, square, d.grad_narrow, d.grad_stream, w[attn_c_proj_weight]);
    attention_.backward(stream, s, d.grad_wide, d.grad_narrow, a.qkv, a.attended, a.attention,
                        d.attention_scratch);
    LinearShape const triple{rows, width, 3 * width};
    linear_.parameter_gradient(stream, triple, gradient_of(attn_c_attn_weight, attn_c_attn_bias),
                               d.grad_wide, a.normed_1, d.sums);
    linear_.input_gradient(stream, triple, d.grad_narrow, d.grad_wide, w[attn_c_attn_weight]);
    layer_norm_backward(stream, d.grad_stream, g[ln_1_weight], g[ln_1_bias], adds, d.grad_narrow,
                        a.input, w[ln_1_weight], a.moments_1, rows, width, d.sums);
  }

 private:
  Linear<T> linear_;
  Attention<T> attention_;
};

}  // namespace gpt2::cuda
