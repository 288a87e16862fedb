// SPDX-License-Identifier: Apache-2.0
// expected-error: Trainer: the model needs `using Batch = ...` and `zero::Units units() const`;
// expected-error: see zero/model/model.hpp

#include <archetypes/trainer.hpp>

using Ranks = archetype::Complete<zero::Fp32>;

struct Mine {
  using Batch = archetype::Batch;
#ifdef ZERO_XFAIL_PASS
  zero::Units units() const;
#endif
  template <class Pass>
  void operator()(Pass& pass, Batch const& batch);
};

using Trainer = archetype::Deduced<Mine, Ranks, archetype::Optimizer, zero::Sharded<3>>;
