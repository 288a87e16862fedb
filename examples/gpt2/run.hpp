// SPDX-License-Identifier: Apache-2.0
#pragma once
// A training run, declared apart from its body: the trainers of a stage are compiled in a file of
// their own, stage_0.cpp to stage_3.cpp.

#include <zero/launch/stop_signal.hpp>
#include <zero/report/metrics.hpp>

#include <gpt2/outcome.hpp>
#include <gpt2/settings.hpp>
#include <gpt2/text.hpp>

namespace gpt2 {

/// Trains as the settings say, from the first step to a sample of text, on all ranks.
/// @tparam Stage that of the settings
/// @param metrics where rank 0 writes a row a step, or null
/// @param stop a signal to any rank ends the run on all of them after the step under way
/// @return what rank 0 has, where it is in this process
template <int Stage>
Outcome train(Settings const& settings, Text const& text, zero::Metrics* metrics,
              zero::StopSignal const& stop);

/// The same with state below the device, of the optimizer AdamW; parameters as the settings say.
/// @tparam Stage from 1
/// @tparam Optimizer the tier of optimizer state
template <int Stage, zero::Tier Optimizer>
Outcome train_offloaded(Settings const& settings, Text const& text, zero::Metrics* metrics,
                        zero::StopSignal const& stop);

}  // namespace gpt2
