// SPDX-License-Identifier: Apache-2.0
// gpt2: trains a GPT-2 on text at any ZeRO stage. See --help.

#include <zero/launch/accelerate.hpp>
#include <zero/report/metrics.hpp>

#include <gpt2/activations.hpp>
#include <gpt2/backend.hpp>
#include <gpt2/batches.hpp>
#include <gpt2/checkpoints.hpp>
#include <gpt2/config_file.hpp>
#include <gpt2/connections.hpp>
#include <gpt2/corpus.hpp>
#include <gpt2/files.hpp>
#include <gpt2/flags.hpp>
#include <gpt2/matrix.hpp>
#include <gpt2/outcome.hpp>
#include <gpt2/paths.hpp>
#include <gpt2/preflight.hpp>
#include <gpt2/rate.hpp>
#include <gpt2/run.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <span>
#include <string>

namespace gpt2 {

namespace {

#if GPT2_CUDA
inline constexpr bool has_cuda = true;
#else
inline constexpr bool has_cuda = false;
#endif

template <int Stage>
Outcome train_on(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                 zero::StopSignal const& stop) {
  if constexpr (has_cuda) {
    if (settings.on == On::cuda) {
      switch (settings.precision) {
        case Precision::fp32:
          return train_on_gpu<Stage, Precision::fp32>(settings, corpus, metrics, stop);
        case Precision::bf16:
          return train_on_gpu<Stage, Precision::bf16>(settings, corpus, metrics, stop);
        default:
          return train_on_gpu<Stage, Precision::fp16>(settings, corpus, metrics, stop);
      }
    }
  }
  return train_on_host<Stage>(settings, corpus, metrics, stop);
}

#if GPT2_OFFLOAD
inline constexpr bool has_offload = true;
#else
inline constexpr bool has_offload = false;
#endif

template <int Stage, zero::Tier Optimizer>
Outcome train_below_on(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                       zero::StopSignal const& stop) {
  if constexpr (has_cuda) {
    if (settings.on == On::cuda)
      return train_offloaded_on_gpu<Stage, Optimizer>(settings, corpus, metrics, stop);
  }
  return train_offloaded<Stage, Optimizer>(settings, corpus, metrics, stop);
}

/// Stage 3 may have parameters alone below the device.
template <int Stage>
Outcome train_below(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                    zero::StopSignal const& stop) {
  using zero::Tier;
  if (settings.optimizer_tier == Tier::host)
    return train_below_on<Stage, Tier::host>(settings, corpus, metrics, stop);
  if (settings.optimizer_tier == Tier::nvme)
    return train_below_on<Stage, Tier::nvme>(settings, corpus, metrics, stop);
  return train_below_on<3, Tier::device>(settings, corpus, metrics, stop);
}

Outcome train_at_stage(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                       zero::StopSignal const& stop) {
  if constexpr (has_offload) {
    if (settings.offloads())
      return settings.stage == 1   ? train_below<1>(settings, corpus, metrics, stop)
             : settings.stage == 2 ? train_below<2>(settings, corpus, metrics, stop)
                                   : train_below<3>(settings, corpus, metrics, stop);
  }
  switch (settings.stage) {
    case 0:
      return train_on<0>(settings, corpus, metrics, stop);
    case 1:
      return train_on<1>(settings, corpus, metrics, stop);
    case 2:
      return train_on<2>(settings, corpus, metrics, stop);
    default:
      return train_on<3>(settings, corpus, metrics, stop);
  }
}

/// Plans of the device that the settings name.
std::array<zero::MemoryPlan, 4> plans_of(Settings const& s) {
  if constexpr (has_cuda) {
    if (s.on == On::cuda) return memory_plans(s, gpu_workspace_bytes());
  }
  return memory_plans(s);
}

/// @throws WrongFlag when the machine cannot make the run
void check_machine(Settings const& s) {
  if (!has_offload && s.offloads()) {
    throw WrongFlag(
        "gpt2: --offload-optimizer and --offload-parameters, and this program was built without "
        "them (ZERO_GPT2_OFFLOAD)");
  }
  if (s.on == On::host) {
    if (s.recompute != Recompute::cheap)
      throw WrongFlag("gpt2: --recompute is for GPUs, with --device cuda");
    return check_memory(s);
  }
  if constexpr (has_cuda) {
    if (s.offloads() && s.precision != Precision::bf16) {
      throw WrongFlag(
          "gpt2: --offload-optimizer and --offload-parameters with --device cuda: this program "
          "compiles state below a GPU for --precision bf16 alone");
    }
    zero::MemoryPlan const plan = plans_of(s)[at(s.stage)];
    check_gpus(s, plan.total_bytes());
    check_host(s, plan.tiers.host_bytes());
  } else {
    throw WrongFlag("gpt2: --device cuda, and this program was built without CUDA");
  }
}

Index activation_bytes(Settings const& s) {
  if constexpr (has_cuda) {
    if (s.on == On::cuda) return gpu_activation_bytes(s);
  }
  return Activations<float>::bytes(s.size, s.batch, s.size.context, true);
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
  Index const activations = activation_bytes(s);
  auto const plans = plans_of(s);
  std::cout << "GPT-2 of " << zero::human_count(static_cast<double>(parameters)) << " parameters, "
            << s.size.layers << " layers of width " << s.size.width << "; " << s.ranks
            << (s.ranks == 1 ? " rank" : " ranks") << ", stage " << s.stage << ", "
            << name_of(s.precision) << ", "
            << zero::human_count(static_cast<double>(s.tokens_a_step())) << " tokens a step\n\n"
            << memory_table(plans, s.stage)
            << tiers_text(plans[at(s.stage)], s.ranks_here ? 1 : s.ranks,
                          s.ranks_here.value_or(s.ranks))
            << "besides, the model's activations: " << zero::human_bytes(activations)
            << " a rank\nplanned to send: " << zero::grouped_text(planned_wire_elements(s))
            << " elements a step and rank\n\n"
            << std::flush;
}

void print_outcome(Outcome const& o, Settings const& s) {
  if (!o.first_loss) {
    std::cout << "\nnothing was trained: the checkpoint is at step " << zero::grouped_text(o.steps)
              << ", and this run ends there\n";
  }
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
            << (o.host_bytes == 0
                    ? std::string()
                    : "below the device " + zero::grouped_text(o.host_bytes) +
                          " bytes of host memory, " + zero::grouped_text(o.locked_bytes) +
                          " of them locked, and " + zero::grouped_text(o.nvme_bytes) +
                          " bytes in files" + (s.has_files() ? " by " + transfers_name(s) : "") +
                          "; planned " + zero::grouped_text(o.planned_below[0]) + ", " +
                          zero::grouped_text(o.planned_below[1]) + " and " +
                          zero::grouped_text(o.planned_below[2]) + "\n")
            << "sent " << zero::grouped_text(o.wire_elements_per_step)
            << " elements a step and rank, " << zero::human_count(o.tokens_per_s.value_or(0))
            << " tokens/s, parameters " << zero::hexadecimal_text(o.parameters_hash) << "\n";
}

int run(std::span<char const* const> arguments) {
  Settings settings;
  Corpus corpus;
  std::optional<zero::Metrics> metrics;
  std::optional<zero::Place> place;
  bool speaks = true;  // of the processes of a launcher, rank 0
  try {
    place = zero::find_place(zero::Environment::of_process());
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
    pin_below_gpus(settings);
  } catch (zero::Error const& e) {
    if (speaks) std::cerr << e.what() << "\n";
    return 2;
  }
  // Every process judges its machine and tries the files there. The first one of each machine
  // speaks of that, where the launcher says which it is, and each rank of its own file.
  bool const speaks_here = speaks || place->local_rank == 0;
  bool const beside_first = speaks || place->local_size == place->size;
  try {
    check_machine(settings);
    take_transfers(settings);
    check_paths(settings, place ? place->rank : 0, beside_first);
    corpus = load_corpus(settings);
    Batches(corpus.training(), corpus.validation(), batch_shape(settings, 0), settings.seed);
    if (speaks && !settings.metrics.empty()) metrics.emplace(settings.metrics);
    if (speaks) print_plan(settings);
  } catch (WrongForRank const& e) {
    std::string const who =
        place && place->size > 1 ? "rank " + std::to_string(place->rank) + ": " : "";
    std::cerr << who + e.what() + "\n";
    return 2;
  } catch (zero::Error const& e) {
    if (speaks_here) std::cerr << e.what() << "\n";
    return 2;
  }
  use_one_blas_thread();
  zero::StopSignal const stop;
  Outcome const outcome = train_at_stage(settings, corpus, metrics ? &*metrics : nullptr, stop);
  if (!speaks) return 0;
  if (settings.offload.pin_memory == zero::MemoryLock::attempt &&
      outcome.locked_bytes < outcome.host_bytes) {
    std::cerr << "warning: --pin-memory try: " << zero::grouped_text(outcome.locked_bytes) << " of "
              << zero::grouped_text(outcome.host_bytes)
              << " bytes of host memory a rank are locked; the system's limit (ulimit -l) allows "
                 "no more\n";
  }
  print_outcome(outcome, settings);
  if (settings.json) std::cout << json_text(outcome, settings) << "\n";
  return 0;
}

}  // namespace

}  // namespace gpt2

int main(int argc, char** argv) {
  try {
    gpt2::ask_for_connections();
    return gpt2::run(std::span<char const* const>(argv, static_cast<std::size_t>(argc))
                         .subspan(argc > 0 ? 1 : 0));
  } catch (std::exception const& e) {
    std::string const text = e.what();
    std::cerr << (text.starts_with("gpt2: ") ? "" : "gpt2: ") << text << "\n";
    return 1;
  }
}
