// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the tiers that settings name to the type that trains there.

#include <zero/core/error.hpp>
#include <zero/policy/sharded.hpp>

#include <gpt2/outcome.hpp>
#include <gpt2/settings.hpp>

#include <type_traits>

namespace gpt2 {

/// Calls run.operator()<Sharding>() with the stage and the tiers of the settings.
/// @tparam Stage from 1; 3 where optimizer state is on the device
/// @tparam Optimizer the tier of optimizer state; parameters as the settings say, at stage 3
/// @throws InvalidArgument where the settings leave both on the device
template <int Stage, zero::Tier Optimizer, class F>
Outcome with_tiers(Settings const& settings, F run) {
  using zero::Tier, zero::Offload, zero::Sharded;
  static_assert(Stage == 3 || (Stage >= 1 && Optimizer != Tier::device),
                "gpt2: parameters lie below the device at stage 3 alone");
  using O =
      std::conditional_t<Optimizer == Tier::device, zero::OnDevice,
                         std::conditional_t<Optimizer == Tier::host, zero::OnHost, zero::OnNvme>>;
  if constexpr (Stage == 3) {
    if (settings.parameter_tier == Tier::host)
      return run.template operator()<Sharded<3, Offload<O, zero::OnHost>>>();
    if (settings.parameter_tier == Tier::nvme)
      return run.template operator()<Sharded<3, Offload<O, zero::OnNvme>>>();
  }
  if constexpr (Optimizer != Tier::device) {
    return run.template operator()<Sharded<Stage, Offload<O>>>();
  } else {
    throw zero::InvalidArgument(
        "gpt2: parameters and optimizer state both on the device; expected one of them below it");
  }
}

}  // namespace gpt2
