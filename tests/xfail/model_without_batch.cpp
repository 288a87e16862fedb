// SPDX-License-Identifier: Apache-2.0
// expected-error: Trainer: the model needs `using Batch = ...` and `zero::Units units() const`;
// expected-error: see zero/model/model.hpp

#include <archetypes/trainer.hpp>

using Ranks = archetype::Complete<zero::Fp32>;

struct Mine {
#ifdef ZERO_XFAIL_PASS
  using Batch = archetype::Batch;
#endif
  zero::Units units() const;
  template <class Pass>
  void operator()(Pass& pass, archetype::Batch const& batch);
};

using Trainer = archetype::Deduced<Mine, Ranks, archetype::Optimizer, zero::Sharded<3>>;
