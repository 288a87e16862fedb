// SPDX-License-Identifier: Apache-2.0
// gpt2: trains a GPT-2 on text at any ZeRO stage. See --help.

#include <zero/launch/accelerate.hpp>
#include <zero/report/metrics.hpp>

#include <gpt2/backend.hpp>
#include <gpt2/batches.hpp>
#include <gpt2/checkpoints.hpp>
#include <gpt2/config_file.hpp>
#include <gpt2/flags.hpp>
#include <gpt2/matrix.hpp>
#include <gpt2/outcome.hpp>
#include <gpt2/preflight.hpp>
#include <gpt2/rate.hpp>
#include <gpt2/run.hpp>
#include <gpt2/text.hpp>

#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <span>
#include <string>

namespace gpt2 {

namespace {

Outcome train_at_stage(Settings const& settings, Text const& text, zero::Metrics* metrics,
                       zero::StopSignal const& stop) {
  switch (settings.stage) {
    case 0:
      return train<0>(settings, text, metrics, stop);
    case 1:
      return train<1>(settings, text, metrics, stop);
    case 2:
      return train<2>(settings, text, metrics, stop);
    default:
      return train<3>(settings, text, metrics, stop);
  }
}

char const* name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return zero::Fp32::name;
    case Precision::bf16:
      return zero::Bf16Mixed::name;
    default:
      return zero::Fp16Mixed::name;
  }
}

void print_plan(Settings const& s) {
  Index parameters = 0;
  for (auto const& unit : units_of(s.size)) {
    for (auto const& tensor : unit.tensors) parameters += tensor.elements();
  }
  Index const activations = Activations<float>::bytes(s.size, s.batch, s.size.context, true);
  std::cout << "GPT-2 of " << zero::human_count(static_cast<double>(parameters)) << " parameters, "
            << s.size.layers << " layers of width " << s.size.width << "; " << s.ranks
            << (s.ranks == 1 ? " rank" : " ranks") << ", stage " << s.stage << ", "
            << name_of(s.precision) << ", "
            << zero::human_count(static_cast<double>(s.tokens_a_step())) << " tokens a step\n\n"
            << memory_table(memory_plans(s), s.stage)
            << "besides, the model's activations: " << zero::human_bytes(activations)
            << " a rank\nplanned to send: " << zero::grouped_text(planned_wire_elements(s))
            << " elements a step and rank\n\n"
            << std::flush;
}

void print_outcome(Outcome const& o) {
  if (o.stopped_by != 0) {
    std::cout << "\nstopped after step " << zero::grouped_text(o.steps) << " by "
              << (o.stopped_by == SIGINT ? "SIGINT" : "SIGTERM") << "\n\n";
  } else {
    std::cout << "\na sample of what it writes now:\n\n" << o.sample << "\n\n";
  }
  std::cout << zero::MemoryTable{.title = "rank 0",
                                 .columns = {"planned", "peak"},
                                 .rows = o.memory}
            << "planned " << zero::grouped_text(o.planned_bytes) << " bytes a rank, measured peak "
            << zero::grouped_text(o.measured_bytes) << "\n"
            << "sent " << zero::grouped_text(o.wire_elements_per_step)
            << " elements a step and rank, " << zero::human_count(o.tokens_per_s.value_or(0))
            << " tokens/s, parameters " << zero::hexadecimal_text(o.parameters_hash) << "\n";
}

int run(std::span<char const* const> arguments) {
  Settings settings;
  Text text;
  std::optional<zero::Metrics> metrics;
  bool speaks = true;  // of the processes of a launcher, rank 0
  try {
    auto const place = zero::find_place(zero::Environment::of_process());
    speaks = !place || place->rank == 0;
    settings = read_flags(arguments);
    if (settings.help) {
      if (speaks) std::cout << help_text();
      return 0;
    }
    require_checkpoints(settings);
    take_place(settings, place);
    auto const accelerate = zero::accelerate_deepspeed_config(zero::Environment::of_process());
    if (accelerate || !settings.config.empty() || !settings.arguments.empty()) {
      for (std::string const& warning : apply_config(settings, accelerate)) {
        if (speaks) std::cerr << "warning: " << warning << "\n";
      }
      check(settings);
    }
    check_memory(settings);
  } catch (zero::Error const& e) {
    if (speaks) std::cerr << e.what() << "\n";
    return 2;
  }
  try {
    text = load_text(settings.text);
    Batches(text.training, text.validation, batch_shape(settings, 0), settings.seed);
    if (speaks && !settings.metrics.empty()) metrics.emplace(settings.metrics);
    if (speaks) print_plan(settings);
  } catch (zero::Error const& e) {  // of this machine's files
    std::cerr << e.what() << "\n";
    return 2;
  }
  use_one_blas_thread();
  zero::StopSignal const stop;
  Outcome const outcome = train_at_stage(settings, text, metrics ? &*metrics : nullptr, stop);
  if (!speaks) return 0;
  print_outcome(outcome);
  if (settings.json) std::cout << json_text(outcome, settings) << "\n";
  return 0;
}

}  // namespace

}  // namespace gpt2

int main(int argc, char** argv) {
  try {
    return gpt2::run(std::span<char const* const>(argv, static_cast<std::size_t>(argc))
                         .subspan(argc > 0 ? 1 : 0));
  } catch (std::exception const& e) {
    std::string const text = e.what();
    std::cerr << (text.starts_with("gpt2: ") ? "" : "gpt2: ") << text << "\n";
    return 1;
  }
}
