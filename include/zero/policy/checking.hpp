// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a step looks at its gradients before it moves anything.

#include <zero/policy/kind.hpp>

namespace zero {

/// The norm of the whole gradient is known before the first update; what is not finite is skipped
/// on every rank alike, and ranks that did not do the same are found.
struct CheckedGradients {
  static constexpr PolicyKind kind = PolicyKind::checking;  ///< what it answers
  static constexpr bool checks = true;                      ///< the fact
};

/// Nothing is looked at: no norm, no exchange of norms, no clipping, no loss scale, and a gradient
/// that is not finite reaches the state. The update of a unit waits for its own reduction, that of
/// its group where Options::bucket makes groups, and runs while the next one is reduced, below the
/// device too; where the optimizer has trust ratios, every tensor's norms are measured first, and
/// all updates wait for all reductions. Bits are those of CheckedGradients without clipping.
struct UncheckedGradients {
  static constexpr PolicyKind kind = PolicyKind::checking;  ///< what it answers
  static constexpr bool checks = false;                     ///< the fact
};

/// What the library asks of a policy that says whether gradients are checked.
template <class P>
concept CheckingPolicy = Policy<P> && requires {
  requires P::kind == PolicyKind::checking;
  { P::checks } -> std::convertible_to<bool>;
};

static_assert(CheckingPolicy<CheckedGradients> && CheckingPolicy<UncheckedGradients>);

}  // namespace zero
