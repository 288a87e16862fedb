// SPDX-License-Identifier: Apache-2.0
#include <zero/optim/optimizer.hpp>

#include <archetypes/device.hpp>
#include <archetypes/optimizer.hpp>
#include <doctest/doctest.h>

#include <type_traits>

namespace {

using zero::Index;

/// A thing by which a candidate misses the concept.
enum class Miss {
  nothing,
  copy,
  states,
  rate_type,
  rate_const,
  constants,
  direction,
  direction_type
};

template <Miss miss>
struct States {
  static constexpr int num_states = 1;
};
template <>
struct States<Miss::states> {};

/// An optimizer that has everything but one thing.
template <Miss miss>
struct Candidate : States<miss> {
  struct Constants {};
  Candidate(Candidate const&) requires(miss != Miss::copy) = default;
  Candidate(Candidate const&) requires(miss == Miss::copy);
  std::conditional_t<miss == Miss::rate_type, double, float> learning_rate(Index) const
      requires(miss != Miss::rate_const);
  float learning_rate(Index) requires(miss == Miss::rate_const);
  Constants constants(Index) const requires(miss != Miss::constants);
  std::conditional_t<miss == Miss::direction_type, double, float> direction(Constants, float, float,
                                                                            float*, float) const
      requires(miss != Miss::direction);
};

/// An optimizer with a trust ratio, but for one thing.
struct Trusts : archetype::Optimizer {
  float trust_ratio(double, double) const;
};
struct TrustsInDouble : archetype::Optimizer {
  double trust_ratio(double, double) const;
};
struct TrustsNotConst : archetype::Optimizer {
  float trust_ratio(double, double);
};
struct TrustsOneNorm : archetype::Optimizer {
  float trust_ratio(double) const;
};
struct TrustsAlone {
  float trust_ratio(double, double) const;
};

}  // namespace

TEST_CASE("a trust ratio is one float from two norms, of an optimizer") {
  CHECK(zero::HasTrustRatio<Trusts>);
  CHECK(!zero::HasTrustRatio<archetype::Optimizer>);
  CHECK(!zero::HasTrustRatio<TrustsInDouble>);
  CHECK(!zero::HasTrustRatio<TrustsNotConst>);
  CHECK(!zero::HasTrustRatio<TrustsOneNorm>);
  CHECK(!zero::HasTrustRatio<TrustsAlone>);
}

TEST_CASE("a device that cannot measure norms updates what has no trust ratio, and no other") {
  using Single = archetype::Device<float, float>;
  auto const plain = zero::CanUpdate<Single, archetype::Optimizer, float, float>;
  auto const trusts = zero::CanUpdate<Single, Trusts, float, float>;
  CHECK(plain);
  CHECK(!trusts);
}

TEST_CASE("an optimizer that has everything but one thing is no optimizer") {
  CHECK(zero::Optimizer<archetype::Optimizer>);
  CHECK(zero::Optimizer<Candidate<Miss::nothing>>);
  CHECK(!zero::Optimizer<Candidate<Miss::copy>>);
  CHECK(!zero::Optimizer<Candidate<Miss::states>>);
  CHECK(!zero::Optimizer<Candidate<Miss::rate_type>>);
  CHECK(!zero::Optimizer<Candidate<Miss::rate_const>>);
  CHECK(!zero::Optimizer<Candidate<Miss::constants>>);
  CHECK(!zero::Optimizer<Candidate<Miss::direction>>);
  CHECK(!zero::Optimizer<Candidate<Miss::direction_type>>);
  CHECK(!zero::Optimizer<int>);
}

TEST_CASE("a device updates the precision that it has work for, and no other") {
  using zero::bf16, zero::CanUpdate;
  using Single = archetype::Device<float, float>;
  using Half = archetype::Device<bf16, bf16>;
  auto const single = CanUpdate<Single, archetype::Optimizer, float, float>;
  auto const half = CanUpdate<Half, archetype::Optimizer, bf16, bf16>;
  auto const other = CanUpdate<Single, archetype::Optimizer, bf16, bf16>;
  auto const bare = CanUpdate<archetype::BareDevice, archetype::Optimizer, float, float>;
  CHECK(single);
  CHECK(half);
  CHECK(!other);
  CHECK(!bare);
}
