// SPDX-License-Identifier: Apache-2.0
// The poison itself works: a stage that needs the collective does not compile with it.
// expected-error: archetype: reduce_scatter is used where it must not be

#include <archetypes/trainer.hpp>

using Device = archetype::Device<float, float>;
using Communicator = archetype::Communicator<Device, archetype::PoisonedReduceScatter<Device>,
                                             archetype::AllReduces<Device, float>,
                                             archetype::AllGathers<Device, float, double>>;
#ifdef ZERO_XFAIL_PASS
using Stage = zero::Sharded<0>;
#else
using Stage = zero::Sharded<3>;
#endif

void step(zero::Trainer<archetype::Model, Communicator, archetype::Optimizer,
                        zero::Policies<Stage>>& trainer,
          archetype::Batch const& batch) {
  trainer.step(batch);
}
