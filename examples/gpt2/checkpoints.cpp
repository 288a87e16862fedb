// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run, of whatever trainer, where Boost.JSON and xxHash are found.

#if GPT2_CHECKPOINT
#include <zero/checkpoint.hpp>

#include <gpt2/trainer_checkpoints.hpp>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace gpt2 {

namespace {

/// A tensor of transformers' GPT-2 as this model calls it: some files leave the prefix out, keep
/// masks, or the head, which is tied to the embedding.
std::string renamed(std::string const& name) {
  if (name == "lm_head.weight" || name.ends_with(".attn.bias") || name.ends_with(".masked_bias"))
    return {};
  return name.starts_with("transformer.") ? name : "transformer." + name;
}

/// Checkpoints of one rank's trainer.
class CheckpointsOf final : public Checkpoints {
 public:
  /// All of them outlive this.
  CheckpointsOf(zero::AnyTrainer trainer, Settings const& settings, Batches& batches)
      : s_(settings), trainer_(std::move(trainer)), batches_(batches) {
    if (!s_.eval_steps) return;
    keeper_.emplace(zero::KeeperOptions{.output_dir = s_.save,
                                        .eval_steps = s_.eval_steps,
                                        .save_total_limit = s_.save_total_limit,
                                        .save_only_model = s_.save_only_model,
                                        .load_best_model_at_end = s_.load_best_model_at_end,
                                        .model = model_options()});
  }

  Index begin() override {
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
  bool evaluates(Index step) const override { return keeper_ && keeper_->evaluates(step); }
  bool evaluates_at_end(Index step) const override {
    return keeper_ && s_.save_only_model && step != saved_;
  }
  void keep(Index step, double validation_loss) override {
    for (std::string const& warning :
         keeper_->keep(trainer_, {{"loss", validation_loss}}, position(step)))
      warn(warning);
    saved_ = step;
  }
  void save(Index step, bool ends) override {
    bool const due = s_.save_every && step % *s_.save_every == 0;
    if (s_.save.empty() || s_.save_only_model || step == saved_ || !(due || ends)) return;
    zero::save(trainer_, s_.save,
               {.data = position(step), .save_total_limit = s_.save_total_limit});
    saved_ = step;
  }
  void end(bool stopped) override {
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
    if (trainer_.rank() == 0) std::cerr << "warning: " << text << "\n";
  }

  Settings const& s_;
  zero::AnyTrainer trainer_;
  Batches& batches_;
  std::optional<zero::CheckpointKeeper> keeper_;
  Index saved_ = -1;
};

}  // namespace

std::unique_ptr<Checkpoints> checkpoints_of(zero::AnyTrainer trainer, Settings const& settings,
                                            Batches& batches) {
  return std::make_unique<CheckpointsOf>(std::move(trainer), settings, batches);
}

}  // namespace gpt2
#endif
