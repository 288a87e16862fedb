// SPDX-License-Identifier: Apache-2.0
// A training step of the GPT in bf16 on one GPU, or on the GPUs of a launcher: the model alone, its
// gradients lying where it left them; the model, norm and AdamW by hand, the same kernels without a
// Trainer; and the whole step by the library at a stage, in turn. Prints milliseconds, tokens/s and
// the peak of memory, and what an optimizer that moved its bytes at the speed of a copy would have
// taken.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <bench/gpt_run.cuh>
#include <gpt2/flags.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace bench;

/// Milliseconds in which a copy moves what AdamW must: 28 bytes a parameter.
double copy_floor(Run const& run) {
  zero::cuda::Device device;
  auto stream = device.stream();
  Index const bytes = Index{1} << 30;
  auto const from = device.allocate(bytes, "copy");
  auto const to = device.allocate(bytes, "copy");
  double const ms = median_ms(run, [&](int) {
    for (int i = 0; i < 8; ++i) {
      zero::cuda::check(cudaMemcpyAsync(to.address(), from.address(), zero::at(bytes),
                                        cudaMemcpyDeviceToDevice, stream.native()),
                        "cudaMemcpyAsync");
    }
    stream.synchronize();
  });
  double const bytes_a_ms = 8 * 2 * static_cast<double>(bytes) / ms;
  std::printf("device copy %.0f GB/s\n", bytes_a_ms * 1e-6);
  return 28 * static_cast<double>(run.parameters()) / bytes_a_ms;
}

template <int Stage, class Checking, class C>
double with_library(Run const& run, C communicator) {
  auto& device = communicator.device();
  if (run.copy_engines) communicator.gather_by_copy_engines();
  zero::Trainer trainer{
      Model(device, run.size, {.batch = run.batch, .recompute = run.recompute}),
      communicator,
      zero::AdamW{.lr = 1e-4f},
      zero::Options{
          .clip = Checking::checks ? 1.0f : 0.0f, .overlap = run.overlap, .replay = run.replay},
      zero::Sharded<Stage>{},
      Checking{},
      zero::Bf16Mixed{}};
  std::vector<gpt2::TokenBatch> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(batch_of(run, communicator.rank(), i));
  double enqueue = 0;
  double const ms = median_ms(run, [&](int step) {
    auto const start = std::chrono::steady_clock::now();
    trainer.step(batches[static_cast<std::size_t>(step % 4)]);
    std::chrono::duration<double, std::micro> const took = std::chrono::steady_clock::now() - start;
    enqueue = took.count();
    trainer.synchronize();
  });
  double const loss = trainer.mean_loss();
  if (communicator.rank() == 0) {
    std::string const what =
        "stage " + std::to_string(Stage) + (run.overlap ? "" : ", no overlap") +
        (run.checked ? "" : ", unchecked") + (run.copy_engines ? ", engines" : "") +
        (run.replay ? ", replayed" : "");
    report(run, what.c_str(), ms, communicator.size(),
           static_cast<double>(device.ledger().peak_bytes()), loss);
    std::printf("      (the host enqueues it in %.0f us)\n", enqueue);
  }
  return ms;
}

template <int Stage>
double on_all_ranks(Run const& run) {
  double ms = 0;
  zero::launch<zero::cuda::Nccl>(1, [&](auto communicator) {
    ms = run.checked ? with_library<Stage, zero::CheckedGradients>(run, communicator)
                     : with_library<Stage, zero::UncheckedGradients>(run, communicator);
  });
  return ms;
}

int usage() {
  std::puts(
      "bench_gpt_step [SIZE [BATCH [STAGES [RECOMPUTE [STEPS [WARM_UPS [WAY]]]]]]]\n"
      "  SIZE 124m|350m|774m|1.5b (124m), BATCH sequences of 1024 tokens a rank (8), STAGES such\n"
      "  as 03 (0123), RECOMPUTE none|cheap|block (cheap), STEPS (10), WARM_UPS (3), WAY checked|\n"
      "  unchecked|no-overlap|copy-engines|replay. Under a launcher ranks are its processes, and\n"
      "  the model alone is not measured.");
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
    gpt2::Settings const s = gpt2::read_flags(flags);
    Run const run{argument(1, "124m"),
                  s.size,
                  s.batch,
                  s.recompute,
                  std::stoi(argument(5, "10")),
                  std::stoi(argument(6, "3")),
                  argument(7, "") != "no-overlap",
                  argument(7, "") != "unchecked",
                  argument(7, "") == "copy-engines",
                  argument(7, "") == "replay"};
    auto const place = zero::find_place(zero::Environment::of_process());
    bool const alone = !place || place->size == 1;
    double const floor = alone ? copy_floor(run) : 0;
    double const model = alone ? model_alone(run) : 0;
    double const by_hand = alone ? model_alone(run, true) : 0;
    for (char stage : argument(3, "0123")) {
      double const ms = stage == '0'   ? on_all_ranks<0>(run)
                        : stage == '1' ? on_all_ranks<1>(run)
                        : stage == '2' ? on_all_ranks<2>(run)
                                       : on_all_ranks<3>(run);
      if (alone) {
        std::printf(
            "      stage %c: %.1f ms beside the model, of which AdamW at a copy's speed %.1f ms;"
            " beside the same kernels by hand %.2f ms, %.2f %% of the step\n",
            stage, ms - model, floor, ms - by_hand, 100 * (ms - by_hand) / ms);
      }
    }
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
