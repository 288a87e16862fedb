// SPDX-License-Identifier: Apache-2.0
#pragma once
// A training run, declared apart from its body: the trainers of a stage are compiled in a file of
// their own, stage_0.cpp to stage_3.cpp, and cuda/stage.cu.

#include <zero/launch/stop_signal.hpp>
#include <zero/report/metrics.hpp>

#include <gpt2/corpus.hpp>
#include <gpt2/outcome.hpp>
#include <gpt2/settings.hpp>

namespace gpt2 {

/// Trains as the settings say, from the first step to a sample of text, on all ranks.
/// @tparam Stage that of the settings
/// @param metrics where rank 0 writes a row a step, or null
/// @param stop a signal to any rank ends the run on all of them after the step under way
/// @return what rank 0 has, where it is in this process
template <int Stage>
Outcome train_on_host(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                      zero::StopSignal const& stop);

/// The same on GPUs: over NCCL where a launcher has started several processes, else as threads.
template <int Stage, Precision P>
Outcome train_on_gpu(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                     zero::StopSignal const& stop);

/// Bytes of activations that a rank keeps on its GPU.
Index gpu_activation_bytes(Settings const& settings);

/// Bytes that the kernels of a step need on a GPU, part of the plan there.
Index gpu_workspace_bytes();

/// @param state_bytes what the library plans for a rank
/// @throws WrongFlag when there is no GPU, when the model's kernels do not take its sizes, or when
///   the GPUs cannot hold the ranks
void check_gpus(Settings const& settings, Index state_bytes);

/// The same with state below the device, of the optimizers AdamW and Adam; parameters as the
/// settings say.
/// @tparam Stage from 1
/// @tparam Optimizer the tier of optimizer state
template <int Stage, zero::Tier Optimizer>
Outcome train_offloaded(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
                        zero::StopSignal const& stop);

/// The same beside GPUs, with threads of the host that share a rank's updates; in bf16.
template <int Stage, zero::Tier Optimizer>
Outcome train_offloaded_on_gpu(Settings const& settings, Corpus const& corpus,
                               zero::Metrics* metrics, zero::StopSignal const& stop);

}  // namespace gpt2
