// SPDX-License-Identifier: Apache-2.0
// UncheckedGradients: the bits of checked gradients without clipping, no norm on the wire, and each
// update waits for its own reduction alone.

#include <zero/comm/recording.hpp>
#include <zero/report/slices.hpp>

#include <doctest/doctest.h>
#include <order/visits_model.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

namespace zero_test {
namespace {

/// What three steps left, and the phases of the last one's collectives in order.
struct Trained {
  std::uint64_t hash = 0;
  std::vector<std::string> phases{};
};

template <class Sharding, class Checking>
Trained trained(int world, zero::Options const& options) {
  Trained result;
  zero::launch<zero::Threads>(world, [&](auto communicator) {
    zero::CollectiveLog log;
    zero::Recording recording(communicator, log);
    zero::Trainer trainer{VisitsModel{}, recording, zero::AdamW{}, options, Sharding{}, Checking{}};
    for (int step = 0; step < 3; ++step) {
      log.clear();
      log.keep_records(true);
      std::vector<int> const batches(zero::at(options.accumulation), -1);
      trainer.step(batches);
      CHECK(trainer.decision().updates == step + 1);
    }
    std::uint64_t const hash = zero::parameters_hash(trainer);
    if (communicator.rank() != 0) return;
    result.hash = hash;
    for (zero::CollectiveRecord const& r : log.records()) result.phases.emplace_back(r.phase);
  });
  return result;
}

template <class Sharding>
void check_alike() {
  for (int world : {1, 2, 3}) {
    for (zero::Index accumulation : {1, 2}) {
      zero::Options const options{.accumulation = accumulation};
      Trained const checked = trained<Sharding, zero::CheckedGradients>(world, options);
      Trained const unchecked = trained<Sharding, zero::UncheckedGradients>(world, options);
      CAPTURE(world);
      CHECK(unchecked.hash == checked.hash);
      CHECK(checked.hash != 0);
      std::vector<std::string> without = checked.phases;
      std::erase(without, "clip");
      CHECK(unchecked.phases == without);
      if (Sharding::shards_optimizer && world > 1) CHECK(without.size() < checked.phases.size());
    }
  }
}

TEST_CASE("unchecked gradients: the same bits at every stage, and no exchange of norms") {
  check_alike<zero::Sharded<0>>();
  check_alike<zero::Sharded<1>>();
  check_alike<zero::Sharded<2>>();
  check_alike<zero::Sharded<3>>();
}

TEST_CASE("unchecked gradients: clipping and a loss scale are refused by name") {
  zero::Host device;
  auto const refusal = [&](zero::Options const& options) -> std::string {
    try {
      zero::Trainer trainer{VisitsModel{}, zero::SingleRank(device), zero::AdamW{},
                            options,       zero::Sharded<1>{},       zero::UncheckedGradients{}};
    } catch (zero::InvalidArgument const& e) {
      return e.what();
    }
    return "nothing";
  };
  CHECK(refusal({.clip = 1}) ==
        "Options::clip: found 1; expected 0 with UncheckedGradients, which makes no norm");
  CHECK(refusal({.clip = 1e-7f}) ==
        "Options::clip: found 1.0000000116860974e-07; expected 0 with "
        "UncheckedGradients, which makes no norm");
  CHECK(refusal({.loss_scale = zero::LossScale::fixed(8)}) ==
        "Options::loss_scale: found 8; expected none with UncheckedGradients, which sees no "
        "overflow");
  CHECK(refusal({}) == "nothing");
}

/// Its gradients are not finite: what is not looked at arrives.
struct InfiniteGradients : VisitsModel {
  template <class Pass>
  double operator()(Pass& pass, int) {
    if constexpr (Pass::trains) {
      for (int u : {0, 1}) auto const w = pass.forward(u);
      for (int u : {1, 0}) {
        auto const [w, g] = pass.backward(u);
        for (auto& x : g[0].span()) x = std::numeric_limits<float>::infinity();
      }
    }
    return 0;
  }
};

TEST_CASE("unchecked gradients: one that is not finite is not skipped, as the policy says") {
  zero::Host device;
  zero::Trainer trainer{InfiniteGradients{}, zero::SingleRank(device), zero::AdamW{},
                        zero::Sharded<1>{}, zero::UncheckedGradients{}};
  trainer.step(-1);
  CHECK(trainer.decision().skipped == 0);
  bool finite = true;
  trainer.evaluate([&](auto& pass) {
    auto const w = pass.forward(0);
    for (float x : w[0].span()) finite = finite && std::isfinite(x);
  });
  CHECK(!finite);
}

}  // namespace
}  // namespace zero_test
