// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run on GPUs: its ranks, and the model of each.

#include <zero/cuda/cuda.cuh>

#include <gpt2/cuda/model.cuh>
#include <gpt2/settings.hpp>

#include <algorithm>
#include <thread>

namespace gpt2 {

/// How a rank's model is used.
inline cuda::Use use_of(Settings const& settings) {
  return {.batch = settings.batch, .recompute = settings.recompute};
}

/// Where a run computes: how it becomes ranks, and what model a rank trains at a precision.
struct OnGpu {
  using Backend = zero::cuda::Nccl;
  template <class Precision>
  using Model = cuda::Gpt2<typename Precision::Parameter>;

  template <class Precision>
  static Model<Precision> model(zero::cuda::Device& device, Settings const& settings) {
    return Model<Precision>(device, settings.size, use_of(settings));
  }
  /// Threads that share a rank's updates of state below its GPU: the cores of this machine by its
  /// ranks, but for one, which the thread that enqueues waits on.
  static int update_threads(Settings const& settings) {
    if (settings.optimizer_tier == zero::Tier::device) return 1;
    int const cores = static_cast<int>(std::thread::hardware_concurrency());
    return std::max(cores / settings.ranks_here.value_or(settings.ranks) - 1, 1);
  }
};

}  // namespace gpt2
