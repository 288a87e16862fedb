// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: the communicator's device lacks element-wise work for this precision; see
// expected-error: zero/device/elementwise.hpp

#include <archetypes/trainer.hpp>

#ifdef ZERO_XFAIL_PASS
using Device = archetype::Device<float, float>;
#else
using Device = archetype::BareDevice;
#endif
using Ranks = archetype::Complete<zero::Fp32, Device>;

using Trainer = archetype::Deduced<archetype::Model, Ranks, archetype::Optimizer, zero::Sharded<2>>;
