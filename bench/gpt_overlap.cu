// SPDX-License-Identifier: Apache-2.0
// What communication adds to a training step of the GPT over NCCL, and how much of it
// Options::overlap hides: the same step, in turn, with nothing sent, with reductions beside the
// backward pass, and with reductions on the compute stream. Gathers run ahead in both of these.

#include <zero/cuda/cuda.cuh>
#include <zero/launch/agree.hpp>
#include <zero/zero.hpp>

#include <bench/gpt_run.cuh>
#include <bench/silent.cuh>
#include <gpt2/flags.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace bench;
using Nccl = zero::cuda::Nccl;
using Agreement = zero::Agreement<zero::cuda::NcclCommunicator>;

struct Measured {
  double ms;    ///< a step, of the slowest rank
  double loss;  ///< mean over ranks, after the last step
};

/// The largest of the ranks' times: what agrees on the least is asked for what is left of a day.
double slowest_ms(Agreement& agreement, double ms) {
  Index const day_ns = Index{86'400} * 1'000'000'000;
  Index const left = agreement.least(std::max(day_ns - static_cast<Index>(ms * 1e6), Index{0}));
  return static_cast<double>(day_ns - left) * 1e-6;
}

/// One trainer from its making to its end, so that there is memory for the next. All ranks begin
/// together, and are silent together from the last step that only warms up.
template <int Stage, class C>
Measured measure(Run const& run, C communicator, bool& silent, bool silenced,
                 Agreement& agreement) {
  auto& device = communicator.device();
  silent = false;
  zero::Trainer trainer{Model(device, run.size, {.batch = run.batch, .recompute = run.recompute}),
                        communicator,
                        zero::AdamW{.lr = 1e-4f},
                        zero::Options{.clip = 1.0f, .overlap = run.overlap},
                        zero::Sharded<Stage>{},
                        zero::Bf16Mixed{}};
  std::vector<gpt2::TokenBatch> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(batch_of(run, communicator.rank(), i));
  agreement.all(true);
  double const ms = median_ms(run, [&](int step) {
    silent = silenced && step + 1 >= run.warm_ups;
    trainer.step(batches[static_cast<std::size_t>(step % 4)]);
    trainer.synchronize();
  });
  bool const skipped = trainer.decision().skip != 0;
  silent = false;
  if (agreement.any(skipped) && communicator.rank() == 0)
    std::puts("      the next line is of steps without updates: a gradient was not finite");
  double const slowest = slowest_ms(agreement, ms);
  return {slowest, trainer.mean_loss()};
}

template <int Stage>
void measure_stage(Run run, Nccl::Communicator communicator) {
  bool const speaks = communicator.rank() == 0;
  auto& device = communicator.device();
  Agreement agreement(communicator);
  bool silent = false;
  auto const tell = [&](std::string const& what, Measured const& m) {
    if (speaks)
      report(run, what.c_str(), m.ms, communicator.size(),
             static_cast<double>(device.ledger().peak_bytes()), m.loss);
  };
  std::string const stage = "stage " + std::to_string(Stage);
  run.overlap = true;
  Measured const nothing =
      measure<Stage>(run, Silent(communicator, silent), silent, true, agreement);
  tell(stage + ", nothing sent", nothing);
  Measured const beside = measure<Stage>(run, communicator, silent, false, agreement);
  tell(stage, beside);
  run.overlap = false;
  Measured const behind = measure<Stage>(run, communicator, silent, false, agreement);
  tell(stage + ", no overlap", behind);
  if (!speaks) return;
  double const added = behind.ms - nothing.ms;
  std::printf(
      "      stage %d, %d ranks: communication adds %.1f ms to a step without overlap and %.1f ms"
      " with it: %.1f %% hidden, %.1f ms exposed; losses %s\n",
      Stage, communicator.size(), added, beside.ms - nothing.ms,
      added > 0 ? 100 * (behind.ms - beside.ms) / added : 0.0, beside.ms - nothing.ms,
      beside.loss == behind.loss ? "of the same bits" : "DIFFER");
  std::fflush(stdout);
}

/// A world a stage, so that what one leaves in its GPU's pool is given back before the next.
template <int Stage>
void on_this_rank(Run const& run) {
  auto world = Nccl::from(zero::Environment::of_process(), {});
  auto on_rank = [&](Nccl::Communicator communicator) { measure_stage<Stage>(run, communicator); };
  world.run(on_rank);
}

int usage() {
  std::puts(
      "bench_gpt_overlap [SIZE [BATCH [STAGES [RECOMPUTE [STEPS [WARM_UPS]]]]]]\n"
      "  SIZE 124m|350m|774m|1.5b (124m), BATCH sequences of 1024 tokens a rank (8), STAGES such\n"
      "  as 23 (0123), RECOMPUTE none|cheap|block (cheap), STEPS (10), WARM_UPS at least 2 (3).\n"
      "  Ranks are the processes of a launcher, two at least: torchrun where each has a GPU,\n"
      "  tests/cuda/several_ranks.sh where they share one. Prints a stage's step with nothing\n"
      "  sent, all ranks at once; with Options::overlap; without; and of what communication adds\n"
      "  without overlap, the share that overlap hides and the milliseconds that stay exposed.");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto const argument = [&](int i, char const* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  if (argument(1, "") == "--help") return usage();
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: this process sees no GPU");
    return 77;
  }
  std::string const size = "--size=" + argument(1, "124m");
  std::string const batch = "--batch=" + argument(2, "8");
  std::string const recompute = "--recompute=" + argument(4, "cheap");
  char const* const flags[] = {size.c_str(), batch.c_str(), recompute.c_str()};
  try {
    auto const place = zero::find_place(zero::Environment::of_process());
    if (!place || place->size == 1) {
      std::puts("skipped: no launcher has started several processes, see --help");
      return 77;
    }
    gpt2::Settings const s = gpt2::read_flags(flags);
    Run const run{argument(1, "124m"),
                  s.size,
                  s.batch,
                  s.recompute,
                  std::max(std::stoi(argument(5, "10")), 1),
                  std::max(std::stoi(argument(6, "3")), 2),
                  true,
                  true};
    for (char stage : argument(3, "0123")) {
      if (stage == '0') on_this_rank<0>(run);
      if (stage == '1') on_this_rank<1>(run);
      if (stage == '2') on_this_rank<2>(run);
      if (stage == '3') on_this_rank<3>(run);
    }
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
