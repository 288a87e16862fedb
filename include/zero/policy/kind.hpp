// SPDX-License-Identifier: Apache-2.0
#pragma once
// What makes a type a policy.

#include <concepts>
#include <type_traits>

namespace zero {

/// The questions that policies answer; a trainer takes at most one policy of each kind.
enum class PolicyKind {
  sharding,   ///< who keeps what, and where
  precision,  ///< types of parameters, gradients and master weights
  state,      ///< type of the optimizer's numbers
  checking    ///< whether gradients are looked at
};

/// An empty type with constexpr facts, and `kind`, the question it answers.
template <class P>
concept Policy = std::is_empty_v<P> && std::default_initializable<P> && requires {
  { P::kind } -> std::convertible_to<PolicyKind>;
};

}  // namespace zero
