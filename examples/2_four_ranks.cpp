// SPDX-License-Identifier: Apache-2.0
#include <zero/zero.hpp>

#include <array>
#include <cmath>
#include <cstdio>

struct Mlp {  // six layers y = tanh(W y) that learn to turn a wave round
  static constexpr int layers = 6, width = 64;
  using Batch = float;  // phase of one wave

  zero::Units units() const {  // each is gathered, reduced and updated as one
    zero::Units all;
    for (std::string const n : {"0", "1", "2", "3", "4", "5"})
      all.push_back({"layer" + n, {{"W" + n, {width, width}, zero::Initial::normal(0.125)}}});
    return all;
  }

  template <class Pass>
  double operator()(Pass& pass, Batch const& phase) {
    std::array<std::array<float, width>, layers + 1> y{};
    for (int i = 0; i < width; ++i) y[0][i] = 0.8f * std::sin(0.1f * i + phase);
    for (int k = 0; k < layers; ++k) {
      auto const lease = pass.forward(k);  // gathered from all ranks, given back at the brace
      std::span<typename Pass::Parameter const> const w = lease[0];
      for (int n = 0; n < width * width; ++n) y[k + 1][n / width] += float(w[n]) * y[k][n % width];
      for (float& value : y[k + 1]) value = std::tanh(value);
    }
    std::array<float, width> d;  // derivative of the loss by a layer's output
    for (int i = 0; i < width; ++i) d[i] = y[layers][i] - y[0][width - 1 - i];
    double loss = 0;
    for (float error : d) loss += error * error / 2;
    if constexpr (Pass::trains)
      for (int k = layers; k-- > 0;) {
        auto const [parameters, gradients] = pass.backward(k);  // summed over ranks at the brace
        std::span<typename Pass::Parameter const> const w = parameters[0];
        std::span<typename Pass::Gradient> const dw = gradients[0];
        for (int i = 0; i < width; ++i) d[i] *= 1 - y[k + 1][i] * y[k + 1][i];
        std::array<float, width> below{};
        for (int n = 0; n < width * width; ++n) {
          dw[n] = typename Pass::Gradient(d[n / width] * y[k][n % width]);
          below[n % width] += d[n / width] * float(w[n]);
        }
        d = below;
      }
    return loss;
  }
};

int main() {
  zero::launch<zero::Threads>(4, [](auto ranks) {
    zero::Trainer trainer{Mlp{}, ranks, zero::AdamW{}, zero::Sharded<3>{}, zero::Bf16Mixed{}};
    for (int step = 1; step <= 500; ++step) {
      float const phase = float(step * (1 + ranks.rank()));
      trainer.step(phase);
      double const loss = trainer.mean_loss();
      if (ranks.rank() == 0 && step % 100 == 0) std::printf("step %d: loss %.4f\n", step, loss);
    }
    if (ranks.rank() == 0) std::printf("each rank keeps %s\n", trainer.plan().text().c_str());
  });
}
