// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state machine of a loss scale that moves, in DeepSpeed's numbers (deepspeed/runtime/fp16/
// loss_scaler.py, DynamicLossScaler), as a function of host and device. Unlike DeepSpeed's, a step
// is unscaled by the scale that its backward used: a step after which the scale grows has the bits
// of one after which it does not.

#include <zero/policy/loss_scale.hpp>

namespace zero {

/// What a moving scale remembers.
struct LossScaleState {
  Index steps = 0;           ///< steps that said something of the scale, so far
  Index last_overflow = -1;  ///< the number of the last one that overflowed, from 0
  Index hysteresis = 1;      ///< overflows left, the halving one included

  /// Before the first step of a run whose scale is `option`.
  ZERO_HOST_DEVICE static LossScaleState first(LossScale const& option) {
    return {0, -1, option.settings().hysteresis};
  }

  /// Moves `scale` after a step, as `option` says: an overflow takes one from the hysteresis and,
  /// where it was the last one, halves the scale, down to the minimum; a good step doubles it
  /// whenever the good steps since the one after the last overflow are a multiple of the window, so
  /// the first growth takes window + 1 of them.
  /// @return false where an overflow came at the minimum: nothing is left to lower
  ZERO_HOST_DEVICE bool advance(float& scale, LossScale const& option, bool overflow) {
    if (!option.moves()) return true;
    DynamicLossScale const& d = option.settings();
    bool lowers = true;
    if (overflow && hysteresis > 1) {
      --hysteresis;
    } else if (overflow && scale <= d.minimum) {
      lowers = false;
    } else if (overflow) {
      scale = scale / 2 > d.minimum ? scale / 2 : d.minimum;
    }
    if (overflow && lowers) last_overflow = steps;
    if (!overflow) {
      Index const stable = steps - last_overflow - 1;
      bool const grows = stable > 0 && stable % d.window == 0;
      if (d.consecutive_hysteresis || grows) hysteresis = d.hysteresis;
      if (grows && scale <= LossScale::largest / 2) scale *= 2;
    }
    ++steps;
    return lowers;
  }
};

}  // namespace zero
