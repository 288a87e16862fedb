// SPDX-License-Identifier: Apache-2.0
// expected-error: Pass: a forward-only pass has no backward; put the model's backward under `if
// expected-error: constexpr (Pass::trains)`

#include <archetypes/trainer.hpp>

using Ranks = archetype::Complete<zero::Fp32>;

void generate(
    zero::Trainer<archetype::Model, Ranks, archetype::Optimizer, zero::Policies<>>& trainer) {
  trainer.evaluate([](auto& pass) {
#ifdef ZERO_XFAIL_PASS
    auto weights = pass.forward(0);
#else
    auto [weights, gradients] = pass.backward(0);
#endif
  });
}
