// SPDX-License-Identifier: Apache-2.0
#pragma once
// One cycle up and down and a decay after it, in DeepSpeed's numbers (the policy of Smith: A
// disciplined approach to neural network hyper-parameters, part 1, 2018, section 4.2). With b
// scheduler calls made before an update, S = up + down, x = b / S and r = up / S: the height is x /
// r up to r, then (x - 1) / (r - 1), and 0 from b = S on, where the decay begins with b - S.

#include <zero/core/argument.hpp>
#include <zero/core/host_device.hpp>

#include <cmath>

namespace zero {

/// A cycle's shape, shared by the rate and the momentum. `down` and `down_stairs` of -1: as `up`.
struct OneCycle {
  Index up = 2000;         ///< updates of the rise (cycle_first_step_size)
  Index down = -1;         ///< updates of the fall (cycle_second_step_size)
  Index up_stairs = 0;     ///< stairs of the rise (cycle_first_stair_count); 0: a line
  Index down_stairs = -1;  ///< stairs of the fall
  /// Updates after the cycle over which a decay goes on by its rate (decay_step_size); 0: no decay,
  /// where DeepSpeed's own default divides by zero.
  Index decay_updates = 0;

  ZERO_HOST_DEVICE Index fall() const { return down < 0 ? up : down; }  ///< updates of the fall
  ZERO_HOST_DEVICE Index length() const { return up + fall(); }         ///< updates of the cycle
  /// 0 at the ends of the cycle and beyond, 1 at its top. @param calls scheduler calls made
  ZERO_HOST_DEVICE double height(Index calls) const {
    if (calls >= length()) return 0;
    bool const rises = calls <= up;
    Index const stairs = rises || down_stairs < 0 ? up_stairs : down_stairs;
    double const way = static_cast<double>(rises ? calls : length() - calls);
    double const whole = static_cast<double>(rises ? up : fall());
    if (stairs > 0) {
      double const n = static_cast<double>(stairs);
      return std::floor(way * n / whole) / n;
    }
    return way / whole;
  }
  /// By how many times `decay_updates` the cycle is over after so many `calls`; 0 in it.
  ZERO_HOST_DEVICE double decays(Index calls) const {
    if (decay_updates == 0 || calls <= length()) return 0;
    return static_cast<double>(calls - length()) / static_cast<double>(decay_updates);
  }
};

/// @param who "LearningRate::one_cycle"
/// @throws InvalidArgument naming the argument, what was found and what was expected
/// @param c the cycle
inline void validate(OneCycle const& c, std::string const& who) {
  auto const count = [&](Index n, Index least, char const* name, char const* expected) {
    require_argument(n >= least && n <= max_count, who + ": " + name, n, expected);
  };
  count(c.up, 1, "up", "1 update to 2^53");
  require_argument(c.down == -1 || (c.down >= 1 && c.down <= max_count), who + ": down", c.down,
                   "1 update to 2^53, or -1 for as many as up");
  count(c.up_stairs, 0, "up_stairs", "a number of stairs, or 0 for a line");
  count(c.down_stairs, -1, "down_stairs", "a number of stairs, 0 for a line, or -1 for as up");
  count(c.decay_updates, 0, "decay_updates", "1 update to 2^53, or 0 for no decay");
}

}  // namespace zero
