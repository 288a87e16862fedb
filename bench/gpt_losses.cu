// SPDX-License-Identifier: Apache-2.0
// The losses of the GPT's first steps on one GPU, from weights and tokens that a peer can make as
// well: bench/peers/gpt_losses.py runs it and holds the losses against PyTorch's.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <gpt2/cuda/model.cuh>
#include <gpt2/flags.hpp>

#include <cstdio>
#include <string>

namespace {

using gpt2::Index;

/// Runs of four tokens, the first by chance among a thousand: what follows can be learnt.
gpt2::Token token(Index step, Index i) {
  auto const first = zero::noise_bits(7, step, i / 4) % 1000;
  return static_cast<gpt2::Token>(first + static_cast<std::uint64_t>(i % 4));
}

gpt2::TokenBatch batch_of(gpt2::Configuration const& size, Index sequences, Index step) {
  gpt2::TokenBatch b{.length = size.context, .inputs = {}, .targets = {}};
  for (Index s = 0; s < sequences; ++s) {
    for (Index i = 0; i < size.context; ++i) {
      b.inputs.push_back(token(step, s * (size.context + 1) + i));
      b.targets.push_back(token(step, s * (size.context + 1) + i + 1));
    }
  }
  return b;
}

template <class Precision>
void train(gpt2::Configuration const& size, Index sequences, Index steps, float rate) {
  using T = typename Precision::Parameter;
  zero::SingleRank<zero::cuda::Device> communicator;
  zero::Trainer trainer{gpt2::cuda::Gpt2<T>(communicator.device(), size, {.batch = sequences}),
                        communicator, zero::AdamW{.lr = rate, .weight_decay = 0},
                        zero::Options{.clip = 1.0f, .seed = 1}, Precision{}};
  for (Index step = 0; step < steps; ++step) {
    auto const batch = batch_of(size, sequences, step);
    trainer.step(batch);
    std::printf("%.9f\n", trainer.loss());
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto const argument = [&](int i, char const* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  if (argument(1, "") == "--help") {
    std::puts(
        "bench_gpt_losses [fp32|bf16 [SIZE [BATCH [STEPS [RATE]]]]]: a loss a line (fp32 124m 2 50 "
        "3e-5)");
    return 0;
  }
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: this process sees no GPU");
    return 77;
  }
  try {
    std::string const precision = "--precision=" + argument(1, "fp32");
    std::string const size = "--size=" + argument(2, "124m");
    std::string const batch = "--batch=" + argument(3, "2");
    std::string const steps = "--steps=" + argument(4, "50");
    char const* const flags[] = {precision.c_str(), size.c_str(), batch.c_str(), steps.c_str()};
    float const rate = std::stof(argument(5, "3e-5"));
    gpt2::Settings const s = gpt2::read_flags(flags);
    if (s.precision == gpt2::Precision::fp32) {
      train<zero::Fp32>(s.size, s.batch, s.steps, rate);
    } else if (s.precision == gpt2::Precision::bf16) {
      train<zero::Bf16Mixed>(s.size, s.batch, s.steps, rate);
    } else {
      throw gpt2::WrongFlag("bench_gpt_losses: fp32 or bf16");
    }
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
