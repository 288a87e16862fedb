// SPDX-License-Identifier: Apache-2.0
// The trainers of one list of pairs.hpp, ZERO_TEST_PART, and their references at stage 0.
#include <zero/device/host.hpp>
#include <zero/optim/adagrad.hpp>
#include <zero/optim/adam.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lamb.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/sgd.hpp>

#include <tier/pairs.hpp>
#include <tier/train.hpp>

namespace tier_test {
namespace {

using zero::Adagrad, zero::Adam, zero::AdamW, zero::Lamb, zero::Lion, zero::Sgd;
using zero::OnDevice, zero::OnHost, zero::OnNvme;

template <class O>
O made() {
  O optimizer{};
  optimizer.lr = 0.03f;
  optimizer.weight_decay = 0.1f;
  if constexpr (std::same_as<O, Sgd>) {
    optimizer.momentum = 0.9f;
    optimizer.nesterov = true;
  }
  return optimizer;
}

/// Precision and type of the optimizer's numbers.
template <class P, class S>
struct Storage {
  using Precision = P;
  using State = zero::State<S>;
};
using floats = Storage<zero::Fp32, float>;
using mixed = Storage<zero::Bf16Mixed, float>;
using split = Storage<zero::Bf16Split, float>;
using short_states = Storage<zero::Fp32, zero::bf16>;
using scaled = Storage<zero::Fp16Mixed, float>;
using all_short = Storage<zero::Bf16Split, zero::bf16>;

template <class O, class S, class Sharding>
Outcome run(Setup const& setup) {
  return train<zero::Host, Sharding, typename S::Precision, typename S::State>(setup, made<O>());
}

}  // namespace

#define ZERO_TEST_PAIR(O, S, stage, A, B)                    \
  Pair{#O,                                                   \
       #S,                                                   \
       {stage, A::tier, B::tier},                            \
       run<O, S, zero::Sharded<stage, zero::Offload<A, B>>>, \
       run<O, S, zero::Sharded<0>>},

#if ZERO_TEST_PART == 0
std::vector<Pair> pairs_0() { return {ZERO_TEST_PAIRS_0}; }
#elif ZERO_TEST_PART == 1
std::vector<Pair> pairs_1() { return {ZERO_TEST_PAIRS_1}; }
#else
std::vector<Pair> pairs_2() { return {ZERO_TEST_PAIRS_2}; }
#endif

}  // namespace tier_test
