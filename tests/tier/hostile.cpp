// SPDX-License-Identifier: Apache-2.0
// AdamW on the hostile devices; sources.cmake defines ZERO_TEST_LATE.
#include <zero/optim/adamw.hpp>

#if ZERO_TEST_LATE
#include <support/late_device.hpp>
#else
#include <support/guarded_device.hpp>
#endif
#include <tier/train.hpp>

namespace tier_test {
namespace {

#if ZERO_TEST_LATE
using D = zero_test::LateDevice;
#else
using D = zero_test::GuardedDevice;
#endif

template <class Sharding>
Outcome run(Setup const& setup, bool bf16) {
  zero::AdamW const optimizer{.lr = 0.03f, .weight_decay = 0.1f};
  if (bf16) return train<D, Sharding, zero::Bf16Mixed, zero::State<float>>(setup, optimizer);
  return train<D, Sharding, zero::Fp32, zero::State<float>>(setup, optimizer);
}

Outcome at_place(Setup const& setup, bool bf16) {
  using namespace zero;
  auto const is = [&](int stage, Tier optimizer, Tier parameters) {
    Place const& p = setup.place;
    return p.stage == stage && p.optimizer == optimizer && p.parameters == parameters;
  };
  if (is(1, Tier::host, Tier::device)) return run<Sharded<1, Offload<OnHost>>>(setup, bf16);
  if (is(2, Tier::nvme, Tier::device)) return run<Sharded<2, Offload<OnNvme>>>(setup, bf16);
  if (is(3, Tier::host, Tier::host)) return run<Sharded<3, Offload<OnHost, OnHost>>>(setup, bf16);
  if (is(3, Tier::nvme, Tier::nvme)) return run<Sharded<3, Offload<OnNvme, OnNvme>>>(setup, bf16);
  if (is(3, Tier::device, Tier::host))
    return run<Sharded<3, Offload<OnDevice, OnHost>>>(setup, bf16);
  throw std::logic_error("this place is not compiled for hostile devices");
}

}  // namespace

#if ZERO_TEST_LATE
std::vector<Place> hostile_places() {
  return {{1, Tier::host, Tier::device},
          {2, Tier::nvme, Tier::device},
          {3, Tier::host, Tier::host},
          {3, Tier::nvme, Tier::nvme},
          {3, Tier::device, Tier::host}};
}
Outcome train_late(Setup const& setup, bool bf16) { return at_place(setup, bf16); }
#else
Outcome train_guarded(Setup const& setup, bool bf16) { return at_place(setup, bf16); }
#endif

}  // namespace tier_test
