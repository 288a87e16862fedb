// SPDX-License-Identifier: Apache-2.0
// expected-error: Policies: every argument must be a policy, such as Sharded<3> or Bf16Mixed;
// expected-error: Options come before the policies

#include <archetypes/trainer.hpp>

using Ranks = archetype::Complete<zero::Fp32>;

#ifdef ZERO_XFAIL_PASS
using Trainer = archetype::Deduced<archetype::Model, Ranks, archetype::Optimizer, zero::Options,
                                   zero::Sharded<3>>;
#else
using Trainer = archetype::Deduced<archetype::Model, Ranks, archetype::Optimizer, zero::Sharded<3>,
                                   zero::Options>;
#endif
