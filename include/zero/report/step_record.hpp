// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one step has to tell: Progress shows a part of it, Metrics keeps all of it.

#include <zero/core/size.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zero {

/// One step of training, as rank 0 knows it once the step's decision has arrived.
struct StepRecord {
  Index step = 0;   ///< steps made so far, this one included: the first step is 1
  double loss = 0;  ///< mean over ranks and micro-batches
  std::optional<double> validation_loss;  ///< where this step was followed by an evaluation
  double learning_rate = 0;               ///< of the step's update
  double gradient_norm = 0;               ///< before clipping
  double loss_scale = 1;                  ///< of this step's backward
  Index skipped_steps = 0;                ///< so far, for gradients that were not finite
  double tokens_per_s = 0;                ///< of all ranks together
  Index wire_elements = 0;                ///< sent by one rank in this step, norm records left out

  /// Seconds of this step by phase, in the order in which they are to be read: {"gather", 0.01},
  /// ...
  std::vector<std::pair<std::string, double>> phase_seconds;

  /// Bytes by kind of memory: {"parameters", 4096}, ... Names every kind from the first record on,
  /// with 0 for what does not exist yet (an extra slot): the columns of a file cannot grow.
  std::vector<std::pair<std::string, Index>> memory_bytes;
};

}  // namespace zero
