// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: ZeRO stages 1-3 need communicator.all_gather(Ordered<Parameter const>
// expected-error: slice, Ordered<Parameter> full, Where)

#include <archetypes/trainer.hpp>

using Device = archetype::Device<float, float>;
#ifdef ZERO_XFAIL_PASS
using Communicator = archetype::Communicator<Device, archetype::ReduceScatters<Device, float>,
                                             archetype::AllGathers<Device, float, double>>;
#else
using Communicator = archetype::Communicator<Device, archetype::ReduceScatters<Device, float>>;
#endif

using Trainer =
    archetype::Deduced<archetype::Model, Communicator, archetype::Optimizer, zero::Sharded<1>>;
