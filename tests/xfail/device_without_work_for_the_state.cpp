// SPDX-License-Identifier: Apache-2.0
// expected-error: zero: the communicator's device lacks element-wise work for optimizer state of
// expected-error: this type; see zero/device/elementwise.hpp

#include <archetypes/trainer.hpp>

// The archetype device of float knows float, and bf16 nowhere.
#ifdef ZERO_XFAIL_PASS
using State = zero::State<float>;
#else
using State = zero::State<zero::bf16>;
#endif

using Trainer = archetype::Deduced<archetype::Model, archetype::Complete<zero::Fp32>,
                                   archetype::Optimizer, zero::Sharded<2>, State>;
