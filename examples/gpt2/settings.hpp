// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run of the program gpt2 is told.

#include <zero/optim/adagrad.hpp>
#include <zero/optim/adam.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lamb.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/sgd.hpp>
#include <zero/optim/warmup.hpp>
#include <zero/policy/options.hpp>
#include <zero/policy/sharded.hpp>

#include <gpt2/configuration.hpp>
#include <gpt2/recompute.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace gpt2 {

enum class Precision { fp32, bf16, fp16 };

/// What computes.
enum class On { host, cuda };

enum class Scheduler {
  constant,
  constant_with_warmup,
  linear,
  cosine,
  polynomial,
  warmup,
  warmup_decay,
  warmup_cosine,
  one_cycle,
  range_test
};

/// The schedule of the learning rate; what is unset is the schedule's own default.
struct RateSettings {
  Scheduler scheduler = Scheduler::linear;
  std::optional<Index> warmup{};     ///< steps; unset: a tenth of all
  std::optional<zero::Ramp> ramp{};  ///< how a warm-up rises
  std::optional<double> start{};     ///< rate at the start, of the peak
  std::optional<double> end{};       ///< rate at the end, of the peak
  std::optional<double> power{};     ///< of a polynomial
  std::optional<double> cycles{};    ///< of a cosine
  std::optional<double> growth{};    ///< of a range test, a stretch
  bool shifted = false;              ///< without an idle start
};

/// The loss scale; what is unset is the library's own default.
struct LossScaleSettings {
  bool dynamic = false;  ///< asked for
  std::optional<float> fixed{};
  std::optional<int> power{};
  std::optional<Index> window{};
  std::optional<Index> hysteresis{};
};

/// What makes transfers between host memory and files.
enum class FilesBy {
  either,  ///< io_uring where the kernel gives it, else threads
  io_uring,
  threads
};

enum class OptimizerName { adamw, adam, lamb, lion, adagrad, sgd };

/// What a DeepSpeed configuration decides in place of flags.
struct Configured {
  zero::Options options{};
  bool gather_16bit_weights_on_model_save = false;
  std::variant<zero::AdamW, zero::Adam, zero::Lamb, zero::Lion, zero::Adagrad, zero::Sgd>
      optimizer{};
};

/// Settings of one run; the defaults are a run of about two minutes on two cores.
struct Settings {
  On on = On::host;
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
  Recompute recompute = Recompute::cheap;  ///< on GPUs
  std::uint64_t seed = 1;
  OptimizerName optimizer = OptimizerName::adamw;
  std::optional<double> learning_rate{};  ///< unset: the optimizer's own
  RateSettings rate{};
  LossScaleSettings loss_scale{};
  int prefetch = 1;
  Index bucket = 0;
  zero::Tier optimizer_tier = zero::Tier::device;  ///< of optimizer state
  zero::Tier parameter_tier = zero::Tier::device;  ///< of parameters, at stage 3
  zero::OffloadOptions offload{};                  ///< of what lies below the device
  FilesBy files_by = FilesBy::either;              ///< what reads and writes its files
  std::string text{};                              ///< file to train on; empty: the fortunes
  std::string tokens{};                            ///< file of tokens, in place of a text
  std::string metrics{};                           ///< file for a row a step; empty: none
  std::string config{};                     ///< DeepSpeed's JSON in place of flags; empty: none
  std::string arguments{};                  ///< training arguments beside it
  std::vector<std::string> given{};         ///< flags that were given
  std::optional<Configured> configured{};   ///< what --config decides
  std::string save{};                       ///< folder of checkpoints; empty: none are written
  std::optional<Index> save_every{};        ///< steps between them; unset: at the end alone
  std::optional<Index> save_total_limit{};  ///< of them that stay
  std::string resume{};                     ///< folder to go on from; empty: a new run
  std::string from_model{};                 ///< model of transformers to begin with; empty: none
  std::string write_model{};                ///< folder for one at the end; empty: none
  std::optional<Index> eval_steps{};        ///< steps between evaluations, each with a checkpoint
  bool load_best_model_at_end = false;      ///< take the best of them
  bool save_only_model = false;             ///< checkpoints without the optimizer's state
  bool json = false;                        ///< end with a line of JSON
  bool help = false;

  /// Steps that this run makes.
  bool offloads() const {
    return optimizer_tier != zero::Tier::device || parameter_tier != zero::Tier::device;
  }
  bool has_files() const {
    return optimizer_tier == zero::Tier::nvme || parameter_tier == zero::Tier::nvme;
  }
  Index last_step() const { return stop_after.value_or(steps); }
  Index warm_up() const { return rate.warmup.value_or(steps / 10); }
  Index tokens_a_step() const { return batch * size.context * accumulation * ranks; }
};

}  // namespace gpt2
