// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: ZeRO stages 1-3 need communicator.all_gather(Ordered<double const> slice,
// expected-error: Ordered<double> full, Where), for norm records

#include <archetypes/trainer.hpp>

using Device = archetype::Device<float, float>;
#ifdef ZERO_XFAIL_PASS
using Communicator = archetype::Communicator<Device, archetype::ReduceScatters<Device, float>,
                                             archetype::AllGathers<Device, float, double>>;
#else
using Communicator = archetype::Communicator<Device, archetype::ReduceScatters<Device, float>,
                                             archetype::AllGathers<Device, float>>;
#endif

using Trainer =
    archetype::Deduced<archetype::Model, Communicator, archetype::Optimizer, zero::Sharded<3>>;
