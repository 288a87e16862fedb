// SPDX-License-Identifier: Apache-2.0
// Stage 0 uses all_reduce of gradients and nothing else, in any phase.
//
// symbols-required: U archetype::AllReduces<.*, float>::all_reduce[(]
// symbols-required: U archetype::AllReduces<.*, zero::bf16>::all_reduce[(]
// symbols-required: U archetype::Groups::group_start[(]
// symbols-forbidden: zero::Gather<.*>::(fetch|on_demand|launch)[(]
// symbols-forbidden: zero::Publish<.*>::publish[(]
// symbols-forbidden: zero::(Tiers|HostSide|OffloadedState|Blocks)<
// symbols-forbidden: zero::Measure<
// symbols-forbidden: ::(reduce_scatter|all_gather)[(<]
// symbols-forbidden: AllReduces<.*, double>::all_reduce

#include <archetypes/trainer.hpp>

namespace {

using Stage = zero::Sharded<0>;
using zero::Bf16Mixed;
using zero::Fp32;

}  // namespace

// With exactly what it uses, types included: nothing else is there.
ZERO_INSTANTIATE(archetype::ForReplicated<Fp32>, Stage, Fp32);
ZERO_INSTANTIATE(archetype::ForReplicated<Bf16Mixed>, Stage, Bf16Mixed);

// With the rest there, and a compile error where it is used.
ZERO_INSTANTIATE(archetype::ForReplicatedPoisoned<Bf16Mixed>, Stage, Bf16Mixed);

// With everything there: what the object names is what is used.
ZERO_INSTANTIATE(archetype::Complete<Fp32>, Stage, Fp32);
