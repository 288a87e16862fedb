// SPDX-License-Identifier: Apache-2.0
// Causal attention, forward and backward, by plain products and by cuDNN, against loops in double.

#include <gpt2/cuda/attention.cuh>
#include <gpt2_cuda/numbers.hpp>

namespace gpt2_test {
namespace {

using gpt2::cuda::AttentionShape;

/// Attention in double, with bounds of what T's roundings do to it: those of the weights, of the
/// result, and of the scores' gradients, each once, and sums in float.
template <class T>
struct Oracle {
  std::vector<double> out, grad_qkv;
  Bound out_bound{rounding<T>, 0}, grad_bound{rounding<T>, 0};

  Oracle(AttentionShape const& s, std::vector<double> const& qkv,
         std::vector<double> const& grad_out)
      : out(at(s.rows() * s.width)), grad_qkv(qkv.size()) {
    out_bound.each.assign(out.size(), 0);
    grad_bound.each.assign(qkv.size(), 0);
    for (Index b = 0; b < s.batch; ++b) {
      for (Index h = 0; h < s.heads; ++h) head(s, qkv, grad_out, b, h);
    }
  }

 private:
  void head(AttentionShape const& s, std::vector<double> const& qkv,
            std::vector<double> const& grad_out, Index b, Index h) {
    Index const d = s.head_width();
    Index const n = s.length;
    double const scale = 1 / std::sqrt(static_cast<double>(d));
    // Sums of up to n + d terms in float, an exponential, and scores whose rounding it magnifies.
    double const sums = static_cast<double>(n + d + 64) * float_rounding;
    double const once = rounding<T> + sums;
    auto const place = [&](Index row, Index part, Index c) {
      return at((b * n + row) * 3 * s.width + part * s.width + h * d + c);
    };
    auto const out_place = [&](Index row, Index c) {
      return at((b * n + row) * s.width + h * d + c);
    };
    for (Index i = 0; i < n; ++i) {
      std::vector<double> p(at(i + 1)), dp(at(i + 1));
      double most = -1e300;
      for (Index j = 0; j <= i; ++j) {
        for (Index c = 0; c < d; ++c) p[at(j)] += qkv[place(i, 0, c)] * qkv[place(j, 1, c)];
        most = std::max(most, p[at(j)] *= scale);
      }
      double sum = 0;
      for (double& v : p) sum += v = std::exp(v - most);
      for (double& v : p) v /= sum;
      double centre = 0;
      double centre_terms = 0;
      for (Index c = 0; c < d; ++c) {
        double value = 0;
        double terms = 0;
        for (Index j = 0; j <= i; ++j) {
          value += p[at(j)] * qkv[place(j, 2, c)];
          terms += p[at(j)] * std::abs(qkv[place(j, 2, c)]);
        }
        out[out_place(i, c)] = value;
        out_bound.each[out_place(i, c)] = 2 * once * terms;
        centre += grad_out[out_place(i, c)] * value;
        centre_terms += std::abs(grad_out[out_place(i, c)]) * terms;
      }
      for (Index j = 0; j <= i; ++j) {
        double terms = 0;
        for (Index c = 0; c < d; ++c) {
          dp[at(j)] += grad_out[out_place(i, c)] * qkv[place(j, 2, c)];
          terms += std::abs(grad_out[out_place(i, c)] * qkv[place(j, 2, c)]);
        }
        double const ds = p[at(j)] * (dp[at(j)] - centre) * scale;
        double const ds_error = 2 * once * std::abs(ds) +
                                p[at(j)] * scale * (2 * once * centre_terms + 2 * once * terms);
        for (Index c = 0; c < d; ++c) {
          double const g = grad_out[out_place(i, c)];
          grad_qkv[place(i, 0, c)] += ds * qkv[place(j, 1, c)];
          grad_qkv[place(j, 1, c)] += ds * qkv[place(i, 0, c)];
          grad_qkv[place(j, 2, c)] += p[at(j)] * g;
          double const sum_error = sums * std::abs(ds);
          grad_bound.each[place(i, 0, c)] += (ds_error + sum_error) * std::abs(qkv[place(j, 1, c)]);
          grad_bound.each[place(j, 1, c)] += (ds_error + sum_error) * std::abs(qkv[place(i, 0, c)]);
          grad_bound.each[place(j, 2, c)] += 2 * once * p[at(j)] * std::abs(g);
        }
      }
    }
  }
};

template <class T>
void check_attention(AttentionShape s) {
  std::string const what = std::string(name<T>()) + " attention " + std::to_string(s.batch) +
                           " x " + std::to_string(s.length) + ", " + std::to_string(s.heads) +
                           " heads of " + std::to_string(s.head_width());
  Device device;
  auto stream = device.stream();
  gpt2::cuda::Products<T> products(device);
  gpt2::cuda::Attention<T> attention(device, products, s);
  try {
    attention.prepare(s, true);
  } catch (zero::Error const& e) {
    FAIL_CHECK(what << ": " << e.what());
    return;
  }
  auto const memory = attention.memory(s);
  auto const qkv = values<T>(3 * s.rows() * s.width, 1, -2, 2);
  auto const grad_out = values<T>(s.rows() * s.width, 2);
  OnGpu<T> const qkv_there(device, stream, qkv), grad_out_there(device, stream, grad_out),
      out(device, stream, s.rows() * s.width), grad_qkv(device, stream, 3 * s.rows() * s.width),
      again(device, stream, 3 * s.rows() * s.width);
  OnGpu<float> const kept(device, stream, (memory.kept + 3) / 4),
      scratch(device, stream, (memory.scratch + 3) / 4);
  try {
    attention.forward(stream.native(), s, out.address(), qkv_there.address(), kept.address(),
                      scratch.address());
    stream.synchronize();
    for (auto const* to : {&grad_qkv, &again}) {
      attention.backward(stream.native(), s, to->address(), grad_out_there.address(),
                         qkv_there.address(), out.address(), kept.address(), scratch.address());
    }
    stream.synchronize();
  } catch (zero::Error const& e) {
    FAIL_CHECK(what << ": " << e.what());
    return;
  }
  Oracle<T> const oracle(s, qkv, grad_out);
  check_close(what, out.values(), oracle.out, oracle.out_bound);
  check_close(what + ", gradient", grad_qkv.values(), oracle.grad_qkv, oracle.grad_bound);
  CHECK_MESSAGE(zero_test::same_bits(grad_qkv.bits(), again.bits()),
                what << ": twice, and other bits");
  for (auto const* t : {&out, &grad_qkv}) CHECK(t->intact());
}

TEST_CASE("attention in fp32, of plain products, is a loop in double up to rounding") {
  for (AttentionShape s : {AttentionShape{1, 8, 1, 8}, {2, 40, 3, 48}, {2, 128, 2, 128}})
    check_attention<float>(s);
}

TEST_CASE("attention in bf16, by cuDNN, is a loop in double up to rounding") {
  for (AttentionShape s : {AttentionShape{1, 8, 1, 8},
                           {2, 40, 3, 48},
                           {2, 128, 2, 128},
                           {1, 256, 5, 320},
                           {1, 72, 2, 256}})
    check_attention<bf16>(s);
}

TEST_CASE("attention in fp16, by cuDNN, is a loop in double up to rounding") {
  check_attention<fp16>({2, 40, 3, 48});
}

TEST_CASE("attention in bf16 of wide heads, of plain products, is a loop in double") {
  check_attention<bf16>({2, 64, 2, 272});
}

}  // namespace
}  // namespace gpt2_test
