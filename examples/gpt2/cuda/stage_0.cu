// SPDX-License-Identifier: Apache-2.0
// The trainers of stage 0 on GPUs, compiled apart from the others to save time.

#include <gpt2/cuda/on_gpu.cuh>
#include <gpt2/train.hpp>

template <>
gpt2::Outcome gpt2::train_on_gpu<0>(Settings const& settings, Corpus const& corpus,
                                    zero::Metrics* metrics, zero::StopSignal const& stop) {
  return train<OnGpu, 0>(settings, corpus, metrics, stop);
}
