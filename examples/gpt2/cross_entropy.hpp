// SPDX-License-Identifier: Apache-2.0
#pragma once
// The head tied to the token embedding, and the mean cross entropy of its softmax.
// Shapes: x [rows, width]; tokens [vocabulary, width]; logits [rows, vocabulary]; targets [rows].
// One buffer of logits serves the whole way: logits, then probabilities, then the gradient of the
// logits.

#include <gpt2/embedding.hpp>
#include <gpt2/softmax.hpp>

#include <cmath>
#include <span>
#include <type_traits>

namespace gpt2 {

/// logits = x tokens^T
template <Real T>
void project(std::span<T const> x, std::span<std::type_identity_t<T const>> tokens, Index width,
             std::span<std::type_identity_t<T>> logits) {
  Index const vocabulary = std::ssize(tokens) / width;
  multiply(T(1), Matrix<T const>(x, width), ~Matrix<T const>(tokens, width), 0,
           Matrix<T>(logits, vocabulary));
}

/// Adds grad_logits^T x to grad_tokens unless it is empty (frozen); grad_x = grad_logits tokens.
template <Real T>
void project_backward(std::span<T const> grad_logits, std::span<std::type_identity_t<T const>> x,
                      std::span<std::type_identity_t<T const>> tokens, Index width,
                      std::span<std::type_identity_t<T>> grad_x,
                      std::span<std::type_identity_t<T>> grad_tokens) {
  Matrix<T const> const gradient(grad_logits, std::ssize(tokens) / width);
  multiply(T(1), gradient, Matrix<T const>(tokens, width), 0, Matrix<T>(grad_x, width));
  if (!grad_tokens.empty()) {
    multiply(T(1), ~gradient, Matrix<T const>(x, width), 1, Matrix<T>(grad_tokens, width));
  }
}

/// Turns logits into probabilities.
/// @return the mean over rows of -log(probability of the row's target), summed in double
template <Real T>
double cross_entropy(std::span<T> logits, std::span<Token const> targets) {
  Index const vocabulary = std::ssize(logits) / std::ssize(targets);
  double sum = 0;
  for (Index row = 0; row < std::ssize(targets); ++row) {
    T* values = logits.data() + row * vocabulary;
    double const target = values[targets[at(row)]];
    auto const scale = softmax(values, vocabulary);
    sum += static_cast<double>(scale.largest) + std::log(static_cast<double>(scale.sum)) - target;
  }
  return sum / static_cast<double>(std::ssize(targets));
}

/// Turns the probabilities that cross_entropy left into factor x the gradient of the mean loss by
/// the logits.
template <Real T>
void cross_entropy_backward(std::span<T> probabilities, std::span<Token const> targets, T factor) {
  Index const vocabulary = std::ssize(probabilities) / std::ssize(targets);
  T const scale = factor / T(std::ssize(targets));
  for (Index row = 0; row < std::ssize(targets); ++row) {
    T* values = probabilities.data() + row * vocabulary;
    values[targets[at(row)]] -= T(1);
    for (Index i = 0; i < vocabulary; ++i) values[i] *= scale;
  }
}

}  // namespace gpt2
