// SPDX-License-Identifier: Apache-2.0
// expected-error: Pass: a forward-only pass has no backward; put the model's backward under `if
// expected-error: constexpr (Pass::trains)`

#include <archetypes/trainer.hpp>

using Ranks = archetype::Complete<zero::Fp32>;

struct Mine {
  using Batch = archetype::Batch;
  zero::Units units() const;
  template <class Pass>
  void operator()(Pass& pass, Batch const&) {
    auto const weights = pass.forward(0);
#ifdef ZERO_XFAIL_PASS
    if constexpr (Pass::trains) auto const leases = pass.backward(0);
#else
    auto const leases = pass.backward(0);
#endif
  }
};

void evaluate(zero::Trainer<Mine, Ranks, archetype::Optimizer, zero::Policies<>>& trainer,
              archetype::Batch const& batch) {
  trainer.evaluate(batch);
}
