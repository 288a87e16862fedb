// SPDX-License-Identifier: Apache-2.0
#include <zero/policy/sharded.hpp>

#include <doctest/doctest.h>

#include <type_traits>

namespace {

using zero::Offload;
using zero::OnDevice;
using zero::OnHost;
using zero::OnNvme;
using zero::Sharded;
using zero::Tier;

/// A thing by which a user's own policy misses the concept.
enum class Miss { nothing, kind, optimizer, gradients, parameters, tier };

template <Miss miss>
struct Facts {
  static constexpr zero::PolicyKind kind =
      miss == Miss::kind ? zero::PolicyKind::precision : zero::PolicyKind::sharding;
  static constexpr bool shards_optimizer = miss != Miss::optimizer;
  static constexpr bool shards_gradients = miss != Miss::gradients;
  static constexpr bool shards_parameters = true;
  static constexpr Tier optimizer_tier = Tier::device;
};
template <Miss miss>
struct Own : Facts<miss> {
  static constexpr Tier parameter_tier = Tier::device;
};
template <>
struct Own<Miss::parameters> {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::sharding;
  static constexpr bool shards_optimizer = true;
  static constexpr bool shards_gradients = true;
  static constexpr Tier optimizer_tier = Tier::device;
  static constexpr Tier parameter_tier = Tier::device;
};
template <>
struct Own<Miss::tier> : Facts<Miss::nothing> {};

template <class S>
constexpr int count_facts =
    int{S::shards_optimizer} + int{S::shards_gradients} + int{S::shards_parameters};

}  // namespace

TEST_CASE("each stage shards one thing more than the one before it") {
  CHECK(count_facts<Sharded<0>> == 0);
  CHECK(count_facts<Sharded<1>> == 1);
  CHECK(count_facts<Sharded<2>> == 2);
  CHECK(count_facts<Sharded<3>> == 3);
  CHECK(Sharded<1>::shards_optimizer);
  CHECK(Sharded<2>::shards_gradients);
  CHECK(!Sharded<1>::shards_gradients);
  CHECK(!Sharded<2>::shards_parameters);
}

TEST_CASE("state lies on the device unless an offload says otherwise") {
  CHECK(Sharded<3>::optimizer_tier == Tier::device);
  CHECK(Sharded<3>::parameter_tier == Tier::device);
  auto const optimizer = Sharded<2, Offload<OnHost>>::optimizer_tier;
  auto const parameters = Sharded<2, Offload<OnHost>>::parameter_tier;
  CHECK(optimizer == Tier::host);
  CHECK(parameters == Tier::device);
  using Both = Sharded<3, Offload<OnNvme, OnHost>>;
  CHECK(Both::optimizer_tier == Tier::nvme);
  CHECK(Both::parameter_tier == Tier::host);
  using NoOffload = Sharded<0, Offload<OnDevice, OnDevice>>;
  CHECK(zero::ShardingPolicy<NoOffload>);
}

TEST_CASE("sharding policies are empty: they cost nothing") {
  CHECK(std::is_empty_v<Sharded<0>>);
  CHECK(std::is_empty_v<Sharded<3>>);
}

TEST_CASE("a user's own policy answers the same questions, and each fact implies the one before") {
  CHECK(zero::ShardingPolicy<Own<Miss::nothing>>);
  CHECK(!zero::ShardingPolicy<Own<Miss::kind>>);
  CHECK(!zero::ShardingPolicy<Own<Miss::optimizer>>);
  CHECK(!zero::ShardingPolicy<Own<Miss::gradients>>);
  CHECK(!zero::ShardingPolicy<Own<Miss::parameters>>);
  CHECK(!zero::ShardingPolicy<Own<Miss::tier>>);
  CHECK(!zero::ShardingPolicy<int>);
}
