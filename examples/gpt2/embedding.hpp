// SPDX-License-Identifier: Apache-2.0
#pragma once
// Token and position embeddings: out[row] = tokens[token of row] + positions[place of row in its
// sequence]. Shapes: ids [rows]; tokens [vocabulary, width]; positions [context, width]; out [rows,
// width]; rows are whole sequences of `length` tokens, one after the other.

#include <gpt2/matrix.hpp>
#include <gpt2/token.hpp>

#include <span>
#include <type_traits>

namespace gpt2 {

template <Real T>
void embed(std::span<Token const> ids, Index length, std::span<T const> tokens,
           std::span<std::type_identity_t<T const>> positions, Index width,
           std::span<std::type_identity_t<T>> out) {
  for (Index row = 0; row < std::ssize(ids); ++row) {
    T const* token = tokens.data() + ids[at(row)] * width;
    T const* position = positions.data() + row % length * width;
    T* result = out.data() + row * width;
    for (Index i = 0; i < width; ++i) result[i] = token[i] + position[i];
  }
}

/// Adds each row of grad_out to the rows it came from; an empty span stands for a frozen tensor.
template <Real T>
void embed_backward(std::span<T const> grad_out, std::span<Token const> ids, Index length,
                    Index width, std::span<std::type_identity_t<T>> grad_tokens,
                    std::span<std::type_identity_t<T>> grad_positions) {
  auto const add = [width](T const* from, std::span<T> gradient, Index row) {
    if (gradient.empty()) return;
    T* to = gradient.data() + row * width;
    for (Index i = 0; i < width; ++i) to[i] += from[i];
  };
  for (Index row = 0; row < std::ssize(ids); ++row) {
    T const* from = grad_out.data() + row * width;
    add(from, grad_tokens, ids[at(row)]);
    add(from, grad_positions, row % length);
  }
}

}  // namespace gpt2
