// SPDX-License-Identifier: Apache-2.0
#pragma once
// One pre-norm transformer block: middle = input + attention(norm(input)), output = middle +
// mlp(norm(middle)) (Radford et al. 2019, section 2.3).

#include <gpt2/activations.hpp>
#include <gpt2/attention.hpp>
#include <gpt2/gelu.hpp>
#include <gpt2/layer_norm.hpp>
#include <gpt2/linear.hpp>
#include <gpt2/units.hpp>

#include <array>
#include <span>

namespace gpt2 {

template <Real T>
using BlockWeights = std::array<std::span<T const>, num_block_tensors>;

/// Spans of frozen tensors are empty.
template <Real T>
using BlockGradients = std::array<std::span<T>, num_block_tensors>;

/// Fills a.output and everything between from a.input.
template <Real T>
void block_forward(BlockWeights<T> const& w, AttentionShape const& shape, BlockActivations<T>& a) {
  auto const read = [](std::span<T> s) { return std::span<T const>(s); };
  layer_norm(read(a.input), w[ln_1_weight], w[ln_1_bias], a.normed_1, a.moments_1);
  linear(read(a.normed_1), w[attn_c_attn_weight], w[attn_c_attn_bias], a.qkv);
  attention(read(a.qkv), shape, a.attention_weights, a.attended);
  residual_linear(read(a.input), a.attended, w[attn_c_proj_weight], w[attn_c_proj_bias], a.middle);
  layer_norm(read(a.middle), w[ln_2_weight], w[ln_2_bias], a.normed_2, a.moments_2);
  linear(read(a.normed_2), w[mlp_c_fc_weight], w[mlp_c_fc_bias], a.expanded);
  gelu(read(a.expanded), a.activated);
  residual_linear(read(a.middle), a.activated, w[mlp_c_proj_weight], w[mlp_c_proj_bias], a.output);
}

/// Turns d.stream from the gradient of the output into that of the input, and adds to g.
template <Real T>
void block_backward(BlockWeights<T> const& w, AttentionShape const& shape,
                    BlockActivations<T> const& a, ActivationGradients<T> const& d,
                    BlockGradients<T> const& g) {
  auto const read = [](std::span<T> s) { return std::span<T const>(s); };
  Index const width = shape.width;

  linear_backward(read(d.stream), a.activated, w[mlp_c_proj_weight], width, d.wide,
                  g[mlp_c_proj_weight], g[mlp_c_proj_bias]);
  gelu_backward(read(a.expanded), d.wide);
  linear_backward(read(d.wide), a.normed_2, w[mlp_c_fc_weight], 4 * width, d.narrow,
                  g[mlp_c_fc_weight], g[mlp_c_fc_bias]);
  layer_norm_backward(read(d.narrow), a.middle, w[ln_2_weight], a.moments_2, d.stream,
                      g[ln_2_weight], g[ln_2_bias]);

  linear_backward(read(d.stream), a.attended, w[attn_c_proj_weight], width, d.narrow,
                  g[attn_c_proj_weight], g[attn_c_proj_bias]);
  std::span<T> const grad_qkv = d.wide.first(a.qkv.size());
  attention_backward(read(d.narrow), a.qkv, a.attention_weights, shape, grad_qkv,
                     d.attention_scratch);
  linear_backward(read(grad_qkv), a.normed_1, w[attn_c_attn_weight], 3 * width, d.narrow,
                  g[attn_c_attn_weight], g[attn_c_attn_bias]);
  layer_norm_backward(read(d.narrow), a.input, w[ln_1_weight], a.moments_1, d.stream,
                      g[ln_1_weight], g[ln_1_bias]);
}

}  // namespace gpt2
