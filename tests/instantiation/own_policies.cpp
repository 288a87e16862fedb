// SPDX-License-Identifier: Apache-2.0
// Policies are asked for facts: a user's own sharding and a user's own precision, here gradients in
// float beside parameters of 16 bits, train with what those facts need and nothing else.
//
// symbols-required: U archetype::ReduceScatters<.*, float>::reduce_scatter[(]
// symbols-required: U archetype::AllGathers<.*, zero::fp16>::all_gather[(]
// symbols-required: U archetype::AllGathers<.*, double>::all_gather[(]
// symbols-forbidden: ::all_reduce[(<]

#include <archetypes/trainer.hpp>

namespace {

struct Mixed {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::precision;
  using Parameter = zero::fp16;
  using Gradient = float;
  static constexpr bool has_master = true;
};

struct Third {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::sharding;
  static constexpr bool shards_optimizer = true;
  static constexpr bool shards_gradients = true;
  static constexpr bool shards_parameters = true;
  static constexpr zero::Tier optimizer_tier = zero::Tier::device;
  static constexpr zero::Tier parameter_tier = zero::Tier::device;
};

}  // namespace

ZERO_INSTANTIATE(archetype::ForSharded<Mixed>, Third, Mixed);
