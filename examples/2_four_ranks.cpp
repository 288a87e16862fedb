// SPDX-License-Identifier: Apache-2.0
#include <zero/zero.hpp>

#include <array>
#include <cmath>
#include <cstdio>

struct Mirror {  // y = tanh(W y), three times: learns to turn a wave round
  static constexpr int layers = 3, width = 64;
  using Batch = float;  // phase of one wave

  zero::Units units() const {  // each is gathered, reduced and updated as one
    zero::Units all;
    for (std::string const k : {"0", "1", "2"})
      all.push_back({"layer" + k, {{"W" + k, {width, width}, zero::Initial::normal(0.125)}}});
    return all;
  }
  template <class Pass>
  double operator()(Pass& pass, Batch const& phase) {
    std::array<std::array<float, width>, layers + 1> y{}, d{};  // outputs, and the loss by them
    for (int i = 0; i < width; ++i) y[0][i] = 0.8f * std::sin(0.1f * i + phase);
    for (int k = 0; k < layers; ++k) {
      auto const w = pass.forward(k);  // gathered from all ranks, given back at the brace
      for (int n = 0; n < width * width; ++n)
        y[k + 1][n / width] += float(w[0].span()[n]) * y[k][n % width];
      for (float& value : y[k + 1]) value = std::tanh(value);
    }
    double loss = 0;
    for (int i = 0; i < width; ++i) d[layers][i] = y[layers][i] - y[0][width - 1 - i];
    for (float e : d[layers]) loss += e * e / 2;
    if constexpr (Pass::trains)
      for (int k = layers; k-- > 0;) {
        auto const [w, gradient] = pass.backward(k);  // summed over ranks at the brace
        for (int n = 0; n < width * width; ++n) {
          float const out = y[k + 1][n / width], e = d[k + 1][n / width] * (1 - out * out);
          gradient[0].span()[n] = typename Pass::Gradient(e * y[k][n % width]);
          d[k][n % width] += e * float(w[0].span()[n]);
        }
      }
    return loss;
  }
};

int main() {
  zero::launch<zero::Threads>(4, [](auto ranks) {
    zero::Trainer trainer{Mirror{}, ranks, zero::AdamW{}, zero::Sharded<3>{}, zero::Bf16Mixed{}};
    for (int step = 1; step <= 500; ++step) {
      trainer.step(float(step * (1 + ranks.rank())));
      double const loss = trainer.mean_loss();
      if (ranks.rank() == 0 && step % 100 == 0) std::printf("step %d: loss %.4f\n", step, loss);
    }
    if (ranks.rank() == 0) std::printf("each rank keeps %s\n", trainer.plan().text().c_str());
  });
}
