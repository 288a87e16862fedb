// SPDX-License-Identifier: Apache-2.0
// Trainers in float on the host, whose parameters are their weights.
#include <zero/device/host.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/sgd.hpp>

#include <tier/train.hpp>

namespace tier_test {
namespace {

template <class Sharding>
Outcome run(Setup const& setup, float lr, bool descends) {
  using S = zero::State<float>;
  if (descends)
    return train<zero::Host, Sharding, zero::Fp32, S>(setup, zero::Sgd{.lr = lr, .momentum = 0});
  return train<zero::Host, Sharding, zero::Fp32, S>(setup, zero::AdamW{.lr = lr});
}

}  // namespace

Outcome train_floats(Setup const& setup, float lr, bool descends) {
  using namespace zero;
  Place const& p = setup.place;
  if (p.optimizer == Tier::device) {
    return p.stage == 1   ? run<Sharded<1>>(setup, lr, descends)
           : p.stage == 2 ? run<Sharded<2>>(setup, lr, descends)
                          : run<Sharded<3>>(setup, lr, descends);
  }
  if (p.optimizer == Tier::nvme)
    return run<Sharded<3, Offload<OnNvme, OnNvme>>>(setup, lr, descends);
  if (p.stage == 1) return run<Sharded<1, Offload<OnHost>>>(setup, lr, descends);
  if (p.stage == 2) return run<Sharded<2, Offload<OnHost>>>(setup, lr, descends);
  if (p.parameters == Tier::host)
    return run<Sharded<3, Offload<OnHost, OnHost>>>(setup, lr, descends);
  return run<Sharded<3, Offload<OnHost>>>(setup, lr, descends);
}

}  // namespace tier_test
