// SPDX-License-Identifier: Apache-2.0
#pragma once
// The menu of sharding policies: which state each rank keeps only its slice of, and in which memory
// it lies. ZeRO: Memory Optimizations Toward Training Trillion Parameter Models (Rajbhandari et
// al., SC 2020), section 5. A policy is asked for facts, never for its name, so that a user's own
// policy works.

#include <zero/policy/kind.hpp>

namespace zero {

/// The memories in which state may lie.
enum class Tier {
  device,  ///< memory that kernels work in
  host,    ///< memory of the host, beside the device's
  nvme     ///< files
};

/// State stays in the device's memory.
struct OnDevice {
  static constexpr Tier tier = Tier::device;  ///< what it names
};
/// State lies in host memory and passes through the device in tiles.
struct OnHost {
  static constexpr Tier tier = Tier::host;  ///< what it names
};
/// State lies in files and passes through host memory in tiles.
struct OnNvme {
  static constexpr Tier tier = Tier::nvme;  ///< what it names
};

/// Where optimizer state and parameters lie.
template <class OptimizerTier = OnDevice, class ParameterTier = OnDevice>
struct Offload {
  static constexpr Tier optimizer_tier = OptimizerTier::tier;  ///< of optimizer state
  static constexpr Tier parameter_tier = ParameterTier::tier;  ///< of parameters
};

/// ZeRO stage `Stage`: 0 replicates everything, 1 shards optimizer state, 2 gradients as well, 3
/// parameters as well.
/// @tparam O an Offload<OptimizerTier, ParameterTier>
template <int Stage, class O = Offload<>>
struct Sharded {
  static_assert(Stage >= 0 && Stage <= 3, "Sharded<Stage>: ZeRO has stages 0, 1, 2 and 3");
  static_assert(Stage >= 1 || O::optimizer_tier == Tier::device,
                "Sharded<0, Offload<...>>: stage 0 replicates optimizer state; offload needs stage "
                "1, 2 or 3");
  static_assert(Stage >= 3 || O::parameter_tier == Tier::device,
                "Sharded<Stage, Offload<..., ParameterTier>>: offloaded parameters need stage 3");

  static constexpr PolicyKind kind = PolicyKind::sharding;   ///< what it decides
  static constexpr bool shards_optimizer = Stage >= 1;       ///< master weights and states
  static constexpr bool shards_gradients = Stage >= 2;       ///< sums of gradients
  static constexpr bool shards_parameters = Stage >= 3;      ///< gathered for visits
  static constexpr Tier optimizer_tier = O::optimizer_tier;  ///< of optimizer state
  static constexpr Tier parameter_tier = O::parameter_tier;  ///< of parameters
};

/// What the library asks of a sharding policy. Each fact implies the one before it.
template <class S>
concept ShardingPolicy = Policy<S> && requires {
  requires S::kind == PolicyKind::sharding;
  { S::shards_optimizer } -> std::convertible_to<bool>;
  { S::shards_gradients } -> std::convertible_to<bool>;
  { S::shards_parameters } -> std::convertible_to<bool>;
  requires S::shards_optimizer || !S::shards_gradients;
  requires S::shards_gradients || !S::shards_parameters;
  { S::optimizer_tier } -> std::convertible_to<Tier>;
  { S::parameter_tier } -> std::convertible_to<Tier>;
};

static_assert(ShardingPolicy<Sharded<0>> && ShardingPolicy<Sharded<1>> &&
              ShardingPolicy<Sharded<2>> && ShardingPolicy<Sharded<3>> &&
              ShardingPolicy<Sharded<3, Offload<OnNvme, OnHost>>>);

}  // namespace zero
