// SPDX-License-Identifier: Apache-2.0
#pragma once
// zero-config schedule and zero-config loss-scale: what a configuration's numbers do over time.

#include <zero/config/run_options.hpp>
#include <zero/config/schedule_choice.hpp>
#include <zero/optim/loss_scale.hpp>

#include <zero_config/load.hpp>

#include <cmath>
#include <cstdio>

namespace zero_config {

/// 17 significant digits, which read back as the same double.
inline std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

/// Prints step, lr, beta1 and beta2: what update number `step`, from 1, uses. A dash stands where
/// the optimizer has no betas, or is the program's own.
inline int schedule(std::span<char const* const> arguments) {
  CommandLine const line("schedule", arguments, true, loading_options({{"steps", "N"}}));
  Index const steps = line.required("steps", 0, 100'000'000);
  zero::ResolvedConfig const config = load(line);
  zero::ScheduleChoice const choice = zero::schedule_of(config);
  std::string beta1 = "-";
  std::string beta2 = "-";
  bool const has_betas = config.optimizer && config.optimizer->has("betas");
  if (has_betas) {
    boost::json::array const& betas = config.optimizer->params.at("betas").as_array();
    beta1 = exact(betas[0].as_double());
    beta2 = exact(betas[1].as_double());
  }
  bool const cycles = choice.momentum && (has_betas || !config.optimizer);
  std::cout << "step\tlr\tbeta1\tbeta2\n";
  for (Index t = 1; t <= steps; ++t) {
    std::cout << t << "\t" << exact(choice.lr * choice.schedule.factor(t)) << "\t"
              << (cycles ? exact(choice.momentum->value(t)) : beta1) << "\t"
              << (cycles ? exact(zero::cycled_beta2) : beta2) << "\n";
  }
  return 0;
}

/// Prints step, used, action, after: the scale of each step's backward, what became of the step,
/// and the scale after it. An overflow at the minimum ends the table with the action `error`.
inline int loss_scale(std::span<char const* const> arguments) {
  CommandLine const line("loss-scale", arguments, true,
                         loading_options({{"overflows", "0,0,1,..."}}));
  if (!line.has("overflows")) line.refuse("wants --overflows");
  std::string const flags = line.text("overflows");
  if (flags.empty()) line.refuse("wants 0 and 1 in --overflows");
  std::vector<bool> overflows;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    bool const digit = i % 2 == 0;
    if (digit ? (flags[i] != '0' && flags[i] != '1') : flags[i] != ',' || i + 1 == flags.size())
      line.refuse("--overflows wants 0 and 1 with commas between, not '" + flags + "'");
    if (digit) overflows.push_back(flags[i] == '1');
  }
  zero::ResolvedConfig const config = load(line);
  if (config.precision != zero::PrecisionChoice::fp16)
    throw zero::ConfigError({{"precision", std::string(zero::precision_name(config.precision)),
                              "fp16, which alone scales the loss"}});
  zero::LossScale const option = zero::loss_scale_of(config);
  zero::LossScaleState state = zero::LossScaleState::first(option);
  float scale = option.initial();
  std::cout << "step\tused\taction\tafter\n";
  for (std::size_t step = 0; step < overflows.size(); ++step) {
    float const used = scale;
    Index const hysteresis = state.hysteresis;
    bool const goes_on = state.advance(scale, option, overflows[step]);
    char const* action = "step";
    if (!goes_on) {
      action = "error";
    } else if (overflows[step] && !option.moves()) {
      action = "skip";
    } else if (overflows[step]) {
      action = state.hysteresis < hysteresis ? "skip+hysteresis" : "skip+halve";
    } else if (scale > used) {
      action = "step+grow";
    }
    std::cout << step << "\t" << exact(double{used}) << "\t" << action << "\t"
              << exact(double{scale}) << "\n";
    if (goes_on) continue;
    std::cout << std::flush;
    throw zero::ConfigError(
        {{"fp16.min_loss_scale",
          "an overflow at the scale " + exact(double{used}) + " in step " + std::to_string(step),
          "finite gradients at the minimum"}});
  }
  return 0;
}

}  // namespace zero_config
