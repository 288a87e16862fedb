// SPDX-License-Identifier: Apache-2.0
#pragma once
// The words for a decision after which training cannot go on.

#include <zero/optim/decision.hpp>

#include <string>

namespace zero {

/// Does nothing unless the decision has `failed`.
/// @param step that was decided
/// @param place_of (Index unit) -> the words for where backward met it, as backward_place() has
///   them; called where the decision has failed
/// @throws NotFinite, the same on every rank: the step, the scale, the unit in which backward first
///   met what is not finite; or the rank whose loss was not finite
/// @param d of the last step
template <class PlaceOf>
void check_finite(Decision const& d, Index step, PlaceOf const& place_of) {
  if (d.failed == 0) return;
  auto const number = [](float x) { return detail::argument_text(static_cast<double>(x)); };
  std::string const place = place_of(d.bad_unit);
  std::string const counted =
      std::to_string(d.skipped) + " steps skipped, " + std::to_string(d.updates) + " made";
  if (d.cause == SkipCause::loss) {
    throw NotFinite("step " + std::to_string(step) + ": the loss of rank " +
                    std::to_string(d.bad_loss_rank) + " is not finite, in " +
                    std::to_string(d.bad_losses) + " steps in a row by now, at a loss scale of " +
                    number(d.used_scale) +
                    ". It arose in the forward pass, which no loss scale changes; backward met it "
                    "in " +
                    place + " first (" + counted + ")");
  }
  throw NotFinite("step " + std::to_string(step) +
                  ": a gradient is not finite at a loss scale of " + number(d.used_scale) +
                  ", its minimum, while every loss is finite. It arose in the backward pass, in " +
                  place + " first (" + counted + ")");
}

}  // namespace zero
