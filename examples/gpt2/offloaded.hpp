// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the tiers that settings name to the type that trains there.

#include <zero/policy/sharded.hpp>

#include <gpt2/outcome.hpp>
#include <gpt2/settings.hpp>

#include <type_traits>

namespace gpt2 {

/// Calls run.operator()<Sharding>() with the stage and the tiers of the settings.
/// @tparam Stage from 1
/// @tparam Optimizer the tier of optimizer state; parameters as the settings say, at stage 3
template <int Stage, zero::Tier Optimizer, class F>
Outcome with_tiers(Settings const& settings, F run) {
  using zero::Tier, zero::Offload, zero::Sharded;
  using O =
      std::conditional_t<Optimizer == Tier::device, zero::OnDevice,
                         std::conditional_t<Optimizer == Tier::host, zero::OnHost, zero::OnNvme>>;
  if constexpr (Stage == 3) {
    if (settings.parameter_tier == Tier::host)
      return run.template operator()<Sharded<3, Offload<O, zero::OnHost>>>();
    if (settings.parameter_tier == Tier::nvme || Optimizer == Tier::device)
      return run.template operator()<Sharded<3, Offload<O, zero::OnNvme>>>();
  }
  if constexpr (Optimizer != Tier::device)
    return run.template operator()<Sharded<Stage, Offload<O>>>();
}

}  // namespace gpt2
