// SPDX-License-Identifier: Apache-2.0
#include <zero/policy/policies.hpp>
#include <zero/step/shares.hpp>

#include <doctest/doctest.h>

#include <concepts>

namespace {

using zero::Bf16Mixed;
using zero::Fp32;
using zero::Policies;
using zero::Sharded;

template <class P, class S, class R>
constexpr bool picks =
    std::same_as<typename P::Sharding, S>&& std::same_as<typename P::Precision, R>;

/// Facts that no Sharded has: a user's own way to say stage 2.
struct Own {
  static constexpr zero::PolicyKind kind = zero::PolicyKind::sharding;
  static constexpr bool shards_optimizer = true;
  static constexpr bool shards_gradients = true;
  static constexpr bool shards_parameters = false;
  static constexpr zero::Tier optimizer_tier = zero::Tier::device;
  static constexpr zero::Tier parameter_tier = zero::Tier::device;
};

}  // namespace

TEST_CASE("what is not given is stage 0 in float") {
  auto const none = picks<Policies<>, Sharded<0>, Fp32>;
  auto const sharding = picks<Policies<Sharded<2>>, Sharded<2>, Fp32>;
  auto const precision = picks<Policies<Bf16Mixed>, Sharded<0>, Bf16Mixed>;
  CHECK(none);
  CHECK(sharding);
  CHECK(precision);
}

TEST_CASE("policies may be given in any order") {
  auto const one = picks<Policies<Sharded<3>, Bf16Mixed>, Sharded<3>, Bf16Mixed>;
  auto const other = picks<Policies<Bf16Mixed, Sharded<3>>, Sharded<3>, Bf16Mixed>;
  CHECK(one);
  CHECK(other);
}

TEST_CASE("a user's own policy is picked by its kind") {
  auto const own = picks<Policies<Bf16Mixed, Own>, Own, Bf16Mixed>;
  CHECK(own);
}

TEST_CASE("states are float unless a State says otherwise") {
  using zero::bf16, zero::State;
  auto const none = std::same_as<Policies<Sharded<1>>::State, State<float>>;
  auto const given = std::same_as<Policies<State<bf16>, Sharded<1>>::State, State<bf16>>;
  CHECK(none);
  CHECK(given);
  CHECK(zero::Facts::of<Policies<>>(2).state_bytes == 4);
  CHECK(zero::Facts::of<Policies<State<bf16>>>(2).state_bytes == 2);
  CHECK(zero::Facts::of<Policies<Bf16Mixed>>(2).master_bytes == 4);
  CHECK(zero::Facts::of<Policies<zero::Bf16Split>>(2).master_bytes == 2);
  CHECK(!zero::Facts::of<Policies<>>(2).has_trust_ratio);
  CHECK(zero::Facts::of<Policies<>>(2, true).has_trust_ratio);
}

TEST_CASE("facts as values are those of the types") {
  constexpr auto facts = zero::Facts::of<Policies<Own, Bf16Mixed>>(3);
  CHECK(facts.stage() == 2);
  CHECK(facts.parameter_bytes == 2);
  CHECK(facts.gradient_bytes == 2);
  CHECK(facts.has_master);
  CHECK(facts.num_states == 3);
  CHECK(zero::Facts::of<Policies<>>(0).stage() == 0);
  CHECK(zero::Facts::of<Policies<Sharded<3>>>(0).stage() == 3);
  CHECK(zero::Facts::of<Policies<>>(0).parameter_bytes == 4);
  CHECK(!zero::Facts::of<Policies<>>(0).has_master);
}

TEST_CASE("policies that differ in any fact have different hashes") {
  auto const hash = []<class P>(P, zero::Index states) {
    return zero::Facts::of<P>(states).hash();
  };
  std::uint64_t const hashes[] = {hash(Policies<>{}, 2),
                                  hash(Policies<Sharded<1>>{}, 2),
                                  hash(Policies<Sharded<2>>{}, 2),
                                  hash(Policies<Sharded<3>>{}, 2),
                                  hash(Policies<Bf16Mixed>{}, 2),
                                  hash(Policies<>{}, 1),
                                  hash(Policies<zero::Fp16Mixed>{}, 2),
                                  hash(Policies<zero::Bf16Split>{}, 2),
                                  hash(Policies<zero::State<zero::bf16>>{}, 2),
                                  zero::Facts::of<Policies<>>(2, true).hash()};
  for (std::size_t i = 0; i < std::size(hashes); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK(hashes[i] != hashes[j]);
  }
  CHECK(hash(Policies<Own>{}, 2) == hash(Policies<Sharded<2>>{}, 2));
}
