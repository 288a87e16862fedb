// SPDX-License-Identifier: Apache-2.0
// expected-error: Trainer: the model must be callable as model(pass, batch) with a forward-only
// expected-error: pass; put its backward under `if constexpr (Pass::trains)`

#include <archetypes/trainer.hpp>

using Ranks = archetype::Complete<zero::Fp32>;

struct Mine {
  using Batch = archetype::Batch;
  zero::Units units() const;
  template <class Pass>
#ifndef ZERO_XFAIL_PASS
  requires(Pass::trains)
#endif
      void
      operator()(Pass& pass, Batch const& batch);
};

using Trainer = archetype::Deduced<Mine, Ranks, archetype::Optimizer, zero::Sharded<3>>;
