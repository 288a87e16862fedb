// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the loss is multiplied by before the backward pass, so that small gradients survive in a
// type of few exponents (Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.2). A
// run-time option; the state that moves it lies in the Decision (optim/loss_scale.hpp).

#include <zero/core/argument.hpp>
#include <zero/core/host_device.hpp>

#include <cmath>

namespace zero {

/// How a loss scale moves; the defaults are DeepSpeed's of the section fp16.
struct DynamicLossScale {
  int initial_power = 16;  ///< the first scale is 2 to this, -24 to 100
  /// Good steps between two growths (loss_scale_window). As in DeepSpeed the first one since the
  /// start, or since an overflow, takes one more.
  Index window = 1000;
  Index hysteresis = 2;  ///< overflows, the halving one included, until it halves, at least 1
  float minimum = 1;     ///< the scale at which an overflow is an error (min_loss_scale)
  bool consecutive_hysteresis = false;  ///< each good step gives the overflows back, not growth
  /// Steps in a row that were skipped while the loss of a rank was not finite, after which that is
  /// an error; 0: any number. Such steps say nothing of the scale and do not lower it.
  Index max_bad_losses = 16;
};

/// A loss scale that stays or one that moves. A value; 1 unless made by a factory.
class LossScale {
 public:
  /// Beyond this it does not grow: gradients that are not 0 overflow long before. DeepSpeed has no
  /// bound, and gradients of 0 bring it to infinity there.
  static constexpr float largest = 0x1p100f;

  constexpr LossScale() = default;

  /// Moves with overflows and good steps as `d` says: docs/loss_scale.md.
  /// @throws InvalidArgument naming the member, what was found and what was expected
  static LossScale dynamic(DynamicLossScale const& d = {}) {
    require_argument(d.initial_power >= -24 && d.initial_power <= 100,
                     "LossScale::dynamic: initial_power", Index{d.initial_power}, "-24 to 100");
    float const initial = std::ldexp(1.0f, d.initial_power);
    require_argument(d.window >= 1 && d.window <= max_count, "LossScale::dynamic: window", d.window,
                     "1 step to 2^53");
    require_argument(d.hysteresis >= 1 && d.hysteresis <= max_count,
                     "LossScale::dynamic: hysteresis", d.hysteresis, "1 overflow to 2^53");
    require_argument(d.minimum >= 0x1p-24f && d.minimum <= initial, "LossScale::dynamic: minimum",
                     static_cast<double>(d.minimum), "2^-24 to the initial scale");
    require_argument(d.max_bad_losses >= 0, "LossScale::dynamic: max_bad_losses", d.max_bad_losses,
                     "a number of steps, or 0 for any");
    LossScale s;
    s.moves_ = s.given_ = true;
    s.initial_ = initial;
    s.settings_ = d;
    return s;
  }
  /// Stays, and steps that overflow are skipped, any number of them; a loss that stays not finite
  /// is an error as where the scale moves.
  /// @param scale any number, a power of two or not
  /// @param max_bad_losses as DynamicLossScale's
  /// @throws InvalidArgument as dynamic
  static LossScale fixed(float scale, Index max_bad_losses = DynamicLossScale{}.max_bad_losses) {
    require_argument(max_bad_losses >= 0, "LossScale::fixed: max_bad_losses", max_bad_losses,
                     "a number of steps, or 0 for any");
    require_argument(scale >= 0x1p-24f && scale <= largest, "LossScale::fixed",
                     static_cast<double>(scale), "2^-24 to 2^100");
    LossScale s;
    s.given_ = true;
    s.initial_ = scale;
    s.settings_.max_bad_losses = max_bad_losses;
    return s;
  }

  /// It was asked for, by a factory: then every step looks whether losses are finite.
  ZERO_HOST_DEVICE constexpr bool given() const { return given_; }
  ZERO_HOST_DEVICE constexpr bool moves() const { return moves_; }       ///< it is dynamic
  ZERO_HOST_DEVICE constexpr float initial() const { return initial_; }  ///< first scale
  /// Of a scale that moves; of one that stays, max_bad_losses alone.
  ZERO_HOST_DEVICE constexpr DynamicLossScale const& settings() const { return settings_; }

 private:
  bool given_ = false;
  bool moves_ = false;
  float initial_ = 1;
  DynamicLossScale settings_{};
};

}  // namespace zero
