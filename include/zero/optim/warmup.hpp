// SPDX-License-Identifier: Apache-2.0
#pragma once
// The warm-up of DeepSpeed's schedules. With c scheduler calls made before an update, i = c - 1,
// and W = max(2, updates): the part of the way that is made is 0 for i < 0, log(i + 1) / log(W) or
// i / W below W, and 1 from W on. So the first two updates stand at the start (log 1 = 0), and a
// warm-up of 1 is one of 2. That is the public formula; LearningRate::shifted() leaves the two out.

#include <zero/core/argument.hpp>
#include <zero/core/host_device.hpp>

#include <cmath>

namespace zero {

/// How a warm-up rises (DeepSpeed's warmup_type).
enum class Ramp {
  logarithmic,  ///< log(i + 1) / log(W): steep first, then flat
  linear        ///< i / W
};

/// A rise from `start` to the optimizer's rate.
struct Warmup {
  Index updates = 1000;  ///< length; 0: none, the rate is whole from the first update on
  double start = 0;      ///< rate at the start, as a multiple of the optimizer's; above 1 it falls
  Ramp ramp = Ramp::logarithmic;  ///< DeepSpeed's default

  /// Updates that are waited through, W above; 0 without a warm-up.
  ZERO_HOST_DEVICE Index length() const {
    if (updates == 0) return 0;
    return updates < 2 ? 2 : updates;
  }
  /// The part of the way, 0 to 1. @param i scheduler calls made, less 1
  ZERO_HOST_DEVICE double progress(Index i) const {
    if (i >= length()) return 1;
    if (i < 0) {
      return updates == 0 ? 1 : 0;
    }
    double const way = static_cast<double>(i);
    double const whole = static_cast<double>(length());
    return ramp == Ramp::linear ? way / whole : std::log(way + 1) / std::log(whole);
  }
};

/// @param who "LearningRate::warmup"
/// @throws InvalidArgument naming the argument, what was found and what was expected
/// @param w the warm-up
inline void validate(Warmup const& w, std::string const& who) {
  require_argument(w.updates >= 0 && w.updates <= max_count, who + ": updates", w.updates,
                   "0 updates to 2^53");
  require_argument(w.start >= 0 && std::isfinite(w.start), who + ": start", w.start,
                   "a finite multiple, 0 or more, of the optimizer's rate");
}

}  // namespace zero
