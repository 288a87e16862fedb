// SPDX-License-Identifier: Apache-2.0
// An optimizer of one's own, AdaBelief (Zhuang et al., NeurIPS 2020): Adam that divides by how far
// gradients lie from their mean, in thirty lines. Every stage shards its state like any other's.
#include <zero/zero.hpp>

#include <cmath>
#include <cstdio>

struct AdaBelief {
  float lr = 0.02f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f;

  static constexpr int num_states = 2;  // floats an element, 0 at first: mean and its deviation
  struct Constants {                    // what an update needs of its number t alone
    float mean, deviation;
  };

  float learning_rate(zero::Index) const { return lr; }
  Constants constants(zero::Index t) const {
    float const n = float(t);
    return {1 / (1 - std::pow(beta1, n)), 1 / (1 - std::pow(beta2, n))};
  }
  // The weight becomes weight - rate x what is returned. A product() is never fused with a sum.
  float direction(Constants c, float, float g, float* s, float) const {
    using zero::product;  // so the bits are the same on every machine
    s[0] = product(beta1, s[0]) + product(1 - beta1, g);
    float const off = g - s[0];
    s[1] = product(beta2, s[1]) + product((1 - beta2) * off, off);
    return s[0] * c.mean / (std::sqrt(s[1] * c.deviation) + eps);
  }
};

struct Line {  // y = a x + b, where it is 3 x - 1
  using Batch = float;
  zero::Units units() const { return {{"line", {{"ab", {2}}}}}; }
  template <class Pass>
  double operator()(Pass& pass, Batch const& x) {
    float off = 0;
    {
      auto const w = pass.forward(0);
      off = w[0].span()[0] * x + w[0].span()[1] - (3 * x - 1);
    }
    if constexpr (Pass::trains) {
      auto const [w, gradient] = pass.backward(0);
      gradient[0].span()[0] = off * x;
      gradient[0].span()[1] = off;
    }
    return off * off / 2;
  }
};

int main() {
  double loss = 1;
  zero::launch<zero::Threads>(2, [&loss](auto ranks) {
    zero::Trainer trainer{Line{}, ranks, AdaBelief{}, zero::Sharded<3>{}};
    for (int step = 0; step < 800; ++step) trainer.step(std::sin(float(step * 2 + ranks.rank())));
    double const mean = trainer.mean_loss();
    if (ranks.rank() == 0) std::printf("loss %.1e\n", loss = mean);
  });
  return loss < 1e-3 ? 0 : 1;
}
