// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the test model at any stage, precision, device and world, chosen by values.

#include <zero/optim/adamw.hpp>
#include <zero/policy/options.hpp>

#include <support/model_spec.hpp>
#include <support/result.hpp>
#include <support/script.hpp>

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace zero_test {

enum class OnDevice { host, late, guarded };

/// Whose loop makes the steps.
enum class Loop {
  trainer,
  parts,        ///< a loop over Context, Parameters, Gradients, OptimizerState and Pass
  two_trainers  ///< a trainer, beside another one on the same ranks that steps in turn with it
};

struct Config {
  ModelSpec model;
  int stage = 0;
  bool bf16 = false;
  bool fp16 = false;  ///< comes before bf16; not on the guarded device
  OnDevice device = OnDevice::host;
  int world = 1;
  int steps = 3;
  zero::Options options{.clip = 4};
  zero::AdamW optimizer{.lr = 0.03f, .weight_decay = 0.1f};
  Loop loop = Loop::trainer;
  /// Micro-batches of step s; unset: Options::accumulation.
  std::function<int(int step)> micro_batches{};
  /// What passes do; unset: the model's own chain, in order.
  Director direct{};
  /// The most layers a script has, beyond the model's own.
  zero::Index longest = 16;
  /// Changes a batch before it is used.
  std::function<void(Batch&)> alter{};
  bool watch = true;       ///< keep loss, decision and snapshot of every step, which waits for it
  bool evaluates = false;  ///< an evaluation and a pass of repeated forward visits between steps
  bool apart = false;      ///< ranks leave the order each by itself: they may not repeat visits
  bool may_fail = false;   ///< keep what ranks throw instead of throwing it
  std::chrono::milliseconds timeout{60000};

  OfType type() const { return fp16 ? Type::fp16 : bf16 ? Type::bf16 : Type::fp32; }
};

/// "stage 3, bf16, late, world 4, accumulation 3 (boundary), ..."
std::string describe(Config const& config);
inline std::ostream& operator<<(std::ostream& out, Config const& c) { return out << describe(c); }

/// Trains on `world` threads.
/// @throws what the first rank to fail threw, unless may_fail
Result run(Config const& config);

/// The model's own chain, in order.
inline Script in_order(ModelSpec const& model) {
  Script script;
  script.chain = model.chain;
  return script;
}

/// The micro-batches of a step on one rank.
std::vector<Batch> make_batches(Config const& config, int rank, int step);

}  // namespace zero_test
