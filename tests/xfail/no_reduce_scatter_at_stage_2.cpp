// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: ZeRO stages 1-3 need communicator.reduce_scatter(Ordered<Gradient const>
// expected-error: full, Ordered<Gradient> slice, Where)

#include <archetypes/trainer.hpp>

using Device = archetype::Device<float, float>;
#ifdef ZERO_XFAIL_PASS
using Communicator = archetype::Communicator<Device, archetype::ReduceScatters<Device, float>,
                                             archetype::AllGathers<Device, float, double>>;
#else
using Communicator = archetype::Communicator<Device, archetype::AllReduces<Device, float>,
                                             archetype::AllGathers<Device, float, double>>;
#endif

using Trainer =
    archetype::Deduced<archetype::Model, Communicator, archetype::Optimizer, zero::Sharded<2>>;
