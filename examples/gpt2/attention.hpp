// SPDX-License-Identifier: Apache-2.0
#pragma once
// Causal self-attention with several heads (Vaswani et al. 2017, eq. 1): a token attends to itself
// and to what stands before it. Shapes: qkv [batch, length, 3 width], a row holding queries, keys,
// values, each split into heads; weights [batch, heads, length, length]; out [batch, length,
// width].
//
// Queries are taken in blocks, and a block's products stop at the last key its last query may see:
// almost half of the work is never done. Weights beyond that key are not written and not read.

#include <gpt2/softmax.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

namespace gpt2 {

struct AttentionShape {
  Index batch = 0;
  Index length = 0;
  Index heads = 0;
  Index width = 0;

  Index head_width() const { return width / heads; }
  Index num_weights() const { return batch * heads * length * length; }
};

namespace detail {

inline constexpr Index query_block = 64;

/// What one head of one sequence reads and writes.
template <class T>
struct Head {
  T* query = nullptr;
  T* key = nullptr;
  T* value = nullptr;

  Head(std::span<T> qkv, AttentionShape const& shape, Index sequence, Index head) {
    query = qkv.data() + sequence * shape.length * 3 * shape.width + head * shape.head_width();
    key = query + shape.width;
    value = key + shape.width;
  }
};

/// Calls visit(sequence, head, begin, count, keys) for each block of `count` queries, which see
/// `keys` keys.
template <class Visit>
void for_each_query_block(AttentionShape const& shape, Visit visit) {
  for (Index sequence = 0; sequence < shape.batch; ++sequence) {
    for (Index head = 0; head < shape.heads; ++head) {
      for (Index begin = 0; begin < shape.length; begin += query_block) {
        Index const count = std::min(query_block, shape.length - begin);
        visit(sequence, head, begin, count, begin + count);
      }
    }
  }
}

}  // namespace detail

/// weights = softmax(q k^T / sqrt(head width)), out = weights v
template <Real T>
void attention(std::span<T const> qkv, AttentionShape const& shape,
               std::span<std::type_identity_t<T>> weights, std::span<std::type_identity_t<T>> out) {
  Index const size = shape.head_width();
  Index const stride = 3 * shape.width;
  T const scale = T(1) / std::sqrt(T(size));
  detail::for_each_query_block(
      shape, [&](Index sequence, Index h, Index begin, Index count, Index keys) {
        detail::Head<T const> const head(qkv, shape, sequence, h);
        T* block =
            weights.data() + ((sequence * shape.heads + h) * shape.length + begin) * shape.length;
        Matrix<T> const scores(block, count, keys, shape.length);
        Matrix<T const> const query(head.query + begin * stride, count, size, stride);
        multiply(scale, query, ~Matrix<T const>(head.key, keys, size, stride), 0, scores);
        for (Index i = 0; i < count; ++i) {
          T* row = block + i * shape.length;
          softmax(row, begin + i + 1);
          std::fill(row + begin + i + 1, row + keys, T(0));
        }
        T* result = out.data() + (sequence * shape.length + begin) * shape.width + h * size;
        multiply(T(1), Matrix<T const>(block, count, keys, shape.length),
                 Matrix<T const>(head.value, keys, size, stride), 0,
                 Matrix<T>(result, count, size, shape.width));
      });
}

/// grad_qkv from grad_out; overwrites it. `scratch` has room for one block of scores, see
/// attention_scratch. With w the weights: grad v = w^T grad_out, grad w = grad_out v^T, grad score
/// = w (grad w - sum(w grad w)).
template <Real T>
void attention_backward(std::span<T const> grad_out, std::span<std::type_identity_t<T const>> qkv,
                        std::span<std::type_identity_t<T const>> weights,
                        AttentionShape const& shape, std::span<std::type_identity_t<T>> grad_qkv,
                        std::span<std::type_identity_t<T>> scratch) {
  Index const size = shape.head_width();
  Index const stride = 3 * shape.width;
  T const scale = T(1) / std::sqrt(T(size));
  std::ranges::fill(grad_qkv, T(0));  // later blocks add to the keys and values of earlier ones
  detail::for_each_query_block(shape, [&](Index sequence, Index h, Index begin, Index count,
                                          Index keys) {
    detail::Head<T const> const head(qkv, shape, sequence, h);
    detail::Head<T> const grad(grad_qkv, shape, sequence, h);
    T const* block =
        weights.data() + ((sequence * shape.heads + h) * shape.length + begin) * shape.length;
    Matrix<T const> const weight(block, count, keys, shape.length);
    Matrix<T const> const grad_result(
        grad_out.data() + (sequence * shape.length + begin) * shape.width + h * size, count, size,
        shape.width);
    multiply(T(1), ~weight, grad_result, 1, Matrix<T>(grad.value, keys, size, stride));
    multiply(T(1), grad_result, ~Matrix<T const>(head.value, keys, size, stride), 0,
             Matrix<T>(scratch.data(), count, keys, keys));
    for (Index i = 0; i < count; ++i) {
      T* row = scratch.data() + i * keys;
      T const* probability = block + i * shape.length;
      T const mean = sum_of<T>(begin + i + 1, [=](Index j) { return probability[j] * row[j]; });
      for (Index j = 0; j < keys; ++j) row[j] = probability[j] * (row[j] - mean);
    }
    Matrix<T const> const grad_scores(scratch.data(), count, keys, keys);
    multiply(scale, grad_scores, Matrix<T const>(head.key, keys, size, stride), 0,
             Matrix<T>(grad.query + begin * stride, count, size, stride));
    multiply(scale, ~grad_scores, Matrix<T const>(head.query + begin * stride, count, size, stride),
             1, Matrix<T>(grad.key, keys, size, stride));
  });
}

/// Elements of scratch that attention_backward needs.
inline Index attention_scratch(AttentionShape const& shape) {
  return std::min(detail::query_block, shape.length) * shape.length;
}

}  // namespace gpt2
