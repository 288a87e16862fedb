// SPDX-License-Identifier: Apache-2.0
// expected-error: Trainer: the model must be callable as model(pass, batch) with a training pass

#include <archetypes/trainer.hpp>

using Ranks = archetype::Complete<zero::Fp32>;

struct Mine {
  using Batch = archetype::Batch;
  zero::Units units() const;
  template <class Pass>
#ifdef ZERO_XFAIL_PASS
  void operator()(Pass& pass, Batch const& batch);
#else
  void operator()(Pass& pass, Batch& batch);  // would change the batch
#endif
};

using Trainer = archetype::Deduced<Mine, Ranks, archetype::Optimizer, zero::Sharded<3>>;
