// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run of the program gpt2 is told.

#include <zero/policy/options.hpp>

#include <gpt2/configuration.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace gpt2 {

enum class Precision { fp32, bf16 };

enum class OptimizerName { adamw, adam, lamb, lion, adagrad, sgd };

/// Settings of one run; the defaults are a run of about two minutes on two cores.
struct Settings {
  int stage = 3;
  int ranks = 4;
  bool ranks_given = false;                    ///< by a flag
  std::optional<int> ranks_here{};             ///< on this machine; unset: all
  Index steps = 800;                           ///< of the whole schedule
  std::optional<Index> stop_after{};           ///< steps after which to stop early
  Index batch = 4;                             ///< samples of one rank's micro-batch
  Index accumulation = 1;                      ///< micro-batches of a step
  std::optional<zero::Reduction> reduction{};  ///< unset: the stage's own
  Precision precision = Precision::bf16;
  Configuration size{};
  std::uint64_t seed = 1;
  OptimizerName optimizer = OptimizerName::adamw;
  std::optional<double> learning_rate{};  ///< unset: the optimizer's own
  int prefetch = 1;
  Index bucket = 0;
  std::string text{};     ///< file to train on; empty: the fortunes
  std::string metrics{};  ///< file for a row a step; empty: none
  bool json = false;      ///< end with a line of JSON
  bool help = false;

  /// Steps that this run makes.
  Index last_step() const { return stop_after.value_or(steps); }
  Index warm_up() const { return steps / 10; }
  Index tokens_a_step() const { return batch * size.context * accumulation * ranks; }
};

}  // namespace gpt2
