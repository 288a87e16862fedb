// SPDX-License-Identifier: Apache-2.0
#pragma once
// The training loop that somebody would write for the test model without the library: vectors, one
// rank, AdamW, clipping. It shares with the library the model's description and nothing that
// computes; its 16-bit type, norm, clip factor and optimizer are its own.

#include <doctest/doctest.h>
#include <support/chain.hpp>
#include <support/model_spec.hpp>
#include <support/result.hpp>
#include <support/runner.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace zero_test {

/// The upper half of a float, rounded to nearest, ties to even; not for NaN.
struct PlainHalf {
  std::uint16_t bits = 0;

  PlainHalf() = default;
  explicit PlainHalf(float value) {
    std::uint32_t whole = 0;
    std::memcpy(&whole, &value, 4);
    std::uint32_t const below = whole & 0xffffu;
    std::uint32_t upper = whole >> 16;
    if (below > 0x8000u || (below == 0x8000u && upper % 2 == 1)) ++upper;
    bits = static_cast<std::uint16_t>(upper);
  }
  explicit operator float() const {
    std::uint32_t const whole = static_cast<std::uint32_t>(bits) << 16;
    float value = 0;
    std::memcpy(&value, &whole, 4);
    return value;
  }
};

/// @tparam T type of parameters and gradients: float or PlainHalf
template <class T>
class PlainLoop {
 public:
  explicit PlainLoop(Config const& config) : config_(config), memory_(layers()) {
    zero::Index number = 0;
    for (zero::Unit const& unit : config.model.units) {
      auto& placed = units_.emplace_back();
      for (zero::Tensor const& described : unit.tensors) {
        Tensor& tensor = placed.emplace_back();
        tensor.decay = described.decay;
        tensor.lr_scale = described.lr_scale;
        tensor.trainable = described.trainable;
        for (zero::Index i = 0; i < described.elements(); ++i)
          tensor.master.push_back(described.initial.value(config.options.seed, number, i));
        ++number;
        for (float w : tensor.master) tensor.parameters.push_back(T(w));
        std::size_t const n = described.trainable ? tensor.master.size() : 0;
        tensor.gradients.resize(n);
        tensor.sums.resize(n);
        tensor.m.resize(n);
        tensor.v.resize(n);
      }
    }
  }

  Result run() {
    Result result;
    for (int s = 0; s < config_.steps; ++s) {
      StepResult step;
      step.losses = {train(make_batches(config_, 0, s))};
      step.evaluations = step.generations = {0.0};
      step.decisions = {decision_};
      result.steps.push_back(step);
      Snapshot& snapshot = result.snapshots.emplace_back();
      snapshot.step = s + 1;
      for_each([&](Tensor const& t) {
        snapshot.weights.push_back(t.trainable ? t.master : std::vector<float>());
        snapshot.moments[0].push_back(t.m);
        snapshot.moments[1].push_back(t.v);
        snapshot.gradients.push_back(t.sums);
      });
    }
    auto& replica = result.replicas.emplace_back();
    for_each([&](Tensor const& t) {
      std::vector<float> values;
      for (T p : t.parameters) values.push_back(static_cast<float>(p));
      replica.push_back(values);
      result.frozen.push_back(t.trainable ? std::vector<float>() : values);
    });
    return result;
  }

 private:
  struct Tensor {
    std::vector<float> master, sums, m, v;
    std::vector<T> parameters, gradients;
    float decay = 1;
    float lr_scale = 1;
    bool trainable = true;
  };

  chain::Count layers() const { return static_cast<chain::Count>(config_.model.chain.size()); }
  template <class F>
  void for_each(F f) {
    for (auto& unit : units_) {
      for (Tensor& t : unit) f(t);
    }
  }

  /// Returns the mean loss of the micro-batches.
  double train(std::vector<Batch> const& batches) {
    double loss = 0;
    bool first = true;
    for (Batch const& batch : batches) {
      for_each([](Tensor& t) { t.gradients.assign(t.gradients.size(), T(0.0f)); });
      loss += pass(batch);
      for_each([&](Tensor& t) {
        for (std::size_t i = 0; i < t.sums.size(); ++i) {
          float const g = static_cast<float>(t.gradients[i]);
          t.sums[i] = first ? g : t.sums[i] + g;
        }
      });
      first = false;
    }
    update(static_cast<double>(batches.size()));
    return loss / static_cast<double>(batches.size());
  }

  double pass(Batch const& batch) {
    auto const row = [](std::vector<float>& all, chain::Count k) {
      return all.data() + k * chain::cells;
    };
    std::copy(batch.input.begin(), batch.input.end(), memory_.x.begin());
    for (chain::Count k = 0; k < layers(); ++k) {
      float* const z = row(memory_.z, k);
      std::fill(z, z + chain::cells, 0.0f);
      for (Tensor const& t : layer(k))
        chain::apply(z, row(memory_.x, k), t.parameters.data(), size(t.parameters));
      chain::finish(row(memory_.x, k + 1), row(memory_.x, k), z);
    }
    double const loss =
        chain::loss(row(memory_.dx, layers()), row(memory_.x, layers()), batch.target.data(), 1.0f);
    for (chain::Count k = layers(); k-- > 0;) {
      float* const dz = row(memory_.dz, k);
      chain::begin_back(dz, row(memory_.dx, k), row(memory_.dx, k + 1), row(memory_.z, k));
      for (Tensor& t : layer(k)) {
        chain::apply_back(row(memory_.dx, k), dz, t.parameters.data(), size(t.parameters));
        chain::add_gradient(t.gradients.data(), dz, row(memory_.x, k), size(t.gradients), false);
      }
    }
    return loss;
  }
  std::vector<Tensor>& layer(chain::Count k) {
    return units_[static_cast<std::size_t>(config_.model.chain[static_cast<std::size_t>(k)])];
  }
  static chain::Count size(std::vector<T> const& values) {
    return static_cast<chain::Count>(values.size());
  }

  /// The sum of a unit's squares in the order that the library promises, for at most a group of
  /// eight tiles: places in tiles of 16,384, in a tile 1,024 sums, neighbours added until one is
  /// left; a tensor starts at a multiple of 64.
  static double squares(std::vector<Tensor> const& unit) {
    std::vector<double> places;
    for (Tensor const& t : unit) {
      places.insert(places.end(), t.sums.begin(), t.sums.end());
      while (places.size() % 64 != 0) places.push_back(0);
    }
    REQUIRE(places.size() <= 8 * 16384);
    double total = 0;
    for (std::size_t begin = 0; begin < places.size(); begin += 16384) {
      std::vector<double> sums(1024, 0.0);
      for (std::size_t i = begin; i < std::min(begin + 16384, places.size()); ++i)
        sums[i % 1024] += places[i] * places[i];
      for (std::size_t left = 512; left > 0; left /= 2) {
        for (std::size_t i = 0; i < left; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
      }
      total += sums[0];
    }
    return total;
  }

  void update(double micro_batches) {
    double sum = 0;
    for (auto const& unit : units_) sum += squares(unit);
    double const mean = 1.0 / micro_batches;
    double const norm = std::sqrt(sum) * mean;
    double const limit = static_cast<double>(config_.options.clip);
    double const clip = limit > 0 && norm + 1e-6 > limit ? limit / (norm + 1e-6) : 1.0;
    float const factor = static_cast<float>(mean * clip);
    zero::Index const t = ++decision_.updates;
    decision_.norm = norm;
    decision_.clip_factor = clip;
    decision_.factor = factor;
    decision_.learning_rate = config_.optimizer.lr;
    for_each([&](Tensor& tensor) { adamw(tensor, factor, static_cast<double>(t)); });
  }

  void adamw(Tensor& x, float factor, double t) const {
    float const beta1 = config_.optimizer.beta1;
    float const beta2 = config_.optimizer.beta2;
    float const m_corrects =
        static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta1), t)));
    float const v_corrects =
        static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta2), t)));
    float const rate = config_.optimizer.lr * x.lr_scale;
    for (std::size_t i = 0; i < x.sums.size(); ++i) {
      float const g = factor * x.sums[i];
      x.m[i] = beta1 * x.m[i] + (1.0f - beta1) * g;
      x.v[i] = beta2 * x.v[i] + (1.0f - beta2) * g * g;
      float const step =
          (x.m[i] * m_corrects) / (std::sqrt(x.v[i] * v_corrects) + config_.optimizer.eps);
      float const decay = config_.optimizer.weight_decay * x.decay * x.master[i];
      x.master[i] -= rate * (step + decay);
      x.parameters[i] = T(x.master[i]);
    }
  }

  Config config_;
  chain::Memory<float> memory_;
  std::vector<std::vector<Tensor>> units_;
  zero::Decision decision_{.scale_state = zero::LossScaleState::first(zero::LossScale())};
};

inline Result plain_run(Config const& config) {
  return config.bf16 ? PlainLoop<PlainHalf>(config).run() : PlainLoop<float>(config).run();
}

}  // namespace zero_test
