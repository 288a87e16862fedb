// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bundle of policies, one of each kind at most; what is not given takes the default.

#include <zero/policy/checking.hpp>
#include <zero/policy/precision.hpp>
#include <zero/policy/sharded.hpp>
#include <zero/policy/state.hpp>

namespace zero {

namespace detail {

template <PolicyKind Kind, class Default, class... P>
struct Pick {
  using type = Default;
};
template <PolicyKind Kind, class Default, class First, class... Rest>
struct Pick<Kind, Default, First, Rest...> {
  using type =
      std::conditional_t<First::kind == Kind, First, typename Pick<Kind, Default, Rest...>::type>;
};

}  // namespace detail

/// The compile-time choices of one trainer: Sharded<0>, Fp32, State<float> and CheckedGradients
/// unless the pack says otherwise.
template <class... P>
struct Policies {
  static_assert((Policy<P> && ...),
                "Policies: every argument must be a policy, such as Sharded<3> or Bf16Mixed; "
                "Options come before the policies");
  /// How many policies of a kind the pack has.
  static constexpr int count([[maybe_unused]] PolicyKind kind) {
    return (0 + ... + int{P::kind == kind});
  }
  static_assert(count(PolicyKind::sharding) <= 1,
                "Policies: more than one sharding policy was given");
  static_assert(count(PolicyKind::precision) <= 1, "Policies: more than one precision was given");
  static_assert(count(PolicyKind::state) <= 1, "Policies: more than one State<...> was given");
  static_assert(count(PolicyKind::checking) <= 1,
                "Policies: more than one of CheckedGradients and UncheckedGradients was given");

  /// The one given, or Sharded<0>.
  using Sharding = typename detail::Pick<PolicyKind::sharding, Sharded<0>, P...>::type;
  /// The one given, or Fp32.
  using Precision = typename detail::Pick<PolicyKind::precision, Fp32, P...>::type;
  /// The one given, or State<float>.
  using State = typename detail::Pick<PolicyKind::state, zero::State<float>, P...>::type;
  /// The one given, or CheckedGradients.
  using Checking = typename detail::Pick<PolicyKind::checking, CheckedGradients, P...>::type;
  static_assert(ShardingPolicy<Sharding>,
                "Policies: a sharding policy needs shards_optimizer, shards_gradients, "
                "shards_parameters, each implying the one before it, optimizer_tier and "
                "parameter_tier; see zero/policy/sharded.hpp");
  static_assert(PrecisionPolicy<Precision>,
                "Policies: a precision needs the types Parameter and Gradient, and has_master, "
                "which may be false only where Parameter is float; see zero/policy/precision.hpp");
  static_assert(StatePolicy<State>,
                "Policies: a state policy needs Type, float or bf16; see zero/policy/state.hpp");
  static_assert(CheckingPolicy<Checking>,
                "Policies: a checking policy needs checks, a bool; see zero/policy/checking.hpp");
};

}  // namespace zero
