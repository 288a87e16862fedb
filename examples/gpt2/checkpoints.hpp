// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checkpoints of a run: what it begins with, when one is written, and what it ends with.
// Compiled where Boost.JSON and xxHash are found; elsewhere their flags are refused.

#if GPT2_CHECKPOINT
#include <zero/checkpoint.hpp>
#endif

#include <gpt2/batches.hpp>
#include <gpt2/flags.hpp>

#include <iostream>
#include <optional>
#include <string>

namespace gpt2 {

/// @throws WrongFlag where the settings ask for what this program was built without
inline void require_checkpoints(Settings const& s) {
#if !GPT2_CHECKPOINT
  if (!s.save.empty() || !s.resume.empty() || !s.from_model.empty() || !s.write_model.empty())
    throw WrongFlag("gpt2: checkpoints need Boost.JSON and xxHash, which were not found");
#else
  static_cast<void>(s);
#endif
}

namespace detail {

#if GPT2_CHECKPOINT

/// A tensor of transformers' GPT-2 as this model calls it: some files leave the prefix out, keep
/// masks, or the head, which is tied to the embedding.
inline std::string renamed(std::string const& name) {
  if (name == "lm_head.weight" || name.ends_with(".attn.bias") || name.ends_with(".masked_bias"))
    return {};
  return name.starts_with("transformer.") ? name : "transformer." + name;
}

/// Checkpoints of one rank's trainer; every rank has one and calls the same members.
template <class Trainer>
class Checkpoints {
 public:
  /// All of them outlive this.
  Checkpoints(Settings const& settings, Trainer& trainer, Batches& batches)
      : s_(settings), trainer_(trainer), batches_(batches) {
    if (!s_.eval_steps) return;
    keeper_.emplace(zero::KeeperOptions{.output_dir = s_.save,
                                        .eval_steps = s_.eval_steps,
                                        .save_total_limit = s_.save_total_limit,
                                        .save_only_model = s_.save_only_model,
                                        .load_best_model_at_end = s_.load_best_model_at_end,
                                        .model = model_options()});
  }

  /// Loads what the run begins with. @return steps that were made before
  Index begin() {
    if (!s_.from_model.empty()) {
      zero::load_model(trainer_, s_.from_model, {.rename = renamed});
      return 0;
    }
    if (s_.resume.empty()) return 0;
    zero::LoadedCheckpoint const loaded = zero::load(trainer_, s_.resume);
    for (std::string const& warning : loaded.warnings) warn(warning);
    Index const step = loaded.manifest.step;
    if (step > s_.last_step()) {
      throw zero::InvalidArgument("gpt2: '" + loaded.folder + "' is at step " +
                                  std::to_string(step) + ", and this run ends after step " +
                                  std::to_string(s_.last_step()));
    }
    batches_.resume({step, loaded.manifest.data.epoch, loaded.manifest.data.samples});
    if (keeper_) keeper_->resume(trainer_);
    return step;
  }
  bool evaluates(Index step) const { return keeper_ && keeper_->evaluates(step); }
  /// Whether a run that ends after this step evaluates before: a model is kept with its metric.
  bool evaluates_at_end(Index step) const {
    return keeper_ && s_.save_only_model && step != saved_;
  }
  /// A checkpoint with what an evaluation has measured.
  void keep(Index step, double validation_loss) {
    for (std::string const& warning :
         keeper_->keep(trainer_, {{"loss", validation_loss}}, position(step)))
      warn(warning);
    saved_ = step;
  }
  /// A checkpoint where one is due.
  /// @param ends this was the last step
  void save(Index step, bool ends) {
    bool const due = s_.save_every && step % *s_.save_every == 0;
    if (s_.save.empty() || s_.save_only_model || step == saved_ || !(due || ends)) return;
    zero::save(trainer_, s_.save,
               {.data = position(step), .save_total_limit = s_.save_total_limit});
    saved_ = step;
  }
  /// Takes the best checkpoint and writes the model, where the settings ask for it.
  /// @param stopped by a signal, which may come before anything was evaluated
  void end(bool stopped) {
    if (keeper_ && !(stopped && keeper_->best().empty())) keeper_->finish(trainer_);
    if (!s_.write_model.empty()) zero::save_model(trainer_, s_.write_model, model_options());
  }

 private:
  /// A configuration decides whether stage 3 gathers; flags ask for what they ask for.
  zero::ModelOptions model_options() const {
    bool const gathers =
        s_.configured ? s_.configured->gather_16bit_weights_on_model_save : s_.stage == 3;
    return {.stage3_gather_16bit_weights_on_model_save = gathers};
  }
  zero::DataPosition position(Index step) const {
    Origin const next = batches_.place(step);
    return {next.epoch, next.samples};
  }
  void warn(std::string const& text) const {
    if (trainer_.context().rank() == 0) std::cerr << "warning: " << text << "\n";
  }

  Settings const& s_;
  Trainer& trainer_;
  Batches& batches_;
  std::optional<zero::CheckpointKeeper> keeper_;
  Index saved_ = -1;
};

#else

template <class Trainer>
class Checkpoints {
 public:
  Checkpoints(Settings const&, Trainer&, Batches&) {}
  Index begin() { return 0; }
  bool evaluates(Index) const { return false; }
  bool evaluates_at_end(Index) const { return false; }
  void keep(Index, double) {}
  void save(Index, bool) {}
  void end(bool) {}
};

#endif

}  // namespace detail

}  // namespace gpt2
