// SPDX-License-Identifier: Apache-2.0
#pragma once
// The schedule of a configuration as the library's: DeepSpeed's and transformers' numbers become a
// rate and a LearningRate, which is a multiple of it.

#include <zero/config/json_text.hpp>
#include <zero/config/problem.hpp>
#include <zero/config/resolved.hpp>
#include <zero/optim/learning_rate.hpp>
#include <zero/optim/momentum.hpp>

#include <optional>
#include <string>

namespace zero {

/// What an optimizer needs of a schedule: lr x schedule.factor(t) is the rate of update t.
struct ScheduleChoice {
  double lr = 0;                       ///< the peak, of which the schedule is a multiple
  LearningRate schedule{};             ///< by the number of the update
  std::optional<Momentum> momentum{};  ///< OneCycle's, for optimizers with betas
};

/// beta2 beside a momentum that cycles, as DeepSpeed sets it.
inline constexpr double cycled_beta2 = 0.99;

namespace detail {

inline OneCycle one_cycle_of(MenuChoice const& s) {
  OneCycle c;
  c.up = s.whole("cycle_first_step_size");
  if (s.has("cycle_second_step_size")) c.down = s.whole("cycle_second_step_size");
  c.up_stairs = s.whole("cycle_first_stair_count");
  if (s.has("cycle_second_stair_count")) c.down_stairs = s.whole("cycle_second_stair_count");
  c.decay_updates = s.whole("decay_step_size");
  return c;
}

inline double part_of(double value, double whole, char const* key) {
  if (whole > 0) return value / whole;
  if (value == 0) return 0;
  throw ConfigError({{key, detail::json_number(value), "0, since the peak of the rate is 0"}});
}

}  // namespace detail

/// The schedule of a configuration; a constant rate where it has none.
/// @param config resolved
/// @param lr of the optimizer, where the configuration does not say it
/// @throws ConfigError where no rate is known; InvalidArgument as LearningRate
inline ScheduleChoice schedule_of(ResolvedConfig const& config, std::optional<double> lr = {}) {
  ScheduleChoice choice;
  if (config.optimizer) lr = config.optimizer->number("lr");
  auto const rate = [&] {
    if (!lr)
      throw ConfigError({{"optimizer.params.lr", "nothing",
                          "a rate: an optimizer section, or learning_rate in the arguments"}});
    return *lr;
  };
  if (!config.scheduler) {
    choice.lr = rate();
    return choice;
  }
  MenuChoice const& s = *config.scheduler;
  std::string const& type = s.type;
  if (type == "WarmupLR" || type == "WarmupDecayLR") {
    choice.lr = s.has("warmup_max_lr") ? s.number("warmup_max_lr") : rate();
    Warmup const warmup{.updates = s.whole("warmup_num_steps"),
                        .start = detail::part_of(s.number("warmup_min_lr"), choice.lr,
                                                 "scheduler.params.warmup_min_lr"),
                        .ramp = s.text("warmup_type") == "log" ? Ramp::logarithmic : Ramp::linear};
    choice.schedule = type == "WarmupLR"
                          ? LearningRate::warmup(warmup)
                          : LearningRate::warmup_decay(warmup, s.whole("total_num_steps"));
  } else if (type == "WarmupCosineLR") {
    choice.lr = rate();
    Warmup const warmup{.updates = s.whole("warmup_num_steps"),
                        .start = s.number("warmup_min_ratio"),
                        .ramp = s.text("warmup_type") == "log" ? Ramp::logarithmic : Ramp::linear};
    choice.schedule =
        LearningRate::warmup_cosine(warmup, s.whole("total_num_steps"), s.number("cos_min_ratio"));
  } else if (type == "OneCycle") {
    choice.lr = s.number("cycle_max_lr");
    OneCycle const cycle = detail::one_cycle_of(s);
    choice.schedule = LearningRate::one_cycle(
        cycle,
        detail::part_of(s.number("cycle_min_lr"), choice.lr, "scheduler.params.cycle_min_lr"),
        s.number("decay_lr_rate"));
    if (s.flag("cycle_momentum"))
      choice.momentum = Momentum::one_cycle(cycle, s.number("cycle_min_mom"),
                                            s.number("cycle_max_mom"), s.number("decay_mom_rate"));
  } else if (type == "LRRangeTest") {
    choice.lr = s.number("lr_range_test_min_lr");
    choice.schedule = LearningRate::range_test({.updates = s.whole("lr_range_test_step_size"),
                                                .rate = s.number("lr_range_test_step_rate"),
                                                .staircase = s.flag("lr_range_test_staircase")});
  } else {  // transformers'
    choice.lr = rate();
    Index const warmup = s.has("num_warmup_steps") ? s.whole("num_warmup_steps") : 0;
    Index const total = s.has("num_training_steps") ? s.whole("num_training_steps") : 0;
    if (type == "linear") choice.schedule = LearningRate::linear(warmup, total);
    if (type == "cosine")
      choice.schedule = LearningRate::cosine(warmup, total, s.number("num_cycles"));
    if (type == "polynomial")
      choice.schedule = LearningRate::polynomial(
          warmup, total, s.number("power"),
          detail::part_of(s.number("lr_end"), choice.lr, "arguments.lr_scheduler_kwargs.lr_end"));
    if (type == "constant_with_warmup")
      choice.schedule = LearningRate::constant_with_warmup(warmup);
  }
  return choice;
}

}  // namespace zero
