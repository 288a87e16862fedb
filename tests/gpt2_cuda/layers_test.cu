// SPDX-License-Identifier: Apache-2.0
// Norms, the activation, the embedding and the loss, forward and backward, against the host's
// layers in double.

#include <gpt2/cross_entropy.hpp>
#include <gpt2/cuda/column_sum.cuh>
#include <gpt2/cuda/cross_entropy.cuh>
#include <gpt2/cuda/embedding.cuh>
#include <gpt2/cuda/gelu.cuh>
#include <gpt2/cuda/layer_norm.cuh>
#include <gpt2/cuda/token_store.hpp>
#include <gpt2/embedding.hpp>
#include <gpt2/gelu.hpp>
#include <gpt2/layer_norm.hpp>
#include <gpt2_cuda/numbers.hpp>

namespace gpt2_test {
namespace {

template <class T>
void check_layer_norm(Index rows, Index width) {
  std::string const what =
      std::string(name<T>()) + " norm of " + std::to_string(rows) + " x " + std::to_string(width);
  Device device;
  auto stream = device.stream();
  auto const x = values<T>(rows * width, 1, -2, 2);
  auto const weight = values<T>(width, 2, 0.5, 1.5);
  auto const bias = values<T>(width, 3);
  auto const grad_out = values<T>(rows * width, 4);
  auto grad_x = values<T>(rows * width, 5);
  auto grad_weight = values<T>(width, 6);
  auto grad_bias = values<T>(width, 7);

  OnGpu<T> const x_there(device, stream, x), weight_there(device, stream, weight),
      bias_there(device, stream, bias), grad_out_there(device, stream, grad_out),
      out_there(device, stream, rows * width), grad_x_there(device, stream, grad_x),
      grad_weight_there(device, stream, grad_weight), grad_bias_there(device, stream, grad_bias);
  OnGpu<float> const mean_there(device, stream, rows), inverse_there(device, stream, rows);
  OnGpu<float> const scratch(device, stream, gpt2::cuda::layer_norm_scratch(rows, width));
  gpt2::cuda::RowMoments const moments_there{mean_there.address(), inverse_there.address()};
  gpt2::cuda::layer_norm(stream.native(), out_there.address(), moments_there,
                         static_cast<T const*>(x_there.address()), weight_there.address(),
                         bias_there.address(), rows, width);
  gpt2::cuda::layer_norm_backward(
      stream.native(), grad_x_there.address(), grad_weight_there.address(),
      grad_bias_there.address(), true, static_cast<T const*>(grad_out_there.address()),
      static_cast<T const*>(x_there.address()), static_cast<T const*>(weight_there.address()),
      moments_there, rows, width, scratch.address());

  std::vector<double> out(x.size()), mean(at(rows)), inverse(at(rows));
  gpt2::RowMoments<double> const moments{mean, inverse};
  gpt2::layer_norm(read(x), weight, bias, out, moments);
  // Sums over the rows' terms for the bounds of what is summed over rows.
  std::vector<double> scale_terms(at(width)), shift_terms(at(width));
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < width; ++c) {
      double const g = std::abs(grad_out[at(r * width + c)]);
      scale_terms[at(c)] += g * (std::abs(x[at(r * width + c)] - mean[at(r)]) * inverse[at(r)] + 1);
      shift_terms[at(c)] += g;
    }
  }
  gpt2::layer_norm_backward(read(grad_out), x, weight, moments, grad_x, grad_weight, grad_bias);

  // A sum over a row goes through width / 32 additions a lane and 5 more; the inverse deviation and
  // the few operations after it add some 30 roundings. Terms of a row are at most 2 sqrt(3) x 1.5.
  double const along_row = (static_cast<double>(width) / 32 + 40) * float_rounding;
  check_close(what, out_there.values(), out, {rounding<T>, along_row * 8});
  check_close(what + ", mean", mean_there.values(), mean, {float_rounding, along_row * 2});
  check_close(what + ", inverse deviation", inverse_there.values(), inverse, {2 * along_row, 0});
  double const most_inverse = largest(inverse);
  check_close(what + ", gradient", grad_x_there.values(), grad_x,
              {rounding<T>, along_row * (1 + 12 * most_inverse)});
  // Over rows: 8 a group, the groups of a block, up to 512 blocks, and what was there.
  double const groups = std::ceil(static_cast<double>(rows) / 8);
  double const along_rows = (8 * std::ceil(groups / 512) + std::min(groups, 512.0) + 40 +
                             static_cast<double>(width) / 32) *
                            float_rounding;
  Bound scale_bound{rounding<T>, along_rows}, shift_bound{rounding<T>, along_rows};
  for (double v : scale_terms) scale_bound.each.push_back(2 * along_rows * v);
  for (double v : shift_terms) shift_bound.each.push_back(2 * along_rows * v);
  check_close(what + ", scale's gradient", grad_weight_there.values(), grad_weight, scale_bound);
  check_close(what + ", shift's gradient", grad_bias_there.values(), grad_bias, shift_bound);
  for (auto const* t : {&out_there, &grad_x_there, &grad_weight_there, &grad_bias_there})
    CHECK(t->intact());
}

TEST_CASE("layer norms, forward and backward, are the host's in double up to rounding") {
  for (auto const& [rows, width] :
       {std::pair<Index, Index>{1, 8}, {3, 24}, {37, 36}, {5000, 768}, {264, 1600}}) {
    check_layer_norm<float>(rows, width);
    check_layer_norm<bf16>(rows, width);
  }
}

template <class T>
void check_gelu(Index n) {
  Device device;
  auto stream = device.stream();
  auto const x = values<T>(n, 1, -6, 6);
  auto gradient = values<T>(n, 2);
  OnGpu<T> const x_there(device, stream, x), out_there(device, stream, n),
      gradient_there(device, stream, gradient);
  gpt2::cuda::gelu(stream.native(), out_there.address(), static_cast<T const*>(x_there.address()),
                   n);
  gpt2::cuda::gelu_backward(stream.native(), gradient_there.address(),
                            static_cast<T const*>(x_there.address()), n);
  std::vector<double> out(x.size());
  gpt2::gelu(read(x), out);
  gpt2::gelu_backward(read(x), gradient);
  std::string const what = std::string(name<T>()) + " gelu of " + std::to_string(n);
  // The exponent is below 13 + 0.044715 x 6^3 x 1.6 = 25 in size, so rounding it once or thrice
  // shifts the exponential by up to 100 roundings; it enters times at most |x| / 4, then the
  // logistic's derivative.
  check_close(what, out_there.values(), out, {rounding<T>, 120 * float_rounding});
  check_close(what + ", gradient", gradient_there.values(), gradient,
              {rounding<T>, 1000 * float_rounding});
  CHECK(out_there.intact());
  CHECK(gradient_there.intact());
}

TEST_CASE("gelu and its gradient are the host's in double up to rounding") {
  for (Index n : {1, 7, 8, 4096, 100000}) {
    check_gelu<float>(n);
    check_gelu<bf16>(n);
  }
}

template <class T>
void check_column_sum(Index rows, Index columns, bool adds) {
  Device device;
  auto stream = device.stream();
  auto const x = values<T>(rows * columns, 1);
  auto sums = values<T>(columns, 2);
  OnGpu<T> const x_there(device, stream, x), sums_there(device, stream, sums);
  OnGpu<float> const scratch(device, stream, gpt2::cuda::column_sum_scratch(rows, columns));
  gpt2::cuda::column_sum(stream.native(), sums_there.address(), adds,
                         static_cast<T const*>(x_there.address()), rows, columns,
                         scratch.address());
  std::vector<double> terms(at(columns));
  for (Index c = 0; c < columns; ++c) {
    if (!adds) sums[at(c)] = 0;
    for (Index r = 0; r < rows; ++r) {
      sums[at(c)] += x[at(r * columns + c)];
      terms[at(c)] += std::abs(x[at(r * columns + c)]);
    }
  }
  // 64 additions a chunk, one a chunk after that.
  double const depth = (66 + static_cast<double>(rows) / 64) * float_rounding;
  Bound bound{rounding<T>, depth};
  for (double v : terms) bound.each.push_back(depth * v);
  check_close(std::string(name<T>()) + " sum of " + std::to_string(rows) + " rows of " +
                  std::to_string(columns),
              sums_there.values(), sums, bound);
  CHECK(sums_there.intact());
}

TEST_CASE("the sum of a matrix's rows is that in double up to rounding") {
  for (bool adds : {false, true}) {
    for (auto const& [rows, columns] : {std::pair<Index, Index>{1, 8}, {65, 33}, {8192, 1600}}) {
      check_column_sum<float>(rows, columns, adds);
      check_column_sum<bf16>(rows, columns, adds);
    }
  }
}

template <class T>
void check_embedding(Index length, Index sequences, Index vocabulary, Index width) {
  Device device;
  auto stream = device.stream();
  Index const rows = length * sequences;
  std::vector<gpt2::Token> ids;
  for (Index r = 0; r < rows; ++r) {
    auto const u = zero::noise_uniform(9, 0, r);  // squared: some tokens stand in many rows
    ids.push_back(static_cast<gpt2::Token>(static_cast<double>(vocabulary) * u * u));
  }
  auto const tokens = values<T>(vocabulary * width, 1);
  auto const positions = values<T>(length * width, 2);
  auto const grad_out = values<T>(rows * width, 3);
  auto grad_tokens = values<T>(vocabulary * width, 4);
  auto grad_positions = values<T>(length * width, 5);
  gpt2::cuda::TokenStore store(device, rows, vocabulary);
  auto const sent = store.send(stream, ids, {});
  OnGpu<T> const tokens_there(device, stream, tokens), positions_there(device, stream, positions),
      grad_out_there(device, stream, grad_out), out_there(device, stream, rows * width),
      grad_tokens_there(device, stream, grad_tokens),
      grad_positions_there(device, stream, grad_positions);
  gpt2::cuda::embed(stream.native(), out_there.address(), sent.inputs,
                    static_cast<T const*>(tokens_there.address()), positions_there.address(), rows,
                    length, width);
  gpt2::cuda::embed_backward(stream.native(), grad_tokens_there.address(),
                             grad_positions_there.address(),
                             static_cast<T const*>(grad_out_there.address()), sent.inputs,
                             sent.order, sent.begins, sent.distinct, rows, length, width);
  std::vector<double> out(at(rows * width));
  gpt2::embed(ids, length, read(tokens), positions, width, out);
  gpt2::embed_backward(read(grad_out), ids, length, width, grad_tokens, grad_positions);
  std::string const what = std::string(name<T>()) + " embedding of width " + std::to_string(width);
  check_close(what, out_there.values(), out, {rounding<T> + float_rounding, 0});
  // Terms are at most 1, as many as a token has rows.
  auto const r = static_cast<double>(rows);
  check_close(what + ", tokens' gradient", grad_tokens_there.values(), grad_tokens,
              {rounding<T>, r * r * float_rounding / 16});
  auto const s = static_cast<double>(sequences + 1);
  check_close(what + ", positions' gradient", grad_positions_there.values(), grad_positions,
              {rounding<T>, s * s * float_rounding});
  for (auto const* t : {&out_there, &grad_tokens_there, &grad_positions_there}) CHECK(t->intact());
}

TEST_CASE("embeddings, forward and backward, are the host's in double up to rounding") {
  for (auto const& [length, width] : {std::pair<Index, Index>{1, 8}, {16, 20}, {48, 768}}) {
    check_embedding<float>(length, 3, 40, width);
    check_embedding<bf16>(length, 3, 40, width);
  }
}

template <class T>
void check_cross_entropy(Index rows, Index vocabulary, bool trains) {
  Device device;
  auto stream = device.stream();
  auto logits = values<T>(rows * vocabulary, 1, -4, 4);
  std::vector<gpt2::Token> targets;
  for (Index r = 0; r < rows; ++r)
    targets.push_back(static_cast<gpt2::Token>((r * 7919 + 3) % vocabulary));
  float const scale = 64;
  gpt2::cuda::TokenStore store(device, rows, vocabulary);
  auto const sent = store.send(stream, targets, targets);
  OnGpu<T> const logits_there(device, stream, logits);
  OnGpu<float> const losses(device, stream, rows),
      scale_there(device, stream, std::vector<double>{scale});
  zero_test::GuardedMemory<double> const loss(device, stream, std::vector<double>{0.5});
  gpt2::cuda::cross_entropy(stream.native(), loss.view().address(), logits_there.address(),
                            sent.targets, scale_there.address(), trains, rows, vocabulary,
                            losses.address());
  auto const before = logits;
  double const exact = gpt2::cross_entropy(std::span<double>(logits), targets) + 0.5;
  gpt2::cross_entropy_backward(std::span<double>(logits), targets, double{scale});
  std::string const what = std::string(name<T>()) + " loss over " + std::to_string(vocabulary);
  // An exponential of an argument up to 8 is off by 4 (float) or 12 (by the hardware) roundings,
  // its argument by one of 8; a thread adds vocabulary / 512 of them, then 10 more.
  double const sum = (40 + static_cast<double>(vocabulary) / 512 + 12) * float_rounding;
  check_close(what, loss.values(), {exact}, {float_rounding, sum + 16 * float_rounding});
  if (trains) {
    double const factor = scale / static_cast<double>(rows);
    check_close(what + ", gradient", logits_there.values(), logits,
                {rounding<T> + 2 * sum, 2 * float_rounding * factor});
  } else {
    CHECK(logits_there.values() == before);
  }
  CHECK(logits_there.intact());
  CHECK(loss.intact());
}

TEST_CASE("the loss and its gradient are the host's in double up to rounding") {
  for (Index vocabulary : {8, 33, 256, 50304}) {
    for (bool trains : {true, false}) {
      check_cross_entropy<float>(5, vocabulary, trains);
      check_cross_entropy<bf16>(5, vocabulary, trains);
    }
  }
}

}  // namespace
}  // namespace gpt2_test
