// SPDX-License-Identifier: Apache-2.0
// The poison itself works: a stage that needs the collective does not compile with it.
// expected-error: archetype: all_gather is used where it must not be

#include <archetypes/trainer.hpp>

using Device = archetype::Device<float, float>;
using Communicator = archetype::Communicator<Device, archetype::PoisonedAllGather<Device>,
                                             archetype::AllReduces<Device, float>,
                                             archetype::ReduceScatters<Device, float>>;
#ifdef ZERO_XFAIL_PASS
using Stage = zero::Sharded<0>;
#else
using Stage = zero::Sharded<2>;
#endif

void step(zero::Trainer<archetype::Model, Communicator, archetype::Optimizer,
                        zero::Policies<Stage>>& trainer,
          archetype::Batch const& batch) {
  trainer.step(batch);
}
