// SPDX-License-Identifier: Apache-2.0
// Stage 1 uses reduce_scatter of gradients, and all_gather of parameters and of norm records: no
// all_reduce.
//
// symbols-required: U archetype::ReduceScatters<.*, float>::reduce_scatter[(]
// symbols-required: U archetype::ReduceScatters<.*, zero::bf16>::reduce_scatter[(]
// symbols-required: U archetype::AllGathers<.*, float>::all_gather[(]
// symbols-required: U archetype::AllGathers<.*, zero::bf16>::all_gather[(]
// symbols-required: U archetype::AllGathers<.*, double>::all_gather[(]
// symbols-required: U archetype::Groups::group_start[(]
// symbols-forbidden: zero::(Tiers|HostSide|OffloadedState|Blocks)<
// symbols-forbidden: zero::Gather<.*>::(fetch|on_demand|launch)[(]
// symbols-forbidden: zero::Measure<
// symbols-forbidden: ::all_reduce[(<]
// symbols-forbidden: ReduceScatters<.*, double>::reduce_scatter

#include <archetypes/trainer.hpp>

namespace {

using Stage = zero::Sharded<1>;
using zero::Bf16Mixed;
using zero::Fp32;

}  // namespace

// With exactly what it uses, types included: nothing else is there.
ZERO_INSTANTIATE(archetype::ForSharded<Fp32>, Stage, Fp32);
ZERO_INSTANTIATE(archetype::ForSharded<Bf16Mixed>, Stage, Bf16Mixed);

// With the rest there, and a compile error where it is used.
ZERO_INSTANTIATE(archetype::ForShardedPoisoned<Bf16Mixed>, Stage, Bf16Mixed);

// With everything there: what the object names is what is used.
ZERO_INSTANTIATE(archetype::Complete<Fp32>, Stage, Fp32);
