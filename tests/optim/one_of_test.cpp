// SPDX-License-Identifier: Apache-2.0
// An optimizer chosen at run time is the one that was chosen: same bits, same hash, same refusals.

#include <zero/zero.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

namespace {

using zero::Index;
using TwoStates = zero::OneOf<zero::AdamW, zero::Adam>;
using OneState = zero::OneOf<zero::Lion, zero::Adagrad, zero::Sgd>;

static_assert(zero::Optimizer<TwoStates> && zero::Optimizer<OneState>);
static_assert(TwoStates::num_states == 2 && OneState::num_states == 1);
static_assert(std::is_trivially_copyable_v<OneState>);
static_assert(!zero::HasTrustRatio<TwoStates>);

/// So many elements that vectors, threads and remainders have their parts.
struct Line {
  using Batch = int;
  static constexpr Index elements = 20'011;

  zero::Units units() const {
    zero::Tensor bias{"b", {3}, zero::Initial::constant(1)};
    bias.decay = 0;  // a segment of its own
    bias.lr_scale = 0.5f;
    return {{"line", {{"w", {elements}, zero::Initial::normal(0.5)}, bias}}};
  }
  template <class Pass>
  double operator()(Pass& pass, Batch const& batch) {
    { auto const w = pass.forward(0); }
    if constexpr (Pass::trains) {
      auto const [w, g] = pass.backward(0);
      for (int t = 0; t < 2; ++t) {
        for (Index i = 0; i < g[t].size(); ++i)
          g[t].span()[zero::at(i)] =
              typename Pass::Gradient(static_cast<float>((i * 7 + batch) % 23 - 11) * 0.01f);
      }
    }
    return 0;
  }
};

template <class Precision, class State = zero::State<float>, class O>
std::uint64_t trained(O const& optimizer) {
  std::uint64_t hash = 0;
  zero::launch<zero::Threads>(2, [&](auto communicator) {
    zero::Trainer trainer{Line{},      communicator, optimizer, zero::Sharded<2>{},
                          Precision{}, State{}};
    for (int step = 0; step < 3; ++step) trainer.step(step + communicator.rank());
    std::uint64_t const mine = zero::parameters_hash(trainer);
    if (communicator.rank() == 0) hash = mine;
  });
  return hash;
}

template <class Any, class O>
void same_as(O const& optimizer) {
  Any const any = optimizer;
  CHECK(zero::hash(any) == zero::hash(optimizer));
  for (Index t : {1, 2, 1000}) CHECK(any.learning_rate(t) == optimizer.learning_rate(t));
  any.visit([&]<class Chosen>(Chosen const&) { CHECK(std::is_same_v<Chosen, O>); });
  CHECK(trained<zero::Fp32>(any) == trained<zero::Fp32>(optimizer));
  CHECK(trained<zero::Bf16Mixed>(any) == trained<zero::Bf16Mixed>(optimizer));
  using Noisy = zero::State<zero::bf16>;
  CHECK(trained<zero::Fp32, Noisy>(any) == trained<zero::Fp32, Noisy>(optimizer));
}

TEST_CASE("an optimizer chosen at run time has the bits and the hash of the chosen one") {
  zero::LearningRate const decays = zero::LearningRate::cosine(2, 9);
  same_as<TwoStates>(zero::AdamW{.lr = 1e-2f, .weight_decay = 0.1f, .schedule = decays});
  same_as<TwoStates>(zero::Adam{.lr = 1e-2f, .weight_decay = 0.1f});
  same_as<OneState>(zero::Lion{.lr = 1e-3f, .weight_decay = 0.3f});
  same_as<OneState>(zero::Adagrad{.lr = 1e-2f});
  same_as<OneState>(zero::Sgd{.lr = 0.1f, .momentum = 0.9f, .nesterov = true, .schedule = decays});
}

TEST_CASE("it says which one was chosen, and refuses what that one refuses") {
  CHECK(OneState(zero::Lion{}).index() == 0);
  CHECK(OneState(zero::Sgd{}).index() == 2);
  CHECK(zero::hash(OneState(zero::Lion{})) != zero::hash(OneState(zero::Adagrad{})));
  CHECK_THROWS_WITH_AS(TwoStates(zero::AdamW{.beta1 = 1}).validate(),
                       "AdamW::beta1: found 1; expected 0 to below 1", zero::InvalidArgument);
}

}  // namespace
