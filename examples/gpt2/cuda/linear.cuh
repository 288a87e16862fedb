// SPDX-License-Identifier: Apache-2.0
#pragma once
// A dense layer with GPT-2's Conv1D weights, [inputs, outputs]; the host reference is
// gpt2/linear.hpp. Shapes: x [rows, inputs]; out [rows, outputs]; bias [outputs].
//
// In 16 bits the bias, the activation, its gradient and the gradient of the bias are made by the
// product that has the values at hand. In float, which is there for comparison, by kernels of our
// own.

#include <gpt2/cuda/column_sum.cuh>
#include <gpt2/cuda/gelu.cuh>
#include <gpt2/cuda/gemm.hpp>

#include <utility>

namespace gpt2::cuda {

template <class T>
inline constexpr bool fuses = !std::is_same_v<T, float>;

/// x[row, c] += bias[c]. Bytes an element: sizeof(T) read, sizeof(T) written.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    add_bias_kernel(T* __restrict__ x, T const* __restrict__ bias, Index elements, Index columns) {
  Index const i = (Index{blockIdx.x} * block_threads + threadIdx.x) * N;
  if (i >= elements) return;
  Pack<T, N> values = load<N>(x + i);
  Pack<T, N> const shift = load<N>(bias + i % columns);
#pragma unroll
  for (int j = 0; j < N; ++j) values.x[j] = narrow<T>(widen(values.x[j]) + widen(shift.x[j]));
  store(x + i, values);
}

/// A gradient that is written, or added to; null stands for a frozen tensor.
template <class T>
struct GradientOf {
  T* weight = nullptr;
  T* bias = nullptr;
  bool adds = false;
};

/// The layer's sizes.
struct LinearShape {
  Index rows = 0;
  Index inputs = 0;
  Index outputs = 0;
};

/// The layers' products on one stream at a time.
template <class T>
class Linear {
 public:
  explicit Linear(zero::cuda::Device& device) : products_(device) {}

  Products<T>& products() { return products_; }

  /// out = x weight + bias, + residual unless it is null.
  void forward(cudaStream_t stream, LinearShape s, T* out, T const* x, T const* weight,
               T const* bias, T const* residual = nullptr) {
    Product product{.rows = s.rows, .columns = s.outputs, .inner = s.inputs};
    product.adds = residual != nullptr;
    product.epilogue = fuses<T> ? Epilogue::bias : Epilogue::none;
    products_(stream, product,
              {.a = x, .b = weight, .out = out, .c = residual, .bias = fuses<T> ? bias : nullptr});
    if constexpr (!fuses<T>) add_bias(stream, out, bias, s);
  }

  /// expanded = x weight + bias; activated = gelu(expanded)
  void forward_gelu(cudaStream_t stream, LinearShape s, T* expanded, T* activated, T const* x,
                    T const* weight, T const* bias) {
    if constexpr (fuses<T>) {
      products_(
          stream,
          {.rows = s.rows, .columns = s.outputs, .inner = s.inputs, .epilogue = Epilogue::gelu},
          {.a = x, .b = weight, .out = activated, .bias = bias, .aux = expanded});
    } else {
      forward(stream, s, expanded, x, weight, bias);
      gelu(stream, activated, expanded, s.rows * s.outputs);
    }
  }

  /// grad_x = grad_out weight^T
  void input_gradient(cudaStream_t stream, LinearShape s, T* grad_x, T const* grad_out,
                      T const* weight) {
    products_(stream, input_product(s), {.a = grad_out, .b = weight, .out = grad_x});
  }

  /// grad_x = grad_out weight^T gelu'(expanded)
  void input_gradient_gelu(cudaStream_t stream, LinearShape s, T* grad_x, T const* grad_out,
                           T const* weight, T const* expanded) {
    if constexpr (fuses<T>) {
      Product product = input_product(s);
      product.epilogue = Epilogue::gelu_gradient;
      products_(stream, product,
                {.a = grad_out, .b = weight, .out = grad_x, .aux = const_cast<T*>(expanded)});
    } else {
      input_gradient(stream, s, grad_x, grad_out, weight);
      gelu_backward(stream, grad_x, expanded, s.rows * s.inputs);
    }
  }

  /// x^T grad_out for the weight, the sum of grad_out's rows for the bias.
  /// @param scratch column_sum_scratch(rows, outputs) floats
  void parameter_gradient(cudaStream_t stream, LinearShape s, GradientOf<T> to, T const* grad_out,
                          T const* x, float* scratch) {
    bool const together = fuses<T> && to.weight != nullptr && to.bias != nullptr && !to.adds;
    if (to.weight != nullptr) {
      Product product{
          .rows = s.inputs, .columns = s.outputs, .inner = s.rows, .a_transposed = true};
      product.adds = to.adds;
      product.epilogue = together ? Epilogue::bias_gradient : Epilogue::none;
      products_(stream, product,
                {.a = x, .b = grad_out, .out = to.weight, .bias = together ? to.bias : nullptr});
    }
    if (to.bias != nullptr && !together)
      column_sum(stream, to.bias, to.adds, grad_out, s.rows, s.outputs, scratch);
  }

 private:
  static Product input_product(LinearShape s) {
    return {.rows = s.rows, .columns = s.inputs, .inner = s.outputs, .b_transposed = true};
  }

  void add_bias(cudaStream_t stream, T* out, T const* bias, LinearShape s) {
    with_pack<T>(s.outputs, [&](auto pack) {
      constexpr int n = decltype(pack)::value;
      Index const elements = s.rows * s.outputs;
      add_bias_kernel<n>
          <<<blocks(elements, Index{block_threads} * n, "add_bias"), block_threads, 0, stream>>>(
              out, bias, elements, s.outputs);
    });
    launched("add_bias");
  }

  Products<T> products_;
};

}  // namespace gpt2::cuda
