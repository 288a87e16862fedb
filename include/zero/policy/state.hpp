// SPDX-License-Identifier: Apache-2.0
#pragma once
// The menu of types in which an optimizer's numbers are kept between updates. They are computed in
// float either way.

#include <zero/core/dtype.hpp>
#include <zero/policy/kind.hpp>

namespace zero {

/// The optimizer's numbers are kept as T: float, or bf16, which takes half of the memory and is
/// rounded by chance with noise keyed by (Options::seed, update, tensor, element, state): see
/// core/stochastic.hpp. fp16 is refused: it ends at 65504 and below 6e-8, where second moments
/// live.
template <class T>
struct State {
  static_assert(std::same_as<T, float> || std::same_as<T, bf16>,
                "State<T>: optimizer state is kept as float or as bf16");
  static constexpr PolicyKind kind = PolicyKind::state;  ///< what it answers
  using Type = T;                                        ///< of the optimizer's numbers
};

/// What the library asks of a state policy.
template <class P>
concept StatePolicy = Policy<P> && requires {
  requires P::kind == PolicyKind::state;
  requires std::same_as<typename P::Type, float> || std::same_as<typename P::Type, bf16>;
};

static_assert(StatePolicy<State<float>> && StatePolicy<State<bf16>>);

}  // namespace zero
