// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a trainer to the checkpoints of its run.

#if GPT2_CHECKPOINT
#include <zero/checkpoint/trainer_access.hpp>
#endif

#include <gpt2/batches.hpp>
#include <gpt2/checkpoints.hpp>

#include <memory>

namespace gpt2 {

#if GPT2_CHECKPOINT

/// Those that the settings ask for; all of them, and the trainer, outlive it.
std::unique_ptr<Checkpoints> checkpoints_of(zero::AnyTrainer trainer, Settings const& settings,
                                            Batches& batches);

#else

/// None.
template <class Trainer>
std::unique_ptr<Checkpoints> checkpoints_of(Trainer&, Settings const&, Batches&) {
  return std::make_unique<Checkpoints>();
}

#endif

}  // namespace gpt2
