// SPDX-License-Identifier: Apache-2.0
#include <zero/zero.hpp>

#include <cmath>
#include <cstdio>

struct Predictor {  // y = w . x: learns how a wave goes on from the 768 samples before
  static constexpr int width = 256;
  using Batch = float;         // phase of one wave
  zero::Units units() const {  // each is gathered, reduced and updated as one
    return {{"first", {{"w0", {width}}}}, {"next", {{"w1", {width}}}}, {"last", {{"w2", {width}}}}};
  }
  template <class Pass>
  double operator()(Pass& pass, Batch const& phase) {
    auto const x = [&](int k, int i) { return std::tanh(4 * std::sin(k * width + i + phase)); };
    float error = -x(3, 0);  // of y, which is to be the next sample
    for (int k = 0; k < 3; ++k) {
      auto const w = pass.forward(k);  // gathered from all ranks, given back at the brace
      for (int i = 0; i < width; ++i) error += float(w[0].span()[i]) * x(k, i);
    }
    if constexpr (Pass::trains)
      for (int k = 3; k-- > 0;) {
        auto const [w, dw] = pass.backward(k);  // summed over ranks at the brace
        for (int i = 0; i < width; ++i) dw[0].span()[i] = typename Pass::Gradient(error * x(k, i));
      }
    return error * error / 2;
  }
};

int main() {
  zero::launch<zero::Threads>(4, [](auto ranks) {
    zero::Trainer trainer{Predictor{}, ranks, zero::AdamW{}, zero::Sharded<3>{}, zero::Bf16Mixed{}};
    for (int step = 1; step <= 400; ++step) {
      trainer.step(float(step * (1 + ranks.rank())));
      double const loss = trainer.mean_loss();
      if (ranks.rank() == 0 && step % 100 == 0) std::printf("step %d: loss %.4f\n", step, loss);
    }
    if (ranks.rank() == 0) std::printf("each rank keeps %s\n", trainer.plan().text().c_str());
  });
}
