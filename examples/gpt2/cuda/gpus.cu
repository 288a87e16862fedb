// SPDX-License-Identifier: Apache-2.0
// What a run will need of GPUs, told and judged before anything is allocated.

#include <zero/report/number_text.hpp>

#include <gpt2/cuda/on_gpu.cuh>
#include <gpt2/flags.hpp>
#include <gpt2/run.hpp>

#include <algorithm>
#include <string>

namespace gpt2 {

Index gpu_activation_bytes(Settings const& s) {
  return s.precision == Precision::fp32
             ? cuda::Gpt2<float>::activation_bytes(s.size, use_of(s))
             : cuda::Gpt2<zero::bf16>::activation_bytes(s.size, use_of(s));  // fp16: as many
}

Index gpu_workspace_bytes() { return zero::workspace_bytes<zero::cuda::Device>; }

void check_gpus(Settings const& s, Index state_bytes) {
  try {
    cuda::check_size(s.size);
  } catch (zero::InvalidArgument const& e) {
    throw WrongFlag(e.what());
  }
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0)
    throw WrongFlag("gpt2: --device cuda, and this process sees no GPU");
  std::size_t free = 0;
  std::size_t total = 0;
  zero::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  int const here = s.ranks_here.value_or(s.ranks);
  int const ranks = (here + gpus - 1) / gpus;  // that share a GPU
  Index const needed = ranks * (state_bytes + gpu_activation_bytes(s));
  if (needed <= static_cast<Index>(total)) return;
  throw WrongFlag("gpt2: " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
                  " of this model need about " + zero::human_count(static_cast<double>(needed)) +
                  "B on one GPU, which has " + zero::human_count(static_cast<double>(total)) +
                  "B: take a smaller --batch, --size or --recompute block");
}

}  // namespace gpt2
