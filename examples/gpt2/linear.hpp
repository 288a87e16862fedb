// SPDX-License-Identifier: Apache-2.0
#pragma once
// A dense layer with GPT-2's Conv1D weights, [inputs, outputs], and the residual connection round
// it. Shapes: x [rows, inputs]; out [rows, outputs]; bias [outputs].

#include <gpt2/matrix.hpp>

#include <algorithm>
#include <span>
#include <type_traits>

namespace gpt2 {

/// out = x weight + bias. The product is added to rows that hold the bias already.
template <Real T>
void linear(std::span<T const> x, std::span<std::type_identity_t<T const>> weight,
            std::span<std::type_identity_t<T const>> bias, std::span<std::type_identity_t<T>> out) {
  Index const outputs = std::ssize(bias);
  Index const inputs = std::ssize(weight) / outputs;
  for (Index row = 0; row < std::ssize(out) / outputs; ++row) {
    std::ranges::copy(bias, out.data() + row * outputs);
  }
  multiply(T(1), Matrix<T const>(x, inputs), Matrix<T const>(weight, outputs), 1,
           Matrix<T>(out, outputs));
}

/// out = residual + x weight + bias
template <Real T>
void residual_linear(std::span<T const> residual, std::span<std::type_identity_t<T const>> x,
                     std::span<std::type_identity_t<T const>> weight,
                     std::span<std::type_identity_t<T const>> bias,
                     std::span<std::type_identity_t<T>> out) {
  Index const outputs = std::ssize(bias);
  Index const inputs = std::ssize(weight) / outputs;
  for (Index row = 0; row < std::ssize(out) / outputs; ++row) {
    T const* from = residual.data() + row * outputs;
    T* to = out.data() + row * outputs;
    for (Index i = 0; i < outputs; ++i) to[i] = from[i] + bias[at(i)];
  }
  multiply(T(1), Matrix<T const>(x, inputs), Matrix<T const>(weight, outputs), 1,
           Matrix<T>(out, outputs));
}

/// grad_x = grad_out weight^T; adds x^T grad_out to grad_weight and the rows of grad_out to
/// grad_bias, where an empty span stands for a frozen tensor.
template <Real T>
void linear_backward(std::span<T const> grad_out, std::span<std::type_identity_t<T const>> x,
                     std::span<std::type_identity_t<T const>> weight, Index outputs,
                     std::span<std::type_identity_t<T>> grad_x,
                     std::span<std::type_identity_t<T>> grad_weight,
                     std::span<std::type_identity_t<T>> grad_bias) {
  Index const inputs = std::ssize(weight) / outputs;
  Matrix<T const> const gradient(grad_out, outputs);
  multiply(T(1), gradient, ~Matrix<T const>(weight, outputs), 0, Matrix<T>(grad_x, inputs));
  if (!grad_weight.empty()) {
    multiply(T(1), ~Matrix<T const>(x, inputs), gradient, 1, Matrix<T>(grad_weight, outputs));
  }
  if (grad_bias.empty()) return;
  for (Index row = 0; row < gradient.rows; ++row) {
    T const* from = grad_out.data() + row * outputs;
    for (Index i = 0; i < outputs; ++i) grad_bias[at(i)] += from[i];
  }
}

}  // namespace gpt2
