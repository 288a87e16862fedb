// SPDX-License-Identifier: Apache-2.0
// The trainers of stage 0 on the host, compiled apart from the others to save time.

#include <gpt2/on_host.hpp>
#include <gpt2/train.hpp>

template <>
gpt2::Outcome gpt2::train_on_host<0>(Settings const& settings, Corpus const& corpus,
                                     zero::Metrics* metrics, zero::StopSignal const& stop) {
  using Stage = zero::Sharded<0>;
  switch (settings.precision) {
    case Precision::fp32:
      return train<OnHost, Stage, zero::Fp32>(settings, corpus, metrics, stop);
    case Precision::bf16:
      return train<OnHost, Stage, zero::Bf16Mixed>(settings, corpus, metrics, stop);
    default:
      return train<OnHost, Stage, zero::Fp16Mixed>(settings, corpus, metrics, stop);
  }
}
