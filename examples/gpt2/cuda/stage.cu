// SPDX-License-Identifier: Apache-2.0
// The trainers of one stage at one precision on GPUs. Compiled once for each, as GPT2_STAGE and
// GPT2_PRECISION say, and once for each tier of optimizer state, GPT2_OPTIMIZER_TIER, with state
// below the GPU: nvcc takes its time.

#include <gpt2/cuda/on_gpu.cuh>
#include <gpt2/offloaded.hpp>
#include <gpt2/train.hpp>

namespace gpt2 {

template <Precision>
struct PolicyOf;
template <>
struct PolicyOf<Precision::fp32> {
  using type = zero::Fp32;
};
template <>
struct PolicyOf<Precision::bf16> {
  using type = zero::Bf16Mixed;
};
template <>
struct PolicyOf<Precision::fp16> {
  using type = zero::Fp16Mixed;
};

#ifdef GPT2_OPTIMIZER_TIER

template <>
Outcome train_offloaded_on_gpu<GPT2_STAGE, zero::Tier::GPT2_OPTIMIZER_TIER>(
    Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
    zero::StopSignal const& stop) {
  return with_tiers<GPT2_STAGE, zero::Tier::GPT2_OPTIMIZER_TIER>(settings, [&]<class Sharding>() {
    return train<OnGpu, Sharding, PolicyOf<Precision::GPT2_PRECISION>::type>(settings, corpus,
                                                                             metrics, stop);
  });
}

#else

template <>
Outcome train_on_gpu<GPT2_STAGE, Precision::GPT2_PRECISION>(Settings const& settings,
                                                            Corpus const& corpus,
                                                            zero::Metrics* metrics,
                                                            zero::StopSignal const& stop) {
  return train<OnGpu, zero::Sharded<GPT2_STAGE>, PolicyOf<Precision::GPT2_PRECISION>::type>(
      settings, corpus, metrics, stop);
}

#endif

}  // namespace gpt2
