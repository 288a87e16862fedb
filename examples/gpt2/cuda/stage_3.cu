// SPDX-License-Identifier: Apache-2.0
// The trainers of stage 3 on GPUs, compiled apart from the others to save time.

#include <gpt2/cuda/on_gpu.cuh>
#include <gpt2/train.hpp>

template <>
gpt2::Outcome gpt2::train_on_gpu<3>(Settings const& settings, Corpus const& corpus,
                                    zero::Metrics* metrics, zero::StopSignal const& stop) {
  return train<OnGpu, 3>(settings, corpus, metrics, stop);
}
