// SPDX-License-Identifier: Apache-2.0
#pragma once
// A run on the host: its ranks, and the model of each.

#include <gpt2/backend.hpp>
#include <gpt2/model.hpp>
#include <gpt2/offloaded.hpp>
#include <gpt2/settings.hpp>
#include <gpt2/train.hpp>

namespace gpt2 {

/// Where a run computes: how it becomes ranks, and what model a rank trains at a precision.
struct OnHost {
  using Backend = gpt2::Backend;
  template <class Precision>
  using Model = Gpt2;

  template <class Precision, class Device>
  static Gpt2 model(Device&, Settings const& settings) {
    return Gpt2(settings.size);
  }
  /// Threads that share a rank's updates: ranks are threads or processes with a core each.
  static int update_threads(Settings const&) { return 1; }
};

/// A run of one way to shard, at the precision that the settings name.
template <class Sharding>
Outcome train_sharded(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                      zero::StopSignal const& stop) {
  switch (settings.precision) {
    case Precision::fp32:
      return train<OnHost, Sharding, zero::Fp32>(settings, corpus, metrics, stop);
    case Precision::bf16:
      return train<OnHost, Sharding, zero::Bf16Mixed>(settings, corpus, metrics, stop);
    default:
      return train<OnHost, Sharding, zero::Fp16Mixed>(settings, corpus, metrics, stop);
  }
}

template <int Stage>
Outcome train_on_host(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                      zero::StopSignal const& stop) {
  return train_sharded<zero::Sharded<Stage>>(settings, corpus, metrics, stop);
}

template <int Stage, zero::Tier Optimizer>
Outcome train_offloaded(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                        zero::StopSignal const& stop) {
  return with_tiers<Stage, Optimizer>(settings, [&]<class Sharding>() {
    return train_sharded<Sharding>(settings, corpus, metrics, stop);
  });
}

}  // namespace gpt2
