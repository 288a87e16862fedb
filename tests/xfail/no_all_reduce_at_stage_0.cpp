// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: ZeRO stage 0 needs communicator.all_reduce(Ordered<Gradient> full, Where)

#include <archetypes/trainer.hpp>

using Device = archetype::Device<float, float>;
#ifdef ZERO_XFAIL_PASS
using Communicator = archetype::Communicator<Device, archetype::AllReduces<Device, float>>;
#else
using Communicator = archetype::Communicator<Device, archetype::ReduceScatters<Device, float>,
                                             archetype::AllGathers<Device, float, double>>;
#endif

using Trainer =
    archetype::Deduced<archetype::Model, Communicator, archetype::Optimizer, zero::Sharded<0>>;
