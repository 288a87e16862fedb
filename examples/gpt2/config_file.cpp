// SPDX-License-Identifier: Apache-2.0
// What a DeepSpeed configuration decides of a run.

#include <gpt2/config_file.hpp>
#include <gpt2/flags.hpp>

#if GPT2_JSON

#include <zero/config.hpp>

#include <gpt2/optimizer.hpp>
#include <gpt2/units.hpp>

#include <algorithm>

namespace gpt2 {

namespace {

using Menu = zero::Menu<zero::Sharded<0>, zero::Sharded<1>, zero::Sharded<2>, zero::Sharded<3>,
                        zero::Fp32, zero::Bf16Mixed, zero::Fp16Mixed, zero::AdamW, zero::Adam,
                        zero::Lamb, zero::Lion, zero::Adagrad, zero::Sgd>;

void refuse_beside(Settings const& s, std::initializer_list<std::string_view> flags) {
  for (std::string_view flag : flags) {
    if (std::ranges::find(s.given, flag) != s.given.end())
      throw WrongFlag("gpt2: " + std::string(flag) + " beside a configuration, which decides it");
  }
}

/// A flag and an argument of one meaning: either, or both alike.
template <class T, class U>
void meet(Settings const& s, std::string_view flag, T& value, std::optional<U> const& argument,
          char const* name) {
  if (!argument) return;
  bool const given = std::ranges::find(s.given, flag) != s.given.end();
  if (given && value != static_cast<T>(*argument))
    throw WrongFlag("gpt2: " + std::string(flag) + " " + std::to_string(value) +
                    ", but the arguments say " + name + " " + std::to_string(*argument));
  value = static_cast<T>(*argument);
}

std::optional<zero::TrainingArguments> read_arguments(Settings& s,
                                                      std::vector<std::string>& warnings) {
  if (s.arguments.empty()) return std::nullopt;
  zero::LoadedArguments loaded = zero::load_arguments(zero::ConfigFile{s.arguments});
  warnings = std::move(loaded.warnings);
  zero::TrainingArguments& a = loaded.arguments;
  meet(s, "--seed", s.seed, a.seed, "seed");
  std::optional<Index> const steps = a.max_steps.value_or(-1) > 0 ? a.max_steps : std::nullopt;
  meet(s, "--steps", s.steps, steps, "max_steps");
  if (!steps && !a.num_train_epochs) a.max_steps = s.steps;
  if (a.hidden_size && *a.hidden_size != s.size.width)
    throw WrongFlag("gpt2: --width " + std::to_string(s.size.width) +
                    ", but the arguments say hidden_size " + std::to_string(*a.hidden_size));
  a.hidden_size = s.size.width;
  return a;
}

/// This program's own optimizer, under the configuration's schedule where it has one.
decltype(Configured::optimizer) own_optimizer(Settings const& s,
                                              zero::ResolvedConfig const& config) {
  decltype(Configured::optimizer) own;
  with_optimizer(s, [&](auto optimizer) {
    if (config.scheduler) {
      zero::ScheduleChoice const choice =
          zero::schedule_of(config, static_cast<double>(optimizer.lr));
      if (choice.momentum)
        throw zero::ConfigError({{"scheduler.params.cycle_momentum", "true",
                                  "false: this program compiles no momentum that cycles"}});
      optimizer.lr = static_cast<float>(choice.lr);
      optimizer.schedule = choice.schedule;
    }
    own = optimizer;
  });
  return own;
}

}  // namespace

std::vector<std::string> apply_config(Settings& s, std::optional<std::string> const& accelerate) {
  std::vector<std::string> warnings;
  auto const arguments = read_arguments(s, warnings);
  std::string const own = !s.config.empty() ? s.config
                          : arguments       ? arguments->deepspeed.value_or("")
                                            : "";
  std::string const path = accelerate.value_or(own);
  if (accelerate && !own.empty() && own != path)
    warnings.push_back(
        own + " does not count beside what accelerate names in ACCELERATE_DEEPSPEED_CONFIG_FILE, " +
        path);
  if (path.empty())
    throw WrongFlag("gpt2: --arguments wants --config, or a path in its argument deepspeed");
  refuse_beside(s, {"--stage", "--batch", "--accumulation", "--precision", "--prefetch", "--bucket",
                    "--loss-scale", "--loss-scale-power", "--loss-scale-window", "--hysteresis"});
  zero::ResolvedConfig const config =
      zero::load_config(zero::ConfigFile{path}, arguments ? &*arguments : nullptr, s.ranks);
  warnings.insert(warnings.end(), config.warnings.begin(), config.warnings.end());
  if (config.optimizer) refuse_beside(s, {"--lr", "--optimizer"});
  if (config.optimizer || config.scheduler)
    refuse_beside(s, {"--scheduler", "--warmup", "--warmup-type", "--start", "--end", "--power",
                      "--cycles", "--growth", "--shifted"});
  if (config.num_updates && !arguments->max_steps) s.steps = *config.num_updates;
  s.batch = config.train_micro_batch_size_per_gpu;
  s.accumulation = config.gradient_accumulation_steps;
  s.stage = config.stage;
  s.precision = config.precision == zero::PrecisionChoice::fp32   ? Precision::fp32
                : config.precision == zero::PrecisionChoice::bf16 ? Precision::bf16
                                                                  : Precision::fp16;
  zero::RunOptions run = zero::run_options(config, units_of(s.size));
  warnings.insert(warnings.end(), run.warnings.begin(), run.warnings.end());
  run.options.reduction = s.reduction;
  run.options.seed = s.seed;
  Configured configured{run.options, config.gather_16bit_weights_on_model_save, {}};
  if (config.optimizer) {
    zero::dispatch<Menu>(
        config, [&](auto, auto, auto const& optimizer) { configured.optimizer = optimizer; });
  } else {
    configured.optimizer = own_optimizer(s, config);
    std::visit(
        [&](auto const& its) { zero::dispatch<Menu>(config, its, [](auto, auto, auto const&) {}); },
        configured.optimizer);
  }
  s.configured = configured;
  return warnings;
}

}  // namespace gpt2

#else

namespace gpt2 {

std::vector<std::string> apply_config(Settings&, std::optional<std::string> const&) {
  throw WrongFlag(
      "gpt2: --config and --arguments: this program was built without Boost.JSON (package "
      "libboost-json-dev)");
}

}  // namespace gpt2

#endif
