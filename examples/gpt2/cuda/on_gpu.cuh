// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run on GPUs: its ranks, and the model of each.

#include <zero/cuda/cuda.cuh>

#include <gpt2/cuda/model.cuh>
#include <gpt2/settings.hpp>

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
};

}  // namespace gpt2
