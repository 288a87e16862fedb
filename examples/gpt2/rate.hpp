// SPDX-License-Identifier: Apache-2.0
#pragma once
// The learning rate of a run and its loss scale, from what the run is told.

#include <zero/optim/learning_rate.hpp>
#include <zero/policy/loss_scale.hpp>

#include <gpt2/settings.hpp>

#include <optional>

namespace gpt2 {

/// The schedule over the steps of the whole run, which warms up over `Settings::warm_up` of them.
/// Of OneCycle that is the rise, and the fall takes the rest; of LRRangeTest it is a stretch.
inline zero::LearningRate rate_of(Settings const& s) {
  using zero::LearningRate;
  RateSettings const& r = s.rate;
  zero::Warmup const warmup{s.warm_up(), r.start.value_or(0),
                            r.ramp.value_or(zero::Ramp::logarithmic)};
  Index const rise = std::max<Index>(s.warm_up(), 1);
  auto const schedule = [&]() -> LearningRate {
    switch (r.scheduler) {
      case Scheduler::constant:
        return {};
      case Scheduler::constant_with_warmup:
        return LearningRate::constant_with_warmup(s.warm_up());
      case Scheduler::linear:
        return LearningRate::linear(s.warm_up(), s.steps);
      case Scheduler::cosine:
        return LearningRate::cosine(s.warm_up(), s.steps, r.cycles.value_or(0.5));
      case Scheduler::polynomial:
        return LearningRate::polynomial(s.warm_up(), s.steps, r.power.value_or(1),
                                        r.end.value_or(0));
      case Scheduler::warmup:
        return LearningRate::warmup(warmup);
      case Scheduler::warmup_decay:
        return LearningRate::warmup_decay(warmup, s.steps);
      case Scheduler::warmup_cosine:
        return LearningRate::warmup_cosine(warmup, s.steps, r.end.value_or(1e-4));
      case Scheduler::one_cycle:
        return LearningRate::one_cycle({.up = rise, .down = std::max<Index>(s.steps - rise, 1)},
                                       r.start.value_or(0.1));
      case Scheduler::range_test:
        return LearningRate::range_test({.updates = rise, .rate = r.growth.value_or(1)});
    }
    return {};
  };
  return r.shifted ? schedule().shifted() : schedule();
}

/// @return nothing where the library's own default is asked for: no flag of a loss scale is given
/// @throws zero::InvalidArgument where numbers do not go together
inline std::optional<zero::LossScale> loss_scale_of(Settings const& s) {
  LossScaleSettings const& l = s.loss_scale;
  if (l.fixed) return zero::LossScale::fixed(*l.fixed);
  if (!l.dynamic && !l.power && !l.window && !l.hysteresis) return std::nullopt;
  zero::DynamicLossScale const d{};
  return zero::LossScale::dynamic({.initial_power = l.power.value_or(d.initial_power),
                                   .window = l.window.value_or(d.window),
                                   .hysteresis = l.hysteresis.value_or(d.hysteresis)});
}

}  // namespace gpt2
