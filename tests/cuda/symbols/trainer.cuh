// SPDX-License-Identifier: Apache-2.0
#pragma once
// A trainer over NCCL, made whole, so that its object names every function of NCCL that its stage
// calls.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

namespace zero_test {

struct OneUnit {
  using Batch = int;
  zero::Units units() const { return {{"a", {{"a.w", {100}}}}}; }
  template <class Pass>
  void operator()(Pass& pass, int const&) {
    auto const w = pass.forward(0);
    if constexpr (Pass::trains) auto const lease = pass.backward(0);
  }
};

template <int Stage, class Precision>
void train(zero::cuda::NcclCommunicator communicator) {
  zero::Trainer trainer{OneUnit{},
                        communicator,
                        zero::AdamW{},
                        zero::Options{.accumulation = 2, .clip = 1},
                        zero::Sharded<Stage>{},
                        Precision{}};
  trainer.step(1, 2);
  trainer.evaluate(1);
  static_cast<void>(trainer.mean_loss());
  trainer.synchronize();
}

}  // namespace zero_test
