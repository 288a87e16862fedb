// SPDX-License-Identifier: Apache-2.0
// Any bytes as a configuration, as arguments and, where yaml-cpp is there, as a file of accelerate,
// strict and relaxed. What must hold: an answer, each problem on one line, and a configuration
// whose schedule, loss scale and options the library takes.
#include <zero/config.hpp>
#if ZERO_CONFIG_YAML
#include <zero/config/accelerate_file.hpp>
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_problems(std::vector<zero::Problem> const& problems) {
  for (zero::Problem const& p : problems) {
    require(!p.path.empty());
    require(p.text().find('\n') == std::string::npos);
  }
}

zero::TrainingArguments const& arguments() {
  static zero::TrainingArguments const all{.per_device_train_batch_size = 4,
                                           .gradient_accumulation_steps = 2,
                                           .learning_rate = 5e-5,
                                           .max_grad_norm = 1.0,
                                           .bf16 = true,
                                           .warmup_ratio = 0.1,
                                           .max_steps = 100,
                                           .hidden_size = 64};
  return all;
}

zero::Units units() {
  return {{.name = "a", .tensors = {{.name = "a.w", .shape = {100}}}},
          {.name = "b", .tensors = {{.name = "b.w", .shape = {7, 3}}}}};
}

void load(std::string const& text, zero::TrainingArguments const* given, zero::JsonForm form) {
  try {
    zero::ResolvedConfig const config = zero::load_config(zero::ConfigText{text}, given, 4, form);
    require(config.train_batch_size ==
            config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps * 4);
    require(boost::json::parse(zero::json_text(config.json)).is_object());
    // What is resolved can be started.
    zero::ScheduleChoice const schedule = zero::schedule_of(config, 1e-3);
    require(std::isfinite(schedule.lr * schedule.schedule.factor(1)));
    zero::loss_scale_of(config);
    zero::validate(zero::run_options(config, units()).options);
  } catch (zero::ConfigError const& e) {
    require(!e.problems.empty());
    check_problems(e.problems);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  for (zero::JsonForm form : {zero::JsonForm::strict, zero::JsonForm::relaxed}) {
    load(text, nullptr, form);
    load(text, &arguments(), form);
    try {
      zero::load_arguments(zero::ConfigText{text}, form);
    } catch (zero::ConfigError const& e) {
      check_problems(e.problems);
    }
  }
#if ZERO_CONFIG_YAML
  zero::Findings findings;
  if (auto const object = zero::read_yaml(text, findings))
    zero::read_accelerate(*object, "", findings);
  check_problems(findings.problems());
#endif
  return 0;
}
