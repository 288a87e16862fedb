// SPDX-License-Identifier: Apache-2.0
// AdamW and bf16 on the host, at every stage and in every tier.
#include <zero/device/host.hpp>
#include <zero/optim/adamw.hpp>

#include <tier/train.hpp>

namespace tier_test {
namespace {

template <class Sharding>
Outcome mixed(Setup const& setup) {
  return train<zero::Host, Sharding, zero::Bf16Mixed, zero::State<float>>(
      setup, zero::AdamW{.lr = 0.03f, .weight_decay = 0.1f});
}

template <int Stage, class O>
Outcome with_optimizer_tier(Setup const& setup) {
  using zero::Offload;
  if constexpr (Stage < 3) {
    return mixed<zero::Sharded<Stage, Offload<O>>>(setup);
  } else {
    switch (setup.place.parameters) {
      case Tier::device:
        return mixed<zero::Sharded<Stage, Offload<O>>>(setup);
      case Tier::host:
        return mixed<zero::Sharded<Stage, Offload<O, zero::OnHost>>>(setup);
      default:
        return mixed<zero::Sharded<Stage, Offload<O, zero::OnNvme>>>(setup);
    }
  }
}

template <int Stage>
Outcome at_stage(Setup const& setup) {
  switch (setup.place.optimizer) {
    case Tier::device:
      return with_optimizer_tier<Stage, zero::OnDevice>(setup);
    case Tier::host:
      return with_optimizer_tier<Stage, zero::OnHost>(setup);
    default:
      return with_optimizer_tier<Stage, zero::OnNvme>(setup);
  }
}

}  // namespace

Outcome train_mixed(Setup const& setup) {
  switch (setup.place.stage) {
    case 1:
      return at_stage<1>(setup);
    case 2:
      return at_stage<2>(setup);
    default:
      return at_stage<3>(setup);
  }
}

}  // namespace tier_test
