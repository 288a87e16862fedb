// SPDX-License-Identifier: Apache-2.0
#pragma once
// Causal attention in 16 bits as two graphs that cuDNN runs as one kernel each, forward and
// backward (FlashAttention-2, Dao 2023): no score ever lies in memory. Shapes: qkv [batch, length,
// 3 width], a row holding queries, keys, values, each split into heads; out [batch, length, width];
// stats [batch, heads, length], the logarithm of each row's sum of exponentials.
//
// cuDNN's single operation for attention (CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) knows no
// causal mask before 9.21. What it stands for is written out here, which all of 9 run on the same
// kernels.

#include <gpt2/cuda/cudnn_graph.hpp>

#include <compare>

namespace gpt2::cuda {

struct AttentionShape {
  Index batch = 0;
  Index length = 0;
  Index heads = 0;
  Index width = 0;

  Index head_width() const { return width / heads; }
  Index rows() const { return batch * length; }
  auto operator<=>(AttentionShape const&) const = default;
};

/// The graph of the forward pass and the numbers of its tensors.
struct AttentionForward {
  OperationGraph graph;
  OperationGraph::Number query, key, value, out, stats, scale, lowest;

  /// @param type of all that lies in memory but the stats: CUDNN_DATA_BFLOAT16 or CUDNN_DATA_HALF
  AttentionForward(AttentionShape const& s, cudnnDataType_t type) {
    using Extents = OperationGraph::Extents;
    Index const b = s.batch, h = s.heads, t = s.length, d = s.head_width(), w = s.width;
    Extents const wide{t * 3 * w, d, 3 * w, 1};
    Extents const scores{b, h, t, t};
    Extents const rows{b, h, t, 1};
    query = graph.tensor(type, {b, h, t, d}, wide);
    key = graph.tensor(type, {b, h, d, t}, {t * 3 * w, d, 1, 3 * w});
    value = graph.tensor(type, {b, h, t, d}, wide);
    out = graph.tensor(type, {b, h, t, d}, {t * w, d, w, 1});
    stats = graph.tensor(CUDNN_DATA_FLOAT, rows, {h * t, t, 1, 1});
    scale = graph.scalar();
    lowest = graph.scalar();

    auto const product = graph.between(scores);
    graph.matmul(query, key, product);
    auto const scaled = graph.between(scores);
    graph.pointwise(CUDNN_POINTWISE_MUL, product, scaled, scale);
    auto const masked = causal(graph, scaled, scores, lowest);
    auto const largest = graph.between(rows);
    graph.reduce(CUDNN_REDUCE_TENSOR_MAX, masked, largest);
    auto const shifted = graph.between(scores);
    graph.pointwise(CUDNN_POINTWISE_SUB, masked, shifted, largest);
    auto const exponential = graph.between(scores);
    graph.pointwise(CUDNN_POINTWISE_EXP, shifted, exponential);
    auto const sum = graph.between(rows);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
    auto const logarithm = graph.between(rows);
    graph.pointwise(CUDNN_POINTWISE_LOG, sum, logarithm);
    graph.pointwise(CUDNN_POINTWISE_ADD, largest, stats, logarithm);
    auto const weights = graph.between(scores, type);
    graph.pointwise(CUDNN_POINTWISE_DIV, exponential, weights, sum);
    graph.matmul(weights, value, out);
  }

  /// scores where the row sees the column, else the lowest number.
  static OperationGraph::Number causal(OperationGraph& graph, OperationGraph::Number scores,
                                       OperationGraph::Extents const& extents,
                                       OperationGraph::Number lowest) {
    auto const row = graph.between(extents, CUDNN_DATA_INT32);
    graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, row, -1, -1, 2);
    auto const column = graph.between(extents, CUDNN_DATA_INT32);
    graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, column, -1, -1, 3);
    auto const sees = graph.between(extents, CUDNN_DATA_BOOLEAN);
    graph.pointwise(CUDNN_POINTWISE_CMP_GE, row, sees, column);
    auto const masked = graph.between(extents);
    graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, scores, masked, lowest, sees);
    return masked;
  }
};

/// The graph of the backward pass. With P the weights and S the scaled scores: dV = P^T dO,
/// dS = P (dO V^T - sum(dO O)) scale, dQ = dS K, dK = dS^T Q.
struct AttentionBackward {
  OperationGraph graph;
  OperationGraph::Number query, key, value, out, stats, scale, lowest, one;
  OperationGraph::Number grad_out, grad_query, grad_key, grad_value, row_sums;

  /// @param type as in the forward pass
  AttentionBackward(AttentionShape const& s, cudnnDataType_t type) {
    using Extents = OperationGraph::Extents;
    Index const b = s.batch, h = s.heads, t = s.length, d = s.head_width(), w = s.width;
    Extents const wide{t * 3 * w, d, 3 * w, 1};
    Extents const wide_transposed{t * 3 * w, d, 1, 3 * w};
    Extents const narrow{t * w, d, w, 1};
    Extents const scores{b, h, t, t};
    Extents const transposed{h * t * t, t * t, 1, t};
    Extents const rows{b, h, t, 1};
    Extents const head{b, h, t, d};
    query = graph.tensor(type, head, wide);
    key = graph.tensor(type, {b, h, d, t}, wide_transposed);
    value = graph.tensor(type, {b, h, d, t}, wide_transposed);
    out = graph.tensor(type, head, narrow);
    stats = graph.tensor(CUDNN_DATA_FLOAT, rows, {h * t, t, 1, 1});
    grad_out = graph.tensor(type, head, narrow);
    grad_query = graph.tensor(type, head, wide);
    grad_key = graph.tensor(type, head, wide);
    grad_value = graph.tensor(type, head, wide);
    row_sums = graph.tensor(CUDNN_DATA_FLOAT, rows, {h * t, t, 1, 1});
    scale = graph.scalar();
    lowest = graph.scalar();
    one = graph.scalar();

    auto const terms = graph.between(head, {h * t * d, t * d, d, 1});
    graph.pointwise(CUDNN_POINTWISE_MUL, grad_out, terms, out);
    auto const sums = graph.between(rows, {h * t, t, 1, 1});
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, terms, sums);
    graph.pointwise(CUDNN_POINTWISE_MUL, sums, row_sums, one);  // as cuDNN knows the pattern

    auto const product = graph.between(scores);
    graph.matmul(query, key, product);
    auto const scaled = graph.between(scores);
    graph.pointwise(CUDNN_POINTWISE_MUL, product, scaled, scale);
    auto const shifted = graph.between(scores);
    graph.pointwise(CUDNN_POINTWISE_SUB, scaled, shifted, stats);
    auto const masked = AttentionForward::causal(graph, shifted, scores, lowest);
    auto const weights = graph.between(scores);
    graph.pointwise(CUDNN_POINTWISE_EXP, masked, weights);
    auto const weights_transposed = graph.between(scores, transposed, type);
    graph.reshape(weights, weights_transposed);
    graph.matmul(weights_transposed, grad_out, grad_value);

    auto const grad_weights = graph.between(scores);
    graph.matmul(grad_out, value, grad_weights);
    auto const centred = graph.between(scores);
    graph.pointwise(CUDNN_POINTWISE_SUB, grad_weights, centred, row_sums);
    auto const times_weights = graph.between(scores);
    graph.pointwise(CUDNN_POINTWISE_MUL, centred, times_weights, weights);
    auto const grad_scores = graph.between(scores, type);
    graph.pointwise(CUDNN_POINTWISE_MUL, times_weights, grad_scores, scale);
    auto const grad_scores_transposed = graph.between(scores, transposed, type);
    graph.reshape(grad_scores, grad_scores_transposed);
    graph.matmul(grad_scores_transposed, query, grad_key);
    auto const key_rows = graph.between(head, wide, type);
    graph.reshape(key, key_rows);
    graph.matmul(grad_scores, key_rows, grad_query);
  }
};

}  // namespace gpt2::cuda
