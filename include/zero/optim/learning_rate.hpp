// SPDX-License-Identifier: Apache-2.0
#pragma once
// Learning-rate schedules: functions of the number of the update alone, so they resume from a step
// number and can be evaluated on the device. Each is a multiple of the optimizer's lr, which is the
// peak (LRRangeTest: the least) rate: what other libraries take as rates, such as warmup_min_lr, is
// here divided by it, and a tensor's own lr_scale follows every schedule.
//
// Formulas: c = updates before the one that is asked for, which is what a scheduler has been
// called. Numbers are those of DeepSpeed (deepspeed/runtime/lr_schedules.py) and transformers
// (optimization.py), odd ones too; docs/schedules.md has them side by side.

#include <zero/optim/one_cycle.hpp>
#include <zero/optim/warmup.hpp>

#include <numbers>

namespace zero {

/// The test of rates by Smith (Cyclical Learning Rates for Training Neural Networks, WACV 2017,
/// section 3.3), DeepSpeed's LRRangeTest.
struct RangeTest {
  Index updates = 2000;    ///< length of a stretch (lr_range_test_step_size)
  double rate = 1;         ///< by which the rate grows a stretch (lr_range_test_step_rate)
  bool staircase = false;  ///< grow at the ends of stretches only
};

/// The rate of update number t (from 1), as a multiple of the optimizer's lr. A value: trivially
/// copyable, evaluated on host and device. Update 0 has the rate of update 1.
class LearningRate {
 public:
  /// Always the optimizer's lr.
  LearningRate() = default;

  /// transformers' get_constant_schedule_with_warmup: c / warmup below warmup, then 1. The first
  /// update has rate 0.
  /// @throws InvalidArgument, as all here: argument, found, expected
  static LearningRate constant_with_warmup(Index warmup) {
    return with_warmup(Kind::constant_with_warmup, "constant_with_warmup", warmup, 0);
  }

  /// transformers' get_linear_schedule_with_warmup: c / warmup below warmup, else (total - c) /
  /// (total - warmup), never below 0: 0 at update total + 1. The first update of a warm-up has rate
  /// 0.
  static LearningRate linear(Index warmup, Index total) {
    return with_warmup(Kind::linear, "linear", warmup, total);
  }

  /// transformers' get_cosine_schedule_with_warmup: c / warmup below warmup, else (1 + cos(2 pi
  /// cycles p)) / 2 with p = (c - warmup) / (total - warmup). Beyond `total` the formula goes on:
  /// half a cycle rises again.
  static LearningRate cosine(Index warmup, Index total, double cycles = 0.5) {
    require_argument(cycles >= 0 && cycles <= 1e9, "LearningRate::cosine: cycles", cycles,
                     "0 to 1e9");
    LearningRate r = with_warmup(Kind::cosine, "cosine", warmup, total);
    r.shape_ = cycles;
    return r;
  }

  /// transformers' get_polynomial_decay_schedule_with_warmup: c / warmup below warmup, then up to
  /// total end + (1 - end) (1 - (c - warmup) / (total - warmup))^power, then end.
  /// @param end lr_end / lr; transformers' default is 1e-7 / lr
  /// @param warmup, total updates
  /// @param power of the fall
  static LearningRate polynomial(Index warmup, Index total, double power = 1, double end = 0) {
    require_argument(power >= 0 && power <= 1e9, "LearningRate::polynomial: power", power,
                     "0 to 1e9");
    require_argument(end >= 0 && end < 1, "LearningRate::polynomial: end", end,
                     "0 to below 1 times the optimizer's rate");
    LearningRate r = with_warmup(Kind::polynomial, "polynomial", warmup, total);
    r.shape_ = power;
    r.end_ = end;
    return r;
  }

  /// DeepSpeed's WarmupLR: `warmup`, then 1. Its first two updates stand at `start`. start =
  /// warmup_min_lr / warmup_max_lr, and lr = warmup_max_lr.
  static LearningRate warmup(Warmup const& warmup) {
    return risen(Kind::warmup, "warmup", warmup, 0);
  }

  /// DeepSpeed's WarmupDecayLR: `warmup` of i = c - 1, then back to `start` along (total - i) /
  /// (total - W), reached at update total + 2. A total within the warm-up falls at its end.
  static LearningRate warmup_decay(Warmup const& warmup, Index total) {
    return risen(Kind::warmup_decay, "warmup_decay", warmup, total);
  }

  /// DeepSpeed's WarmupCosineLR: 0 in the first update, whatever `start` (warmup_min_ratio) is; the
  /// warm-up of i = c - 1; then end + (1 - end) (1 + cos(pi p)) / 2 with p = (i - W + 1) / (total -
  /// W), at most 1. So the peak is not reached.
  /// @param end cos_min_ratio
  /// @param warmup the rise
  /// @param total updates
  static LearningRate warmup_cosine(Warmup const& warmup, Index total, double end = 1e-4) {
    require_argument(end >= 0 && std::isfinite(end), "LearningRate::warmup_cosine: end", end,
                     "a finite multiple, 0 or more, of the optimizer's rate");
    LearningRate r = risen(Kind::warmup_cosine, "warmup_cosine", warmup, total);
    r.end_ = end;
    return r;
  }

  /// DeepSpeed's OneCycle: low + (1 - low) x height in the cycle, then low / (1 + decay_rate x
  /// decays). low = cycle_min_lr / cycle_max_lr, and lr = cycle_max_lr. The momentum's cycle is
  /// CycledMomentum (optim/momentum.hpp).
  static LearningRate one_cycle(OneCycle const& cycle, double low, double decay_rate = 0) {
    validate(cycle, "LearningRate::one_cycle");
    require_argument(low >= 0 && std::isfinite(low), "LearningRate::one_cycle: low", low,
                     "a finite multiple, 0 or more, of the optimizer's rate");
    require_argument(decay_rate >= 0 && std::isfinite(decay_rate),
                     "LearningRate::one_cycle: decay_rate", decay_rate,
                     "a finite rate of 0 or more");
    LearningRate r;
    r.kind_ = Kind::one_cycle;
    r.cycle_ = cycle;
    r.end_ = low;
    r.shape_ = decay_rate;
    return r;
  }

  /// DeepSpeed's LRRangeTest of `test`: 1 + rate x c / updates, the quotient rounded down on a
  /// staircase. lr = lr_range_test_min_lr.
  static LearningRate range_test(RangeTest const& test) {
    require_argument(test.updates >= 1 && test.updates <= max_count,
                     "LearningRate::range_test: updates", test.updates, "1 update to 2^53");
    require_argument(test.rate >= 0 && std::isfinite(test.rate), "LearningRate::range_test: rate",
                     test.rate, "a finite rate of 0 or more");
    LearningRate r;
    r.kind_ = Kind::range_test;
    r.total_ = test.updates;
    r.shape_ = test.rate;
    r.end_ = test.staircase ? 1 : 0;
    return r;
  }

  /// The same curve without its idle start: update 1 stands at the first step above it (warm-ups of
  /// transformers: one update earlier, 1 / warmup; of DeepSpeed: two, 1 / W or log 2 / log W), and
  /// update `total` is the last one above the end, of warmup_cosine the first one at it. A schedule
  /// without a warm-up is as it was.
  LearningRate shifted() const {
    LearningRate r = *this;
    if (r.ahead_ > 0) return r;
    bool const one = kind_ >= Kind::constant_with_warmup && kind_ <= Kind::polynomial;
    bool const two = kind_ >= Kind::warmup && kind_ <= Kind::warmup_cosine;
    if (warmup_.updates == 0 || !(one || two)) return r;
    r.ahead_ = one ? 1 : 2;
    if (total_ > 0) ++r.total_;
    return r;
  }

  /// Of an update, from 1; what multiplies the optimizer's lr.
  ZERO_HOST_DEVICE double factor(Index update) const {
    Index const before = update > 1 ? update - 1 : 0;
    Index const c = (before < max_count ? before : max_count) + ahead_;
    switch (kind_) {
      case Kind::constant:
        return 1;
      case Kind::constant_with_warmup:
      case Kind::linear:
      case Kind::cosine:
      case Kind::polynomial:
        return after_calls(c);
      case Kind::warmup:
      case Kind::warmup_decay:
      case Kind::warmup_cosine:
        return after_warmup(c - 1);
      case Kind::one_cycle:
        return cycled(c);
      case Kind::range_test: {
        double const stretches = static_cast<double>(c) / static_cast<double>(total_);
        return 1 + shape_ * (end_ != 0 ? std::floor(stretches) : stretches);
      }
    }
    return 1;
  }
  /// The rate of an update, rounded once.
  /// @param lr the optimizer's
  /// @param update from 1
  ZERO_HOST_DEVICE float rate(float lr, Index update) const {
    return static_cast<float>(static_cast<double>(lr) * factor(update));
  }

 private:
  enum class Kind {
    constant,
    constant_with_warmup,
    linear,
    cosine,
    polynomial,
    warmup,
    warmup_decay,
    warmup_cosine,
    one_cycle,
    range_test
  };

  static LearningRate with_warmup(Kind kind, std::string const& name, Index warmup, Index total) {
    require_argument(warmup >= 0 && warmup <= max_count, "LearningRate::" + name + ": warmup",
                     warmup, "0 updates to 2^53");
    require_argument(total >= 0 && total <= max_count, "LearningRate::" + name + ": total", total,
                     "0 updates to 2^53");
    LearningRate r;
    r.kind_ = kind;
    r.warmup_.updates = warmup;
    r.total_ = total;
    return r;
  }
  static LearningRate risen(Kind kind, std::string const& name, Warmup const& warmup, Index total) {
    validate(warmup, "LearningRate::" + name);
    require_argument(total >= 0 && total <= max_count, "LearningRate::" + name + ": total", total,
                     "0 updates to 2^53");
    LearningRate r;
    r.kind_ = kind;
    r.warmup_ = warmup;
    r.total_ = total;
    return r;
  }

  /// Of transformers' schedules, after c calls.
  ZERO_HOST_DEVICE double after_calls(Index c) const {
    Index const warmup = warmup_.updates;
    if (c < warmup) return static_cast<double>(c) / static_cast<double>(warmup);
    double const span = static_cast<double>(total_ - warmup > 1 ? total_ - warmup : 1);
    if (kind_ == Kind::linear) return static_cast<double>(total_ - c > 0 ? total_ - c : 0) / span;
    double const way = static_cast<double>(c - warmup) / span;
    if (kind_ == Kind::cosine) {
      double const height = 0.5 * (1 + std::cos(std::numbers::pi * shape_ * 2 * way));
      return height > 0 ? height : 0;
    }
    if (kind_ == Kind::polynomial)
      return c > total_ ? end_ : (1 - end_) * std::pow(1 - way, shape_) + end_;
    return 1;
  }

  /// Of DeepSpeed's warm-ups, at its last_batch_iteration i.
  ZERO_HOST_DEVICE double after_warmup(Index i) const {
    Index const length = warmup_.length();
    double const start = warmup_.start;
    if (i < 0 && length > 0 && kind_ == Kind::warmup_cosine) return 0;
    if (i < length || kind_ == Kind::warmup) return start + (1 - start) * warmup_.progress(i);
    double const span = static_cast<double>(total_ - length > 1 ? total_ - length : 1);
    if (kind_ == Kind::warmup_decay) {
      double const left = static_cast<double>(total_ - i) / span;
      return start + (1 - start) * (left > 1 ? 1 : left > 0 ? left : 0);
    }
    double const way = static_cast<double>(i - length + 1) / span;
    double const height = (1 + std::cos(std::numbers::pi * (way < 1 ? way : 1))) / 2;
    return end_ + (1 - end_) * height;
  }

  ZERO_HOST_DEVICE double cycled(Index c) const {
    if (c <= cycle_.length()) return end_ + (1 - end_) * cycle_.height(c);
    return end_ / (1 + shape_ * cycle_.decays(c));
  }

  Kind kind_ = Kind::constant;
  Index ahead_ = 0;   // by which shifted() is early
  Warmup warmup_{};   // of any warm-up
  Index total_ = 0;   // RangeTest: updates of a stretch
  double shape_ = 0;  // cycles, power, or a rate of decay or growth
  double end_ = 0;    // what a fall ends at, or the foot of a cycle; RangeTest: 1 on a staircase
  OneCycle cycle_{};
};

}  // namespace zero
