// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: tiers other than OnDevice need a device whose streams run host code,
// expected-error: stream.enqueue(f); see zero/tier/host_side.hpp

#include <archetypes/trainer.hpp>

#ifdef ZERO_XFAIL_PASS
using Tiers = zero::Offload<zero::OnDevice, zero::OnDevice>;
#else
using Tiers = zero::Offload<zero::OnHost, zero::OnDevice>;
#endif

using Trainer = archetype::Deduced<archetype::Model, archetype::Complete<zero::Fp32>,
                                   archetype::Optimizer, zero::Sharded<3, Tiers>>;
