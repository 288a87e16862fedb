// SPDX-License-Identifier: Apache-2.0
// Dense layers with all that their products do on the way, against plain loops in double.

#include <gpt2/cuda/linear.cuh>
#include <gpt2/gelu.hpp>
#include <gpt2_cuda/numbers.hpp>

namespace gpt2_test {
namespace {

using gpt2::cuda::LinearShape;

/// A product in double, and the sum of its terms' sizes.
struct Sums {
  std::vector<double> value;
  std::vector<double> terms;
};

/// out[i, j] = sum over k of a(i, k) b(k, j)
template <class A, class B>
Sums product(Index rows, Index columns, Index inner, A a, B b) {
  Sums s{std::vector<double>(at(rows * columns)), std::vector<double>(at(rows * columns))};
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      for (Index k = 0; k < inner; ++k) {
        s.value[at(i * columns + j)] += a(i, k) * b(k, j);
        s.terms[at(i * columns + j)] += std::abs(a(i, k) * b(k, j));
      }
    }
  }
  return s;
}

/// One rounding of the result; inner additions in float, in any order; `extra` beside.
template <class T>
Bound product_bound(Sums const& s, Index inner, double extra = 0) {
  Bound bound{rounding<T>, extra + 8 * float_rounding};
  for (double v : s.terms)
    bound.each.push_back(static_cast<double>(inner + 4) * float_rounding * v);
  return bound;
}

/// In 16 bits cuBLASLt rounds a product before it is added to what was there, or multiplied by what
/// an epilogue computes: a rounding of the product more. @param factor of the product
template <class T>
Bound rounded_before(Bound bound, std::vector<double> const& products, double factor) {
  if constexpr (!std::is_same_v<T, float>) {
    for (std::size_t i = 0; i < products.size(); ++i)
      bound.each[i] += rounding<T> * std::abs(factor * products[i]);
  }
  return bound;
}

template <class T>
void check_linear(LinearShape s) {
  std::string const what = std::string(name<T>()) + " linear " + std::to_string(s.rows) + " x " +
                           std::to_string(s.inputs) + " x " + std::to_string(s.outputs);
  Device device;
  auto stream = device.stream();
  gpt2::cuda::Linear<T> linear(device);
  auto const x = values<T>(s.rows * s.inputs, 1);
  auto const weight = values<T>(s.inputs * s.outputs, 2, -0.5, 0.5);
  auto const bias = values<T>(s.outputs, 3);
  auto const residual = values<T>(s.rows * s.outputs, 4);
  auto const grad_out = values<T>(s.rows * s.outputs, 5);
  auto const before = values<T>(s.rows * s.inputs, 6, -3, 3);  // of an activation
  auto const weight_start = values<T>(s.inputs * s.outputs, 7);
  auto const bias_start = values<T>(s.outputs, 8);
  OnGpu<T> const x_there(device, stream, x), weight_there(device, stream, weight),
      bias_there(device, stream, bias), residual_there(device, stream, residual),
      grad_out_there(device, stream, grad_out), before_there(device, stream, before);
  OnGpu<float> const scratch(device, stream, gpt2::cuda::column_sum_scratch(s.rows, s.outputs));

  Sums forward = product(
      s.rows, s.outputs, s.inputs, [&](Index i, Index k) { return x[at(i * s.inputs + k)]; },
      [&](Index k, Index j) { return weight[at(k * s.outputs + j)]; });
  for (std::size_t i = 0; i < forward.value.size(); ++i)
    forward.value[i] += bias[i % at(s.outputs)];
  // In float the bias is added to what was rounded: once more.
  double const twice = std::is_same_v<T, float> ? 16 * float_rounding : 0;
  {
    OnGpu<T> const out(device, stream, s.rows * s.outputs);
    linear.forward(stream.native(), s, out.address(), x_there.address(), weight_there.address(),
                   bias_there.address());
    check_close(what, out.values(), forward.value, product_bound<T>(forward, s.inputs, twice));
    linear.forward(stream.native(), s, out.address(), x_there.address(), weight_there.address(),
                   bias_there.address(), residual_there.address());
    Sums sum = forward;
    for (std::size_t i = 0; i < sum.value.size(); ++i) sum.value[i] += residual[i];
    check_close(what + " + residual", out.values(), sum.value,
                product_bound<T>(sum, s.inputs, twice));
    CHECK(out.intact());
  }
  {
    OnGpu<T> const expanded(device, stream, s.rows * s.outputs),
        activated(device, stream, s.rows * s.outputs);
    linear.forward_gelu(stream.native(), s, expanded.address(), activated.address(),
                        x_there.address(), weight_there.address(), bias_there.address());
    check_close(what + ", expanded", expanded.values(), forward.value,
                product_bound<T>(forward, s.inputs, twice));
    std::vector<double> exact(forward.value.size());
    gpt2::gelu(read(forward.value), exact);
    // In 16 bits the library's hyperbolic tangent is the hardware's, off by 2^-11; it enters times
    // x / 2.
    double const tangent =
        std::is_same_v<T, float> ? 120 * float_rounding : 0x1p-11 * largest(forward.value);
    Bound bound = product_bound<T>(forward, s.inputs, twice + tangent);
    check_close(what + ", activated", activated.values(), exact, bound);
    CHECK(expanded.intact());
    CHECK(activated.intact());
  }
  {
    Sums back = product(
        s.rows, s.inputs, s.outputs,
        [&](Index i, Index k) { return grad_out[at(i * s.outputs + k)]; },
        [&](Index k, Index j) { return weight[at(j * s.outputs + k)]; });
    OnGpu<T> const grad_x(device, stream, s.rows * s.inputs);
    linear.input_gradient(stream.native(), s, grad_x.address(), grad_out_there.address(),
                          weight_there.address());
    check_close(what + ", gradient of x", grad_x.values(), back.value,
                product_bound<T>(back, s.outputs));
    linear.input_gradient_gelu(stream.native(), s, grad_x.address(), grad_out_there.address(),
                               weight_there.address(), before_there.address());
    double const most = largest(back.value);
    std::vector<double> const before_gelu = back.value;
    gpt2::gelu_backward(read(before), back.value);
    // gelu' is at most 1.13; its tangent's error enters times up to 2.
    double const tangent = std::is_same_v<T, float> ? 1000 * float_rounding : 0x1p-9;
    check_close(what + ", gradient before gelu", grad_x.values(), back.value,
                rounded_before<T>(product_bound<T>(back, 2 * s.outputs, most * tangent),
                                  before_gelu, 1.13));
    CHECK(grad_x.intact());
  }
  Sums const of_weight = product(
      s.inputs, s.outputs, s.rows, [&](Index i, Index k) { return x[at(k * s.inputs + i)]; },
      [&](Index k, Index j) { return grad_out[at(k * s.outputs + j)]; });
  Sums const of_bias = product(
      1, s.outputs, s.rows, [&](Index, Index) { return 1.0; },
      [&](Index k, Index j) { return grad_out[at(k * s.outputs + j)]; });
  for (bool adds : {false, true}) {
    OnGpu<T> const grad_weight(device, stream, weight_start), grad_bias(device, stream, bias_start);
    linear.parameter_gradient(stream.native(), s,
                              {grad_weight.address(), grad_bias.address(), adds},
                              grad_out_there.address(), x_there.address(), scratch.address());
    Sums weight_exact = of_weight;
    Sums bias_exact = of_bias;
    for (std::size_t i = 0; adds && i < weight_start.size(); ++i)
      weight_exact.value[i] += weight_start[i];
    for (std::size_t i = 0; adds && i < bias_start.size(); ++i)
      bias_exact.value[i] += bias_start[i];
    std::string const how = adds ? ", added" : ", written";
    check_close(
        what + ", gradient of the weight" + how, grad_weight.values(), weight_exact.value,
        rounded_before<T>(product_bound<T>(weight_exact, s.rows), of_weight.value, adds ? 1 : 0));
    check_close(what + ", gradient of the bias" + how, grad_bias.values(), bias_exact.value,
                product_bound<T>(bias_exact, s.rows));
    CHECK(grad_weight.intact());
    CHECK(grad_bias.intact());
  }
}

TEST_CASE("dense layers in fp32 are plain loops in double up to rounding") {
  for (LinearShape s : {LinearShape{8, 8, 8}, {24, 32, 48}, {130, 96, 72}}) check_linear<float>(s);
}

TEST_CASE("dense layers in bf16 are plain loops in double up to rounding") {
  for (LinearShape s : {LinearShape{8, 8, 8}, {24, 32, 48}, {130, 96, 72}, {256, 64, 256}})
    check_linear<bf16>(s);
}

}  // namespace
}  // namespace gpt2_test
