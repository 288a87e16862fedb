// SPDX-License-Identifier: Apache-2.0
#pragma once
// GPT-2's activation ("gelu_new"): x/2 (1 + tanh(c (x + 0.044715 x^3))), c = sqrt(2 / pi)
// (Hendrycks, Gimpel 2016). Since (1 + tanh u) / 2 = 1 / (1 + exp(-2u)), it is x times a logistic,
// which loses no digits where tanh nears -1.

#include <gpt2/exponential.hpp>
#include <gpt2/matrix.hpp>

#include <span>
#include <type_traits>

namespace gpt2 {

namespace detail {

template <Real T>
inline constexpr T gelu_slope = T(1.5957691216057307117597842397375);  // 2 sqrt(2 / pi)
template <Real T>
inline constexpr T gelu_cubic = T(0.044715);

template <Real T>
T gelu_gate(T x) {
  return T(1) / (T(1) + exponential(-gelu_slope<T> * (x + gelu_cubic<T> * x * x * x)));
}

}  // namespace detail

/// out[i] = gelu(x[i])
template <Real T>
void gelu(std::span<T const> x, std::span<std::type_identity_t<T>> out) {
  T const* in = x.data();
  T* result = out.data();
  for (Index i = 0; i < std::ssize(x); ++i) result[i] = in[i] * detail::gelu_gate(in[i]);
}

/// gradient[i] *= gelu'(x[i]): gate + x gate (1 - gate) (slope (1 + 3 cubic x^2))
template <Real T>
void gelu_backward(std::span<T const> x, std::span<std::type_identity_t<T>> gradient) {
  T const* in = x.data();
  T* result = gradient.data();
  for (Index i = 0; i < std::ssize(x); ++i) {
    T const v = in[i];
    T const gate = detail::gelu_gate(v);
    T const inner = detail::gelu_slope<T> * (T(1) + T(3) * detail::gelu_cubic<T> * v * v);
    result[i] *= gate + v * gate * (T(1) - gate) * inner;
  }
}

}  // namespace gpt2
