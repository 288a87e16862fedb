// SPDX-License-Identifier: Apache-2.0
#pragma once
// Learning-rate schedules: functions of the number of the update alone, so they resume from a step
// number and can be evaluated on the device.

#include <zero/core/host_device.hpp>
#include <zero/core/size.hpp>

#include <string>

namespace zero {

/// The rate of update number t (from 1), as a multiple of the optimizer's lr.
class LearningRate {
 public:
  /// Always the optimizer's lr.
  LearningRate() = default;

  /// Rises over `warmup` updates, then falls along a line to 0 at update `total` + 1: with s = t -
  /// 1, s / warmup below warmup, else (total - s) / (total - warmup), never below 0. The numbers of
  /// transformers' get_linear_schedule_with_warmup; its first update with a warm-up has rate 0.
  /// @throws InvalidArgument for a negative count
  static LearningRate linear(Index warmup, Index total) {
    if (warmup < 0 || total < 0) {
      throw InvalidArgument("LearningRate::linear: negative count, warm-up " +
                            std::to_string(warmup) + ", total " + std::to_string(total));
    }
    LearningRate r;
    r.kind_ = Kind::linear;
    r.warmup_ = warmup;
    r.total_ = total;
    return r;
  }

  /// Of an update, from 1; what multiplies the optimizer's lr.
  ZERO_HOST_DEVICE double factor(Index update) const {
    if (kind_ == Kind::constant) return 1;
    Index const s = update > 0 ? update - 1 : 0;
    if (s < warmup_) return static_cast<double>(s) / static_cast<double>(warmup_);
    Index const span = total_ - warmup_ > 1 ? total_ - warmup_ : 1;
    Index const left = total_ - s > 0 ? total_ - s : 0;
    return static_cast<double>(left) / static_cast<double>(span);
  }

 private:
  enum class Kind { constant, linear };
  Kind kind_ = Kind::constant;
  Index warmup_ = 0;
  Index total_ = 0;
};

}  // namespace zero
