// SPDX-License-Identifier: Apache-2.0
// Ranks whose optimizers or loss scales differ are told so before step 1: which rank, and in what.
#include <zero/launch/threads.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/momentum.hpp>
#include <zero/step/trainer.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace {

using zero::AdamW;
using zero::LearningRate;
using zero::Options;

struct Tiny {
  using Batch = int;
  zero::Units units() const { return {{.name = "all", .tensors = {{.name = "w", .shape = {3}}}}}; }
  template <class Pass>
  void operator()(Pass&, int) {}
};

/// A direction of signs alone, as Lion's: beta moves no number, only where the sign turns.
struct Signs {
  float lr = 1;
  float beta = 0.9f;
  static constexpr int num_states = 1;
  float learning_rate(zero::Index) const { return lr; }
  int constants(zero::Index) const { return 0; }
  float direction(int, float, float gradient, float* states, float) const {
    float const c = beta * states[0] + (1 - beta) * gradient;
    states[0] = 0.99f * states[0] + 0.01f * gradient;
    return c > 0 ? 1.0f : c < 0 ? -1.0f : 0.0f;
  }
};

/// With bounds of a trust ratio, which no direction shows.
struct Bounded : Signs {
  float most = 10;
  float trust_ratio(double weight, double direction) const {
    return std::min(static_cast<float>(weight / direction), most);
  }
};

/// What the ranks of a world of three are told where rank 1 has another optimizer and other
/// options.
template <class Sharding, class O>
std::set<std::string> told(O const& optimizer, O const& other, Options const& options = {},
                           Options const& other_options = {}) {
  std::vector<std::string> texts(3, "nothing");
  try {
    zero::launch<zero::Threads>(3, [&](auto communicator) {
      int const rank = communicator.rank();
      try {
        zero::Trainer trainer{Tiny{}, communicator, rank == 1 ? other : optimizer,
                              rank == 1 ? other_options : options, Sharding{}};
      } catch (zero::CommunicationError const& e) {
        texts[zero::at(rank)] = e.what();
        throw;
      }
    });
  } catch (zero::CommunicationError const&) {  // each rank's is kept
  }
  return {texts.begin(), texts.end()};
}

std::set<std::string> const nothing{"nothing"};

template <class O>
void check_told(O const& optimizer, O const& other) {
  std::set<std::string> const text{
      "ranks were built differently: rank 1 differs from rank 0 in the optimizer"};
  CHECK(told<zero::Sharded<0>>(optimizer, other) == text);
  CHECK(told<zero::Sharded<3>>(optimizer, other) == text);
}

TEST_CASE("any number of an optimizer that differs on one rank is an error that says so") {
  AdamW const same{};
  CHECK(told<zero::Sharded<0>>(same, same) == nothing);
  CHECK(told<zero::Sharded<3>>(same, same) == nothing);
  check_told(same, AdamW{.lr = 1.0001e-3f});
  check_told(same, AdamW{.beta1 = 0.901f});
  check_told(same, AdamW{.beta2 = 0.9991f});
  check_told(same, AdamW{.eps = 1.01e-8f});
  check_told(same, AdamW{.weight_decay = 0.011f});
  check_told(Signs{}, Signs{.beta = 0.95f});
  Bounded other;
  other.most = 11;
  check_told(Bounded{}, other);
}

TEST_CASE("a schedule or a momentum that differs on one rank is an error that says so") {
  auto const with = [](LearningRate const& rate) { return AdamW{.schedule = rate}; };
  check_told(with(LearningRate()), with(LearningRate::linear(0, 1000)));
  check_told(with(LearningRate::linear(10, 1000)), with(LearningRate::linear(11, 1000)));
  check_told(with(LearningRate::linear(10, 100'000)), with(LearningRate::linear(10, 100'001)));
  check_told(with(LearningRate::linear(10, 1000)), with(LearningRate::linear(10, 1000).shifted()));
  check_told(with(LearningRate::warmup({.updates = 500})),
             with(LearningRate::warmup({.updates = 501})));
  auto const cycled = [](zero::Index up) {
    return zero::CycledMomentum(AdamW{}, zero::Momentum::one_cycle({.up = up}));
  };
  check_told(cycled(100), cycled(101));
  // What the first updates do not show.
  auto const later = [](zero::OneCycle const& cycle, double decay_rate) {
    return zero::CycledMomentum(AdamW{}, zero::Momentum::one_cycle(cycle, 0.8, 0.9, decay_rate));
  };
  zero::OneCycle const cycle{.up = 100, .down = 4, .decay_updates = 10};
  check_told(later(cycle, 0.1), later({.up = 100, .down = 2, .decay_updates = 10}, 0.1));
  check_told(later(cycle, 0.1), later(cycle, 0.2));
  check_told(later(cycle, 0.1), later({.up = 100, .down = 4, .decay_updates = 11}, 0.1));
}

TEST_CASE("a loss scale that differs on one rank is an error that says so") {
  std::set<std::string> const text{
      "ranks were built differently: rank 1 differs from rank 0 in Options::loss_scale"};
  using zero::LossScale;
  LossScale const scale = LossScale::dynamic();
  for (LossScale const& other :
       {LossScale(), LossScale::fixed(65536), LossScale::dynamic({.initial_power = 15}),
        LossScale::dynamic({.window = 999}), LossScale::dynamic({.hysteresis = 1}),
        LossScale::dynamic({.minimum = 2}), LossScale::dynamic({.consecutive_hysteresis = true}),
        LossScale::dynamic({.max_bad_losses = 3})}) {
    CHECK(told<zero::Sharded<3>>(AdamW{}, AdamW{}, {.loss_scale = scale}, {.loss_scale = other}) ==
          text);
  }
  CHECK(told<zero::Sharded<0>>(AdamW{}, AdamW{}, {.loss_scale = scale},
                               {.loss_scale = LossScale()}) == text);
  // A scale of 1 that was asked for looks at every loss, one that was not at none.
  CHECK(told<zero::Sharded<3>>(AdamW{}, AdamW{}, {}, {.loss_scale = LossScale::fixed(1)}) == text);
  CHECK(told<zero::Sharded<0>>(AdamW{}, AdamW{}, {.loss_scale = LossScale::fixed(1)}) == text);
  CHECK(told<zero::Sharded<3>>(AdamW{}, AdamW{}, {.loss_scale = LossScale::fixed(1)},
                               {.loss_scale = LossScale::fixed(1, 3)}) == text);
  CHECK(told<zero::Sharded<3>>(AdamW{}, AdamW{}, {}, {.loss_scale = LossScale()}) == nothing);
}

}  // namespace
