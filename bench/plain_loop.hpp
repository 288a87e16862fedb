// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one would write for one rank without the library: parameters, gradients and AdamW in plain
// vectors, gradient clipping, and a loop over them. Of the library it takes the names of types that
// the model speaks of.

#include <zero/core/dtype.hpp>

#include <gpt2/plain_pass.hpp>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace bench {

/// A model trained by hand.
/// @tparam P type of parameters and gradients; where it is not float there are float master weights
template <class Model, class P>
class PlainLoop {
 public:
  PlainLoop(Model model, float lr, double clip, std::uint64_t seed)
      : model_(std::move(model)), lr_(lr), clip_(clip), memory_(model_.units(), seed) {
    gpt2::PlainMemory<float> const exact(model_.units(), seed);
    for (std::size_t u = 0; u < exact.parameters.size(); ++u) {
      zero::Unit const unit = model_.units()[u];
      for (std::size_t t = 0; t < exact.parameters[u].size(); ++t) {
        auto const& values = exact.parameters[u][t];
        tensors_.push_back({memory_.parameters[u][t], memory_.gradients[u][t], values,
                            std::vector<float>(values.size()), std::vector<float>(values.size()),
                            0.01f * unit.tensors[t].decay});
      }
    }
  }

  template <class Batch>
  void step(Batch const& batch) {
    memory_.clear_gradients();
    gpt2::PlainPass<P, P, true> pass(memory_);
    model_(pass, batch);
    loss_ = pass.loss()[0];

    double squares = 0;
    for (Tensor const& tensor : tensors_) squares += sum_of_squares(tensor.gradients);
    double const norm = std::sqrt(squares);
    if (!std::isfinite(norm)) return;
    float const factor = static_cast<float>(norm > clip_ ? clip_ / (norm + 1e-6) : 1);
    ++updates_;
    double const t = static_cast<double>(updates_);
    float const m_correction = static_cast<float>(1 / (1 - std::pow(0.9f, t)));
    float const v_correction = static_cast<float>(1 / (1 - std::pow(0.999f, t)));
    for (Tensor& tensor : tensors_) update(tensor, factor, m_correction, v_correction);
  }

  double loss() const { return loss_; }

 private:
  struct Tensor {
    std::span<P> parameters;
    std::span<P const> gradients;
    std::vector<float> weights;
    std::vector<float> m;
    std::vector<float> v;
    float decay;
  };

  /// In eight partial sums, which a compiler can keep in one register.
  static double sum_of_squares(std::span<P const> x) {
    double sums[8] = {};
    std::size_t i = 0;
    for (; i + 8 <= x.size(); i += 8) {
      for (std::size_t k = 0; k < 8; ++k) {
        double const value = static_cast<double>(static_cast<float>(x[i + k]));
        sums[k] += value * value;
      }
    }
    for (; i < x.size(); ++i) {
      double const value = static_cast<double>(static_cast<float>(x[i]));
      sums[0] += value * value;
    }
    double sum = 0;
    for (double part : sums) sum += part;
    return sum;
  }

  void update(Tensor& tensor, float factor, float m_correction, float v_correction) const {
    P* const parameters = tensor.parameters.data();
    P const* const gradients = tensor.gradients.data();
    float* const weights = tensor.weights.data();
    float* const m = tensor.m.data();
    float* const v = tensor.v.data();
    for (std::size_t i = 0; i < tensor.weights.size(); ++i) {
      float const g = factor * static_cast<float>(gradients[i]);
      m[i] = 0.9f * m[i] + (1.0f - 0.9f) * g;
      v[i] = 0.999f * v[i] + (1.0f - 0.999f) * g * g;
      float const direction = m[i] * m_correction / (std::sqrt(v[i] * v_correction) + 1e-8f) +
                              tensor.decay * weights[i];
      weights[i] -= lr_ * direction;
      parameters[i] = static_cast<P>(weights[i]);
    }
  }

  Model model_;
  float lr_;
  double clip_;
  double loss_ = 0;
  zero::Index updates_ = 0;
  gpt2::PlainMemory<P> memory_;
  std::vector<Tensor> tensors_;
};

}  // namespace bench
