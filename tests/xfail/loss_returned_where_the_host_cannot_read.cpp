// SPDX-License-Identifier: Apache-2.0
// expected-error: Trainer: a model that returns its loss needs a device whose memory the host may
// expected-error: read; on others it adds it to pass.loss() on pass.stream()

#include <archetypes/trainer.hpp>

using Ranks = archetype::Complete<zero::Fp32>;

struct Mine {
  using Batch = archetype::Batch;
  zero::Units units() const;
  template <class Pass>
#ifdef ZERO_XFAIL_PASS
  void operator()(Pass& pass, Batch const& batch);
#else
  float operator()(Pass& pass, Batch const& batch);
#endif
};

void evaluate(zero::Trainer<Mine, Ranks, archetype::Optimizer, zero::Policies<>>& trainer,
              archetype::Batch const& batch) {
  trainer.evaluate(batch);
}
