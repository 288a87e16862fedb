// SPDX-License-Identifier: Apache-2.0
// expected-error: Policies: a sharding policy needs shards_optimizer, shards_gradients,
// expected-error: shards_parameters, each implying the one before it

#include <zero/policy/policies.hpp>

// Parameters sharded where gradients are not: no stage of ZeRO.
struct Own {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::sharding;
  static constexpr bool shards_optimizer = true;
#ifdef ZERO_XFAIL_PASS
  static constexpr bool shards_gradients = true;
#else
  static constexpr bool shards_gradients = false;
#endif
  static constexpr bool shards_parameters = true;
  static constexpr zero::Tier optimizer_tier = zero::Tier::device;
  static constexpr zero::Tier parameter_tier = zero::Tier::device;
};
constexpr zero::Policies<Own> policies;
