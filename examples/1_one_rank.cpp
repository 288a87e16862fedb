// SPDX-License-Identifier: Apache-2.0
#include <zero/zero.hpp>

#include <cstdio>
#include <span>
#include <utility>
#include <vector>

struct Line {                                          // y = slope x + offset
  using Batch = std::vector<std::pair<float, float>>;  // points (x, y)

  zero::Units units() const { return {{"line", {{.name = "slope and offset", .shape = {2}}}}}; }

  template <class Pass>
  double operator()(Pass& pass, Batch const& points) {
    auto const lease = pass.forward(0);
    std::span<float const> const line = lease[0];
    float loss = 0, slope = 0, offset = 0;  // the loss and its derivatives
    for (auto const& [x, y] : points) {
      float const error = line[0] * x + line[1] - y;
      loss += error * error;
      slope += 2 * error * x;
      offset += 2 * error;
    }
    if constexpr (Pass::trains) {
      auto const [parameters, gradients] = pass.backward(0);
      std::span<float> const gradient = gradients[0];
      gradient[0] += slope;
      gradient[1] += offset;
    }
    return loss;
  }
};

int main() {
  Line::Batch const points{{-1, -5}, {0, -2}, {1, 1}, {2, 4}};  // y = 3 x - 2
  zero::Trainer trainer{Line{}, zero::SingleRank<>{}, zero::AdamW{.lr = 0.05f}};
  for (int step = 0; step <= 300; trainer.step(points), ++step)
    if (step % 50 == 0) std::printf("step %3d  loss %9.6f\n", step, trainer.evaluate(points));
}
