// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast steps have come lately. Past steps fade: each weighs exp(-age / memory), where the
// memory is a quarter of the run so far and at least 20 s. So the slow first steps are soon
// forgotten, and an evaluation now and then, which is time without a step, does not make the
// estimate jump.

#include <algorithm>
#include <cmath>
#include <limits>

namespace zero {

/// Faded sums of time, steps and tokens; their ratios are the estimates.
class Pace {
 public:
  /// Notes that `steps` steps took `seconds` at `tokens_per_s`.
  void add(double seconds, double steps, double tokens_per_s) {
    seconds = std::max(seconds, 0.0);
    run_seconds_ += seconds;
    double const kept = std::exp(-seconds / std::max(20.0, run_seconds_ / 4));
    seconds_ = kept * seconds_ + seconds;
    steps_ = kept * steps_ + steps;
    if (!std::isfinite(tokens_per_s)) return;
    rated_seconds_ = kept * rated_seconds_ + seconds;
    tokens_ = kept * tokens_ + seconds * tokens_per_s;
  }

  /// Seconds a step; NaN before the first step.
  double seconds_per_step() const { return ratio(seconds_, steps_); }

  /// Tokens per second; NaN while none is known.
  double tokens_per_s() const { return ratio(tokens_, rated_seconds_); }

 private:
  static double ratio(double a, double b) {
    return b > 0 ? a / b : std::numeric_limits<double>::quiet_NaN();
  }

  double run_seconds_ = 0, seconds_ = 0, steps_ = 0, rated_seconds_ = 0, tokens_ = 0;
};

}  // namespace zero
