// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layer normalisation over the last dimension, with a scale and a shift (Ba, Kiros, Hinton 2016,
// eq. 3). Shapes: x, out [rows, width]; weight, bias [width]; mean, inverse_deviation [rows].

#include <gpt2/lanes.hpp>

#include <cmath>
#include <span>
#include <type_traits>

namespace gpt2 {

/// What the backward pass needs again: a row's mean and 1 / sqrt(variance + epsilon).
template <Real T>
struct RowMoments {
  std::span<T> mean;
  std::span<T> inverse_deviation;
};

/// out = (x - mean) inverse_deviation weight + bias
template <Real T>
void layer_norm(std::span<T const> x, std::span<std::type_identity_t<T const>> weight,
                std::span<std::type_identity_t<T const>> bias,
                std::span<std::type_identity_t<T>> out,
                RowMoments<std::type_identity_t<T>> moments) {
  constexpr T epsilon = T(1e-5);
  Index const width = std::ssize(weight);
  for (Index row = 0; row < std::ssize(moments.mean); ++row) {
    T const* in = x.data() + row * width;
    T const mean = sum_of<T>(width, [=](Index i) { return in[i]; }) / T(width);
    T const variance =
        sum_of<T>(width, [=](Index i) { return (in[i] - mean) * (in[i] - mean); }) / T(width);
    T const inverse = T(1) / std::sqrt(variance + epsilon);
    T* result = out.data() + row * width;
    for (Index i = 0; i < width; ++i)
      result[i] = (in[i] - mean) * inverse * weight[at(i)] + bias[at(i)];
    moments.mean[at(row)] = mean;
    moments.inverse_deviation[at(row)] = inverse;
  }
}

/// Adds to all three gradients; an empty span stands for a frozen tensor.
/// With n = (x - mean) inverse_deviation and g = grad_out weight:
/// grad_x += inverse_deviation (g - mean(g) - n mean(g n)), grad_weight += sum grad_out n,
/// grad_bias += sum grad_out
template <Real T>
void layer_norm_backward(std::span<T const> grad_out, std::span<std::type_identity_t<T const>> x,
                         std::span<std::type_identity_t<T const>> weight,
                         RowMoments<std::type_identity_t<T>> moments,
                         std::span<std::type_identity_t<T>> grad_x,
                         std::span<std::type_identity_t<T>> grad_weight,
                         std::span<std::type_identity_t<T>> grad_bias) {
  Index const width = std::ssize(weight);
  T const* scale = weight.data();
  for (Index row = 0; row < std::ssize(moments.mean); ++row) {
    T const* in = x.data() + row * width;
    T const* grad = grad_out.data() + row * width;
    T const mean = moments.mean[at(row)];
    T const inverse = moments.inverse_deviation[at(row)];
    T const mean_g = sum_of<T>(width, [=](Index i) { return grad[i] * scale[i]; }) / T(width);
    T const mean_gn =
        sum_of<T>(width, [=](Index i) { return grad[i] * scale[i] * ((in[i] - mean) * inverse); }) /
        T(width);
    T* result = grad_x.data() + row * width;
    for (Index i = 0; i < width; ++i) {
      result[i] += inverse * (grad[i] * scale[i] - mean_g - (in[i] - mean) * inverse * mean_gn);
    }
    for (Index i = 0; i < std::ssize(grad_weight); ++i)
      grad_weight[at(i)] += grad[i] * ((in[i] - mean) * inverse);
    for (Index i = 0; i < std::ssize(grad_bias); ++i) grad_bias[at(i)] += grad[i];
  }
}

}  // namespace gpt2
