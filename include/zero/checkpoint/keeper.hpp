// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which checkpoints of a run stay, and which is its best: transformers' options of the same names,
// for a loop that evaluates and hands over what it has measured.

#include <zero/checkpoint/model.hpp>

#include <bit>
#include <cmath>

namespace zero {

/// The options of transformers' TrainingArguments, under their names.
struct KeeperOptions {
  /// Folder of the checkpoints.
  std::string output_dir{};
  /// Steps between evaluations, at least 1; unset: the loop asks itself.
  std::optional<Index> eval_steps{};
  /// Checkpoints that stay, besides the best and what `latest` names, at least 1; unset: all.
  std::optional<Index> save_total_limit{};
  /// Write models without the optimizer's state: no run goes on from them.
  bool save_only_model = false;
  /// Load the best checkpoint when training is over.
  bool load_best_model_at_end = false;
  /// What decides which is best, with or without "eval_" in front.
  std::string metric_for_best_model = "loss";
  /// Unset: false for names that end in "loss", else true.
  std::optional<bool> greater_is_better{};
  /// How models are written, with save_only_model.
  ModelOptions model{};
  Files* files = nullptr;  ///< null: the system's; outlives the keeper
};

/// Keeps the checkpoints of a run. Every rank has its own and calls the same members in the same
/// order, with the same metrics.
///
///     zero::CheckpointKeeper keeper{{.output_dir = "run", .eval_steps = 100,
///                                    .load_best_model_at_end = true}};
///     ...
///     if (keeper.evaluates(step)) keeper.keep(trainer, {{"loss", validate()}});
///     ...
///     keeper.finish(trainer);
class CheckpointKeeper {
 public:
  /// What the loop has measured, by name.
  using Metrics = std::map<std::string, double>;

  /// @throws InvalidArgument for options that are impossible, each or together: save_only_model
  /// with load_best_model_at_end, since from weights alone a trainer cannot be loaded again
  explicit CheckpointKeeper(KeeperOptions options) : options_(std::move(options)) {
    if (options_.save_only_model && options_.load_best_model_at_end) {
      throw InvalidArgument(
          "CheckpointKeeper: save_only_model with load_best_model_at_end: a model without the "
          "optimizer's state cannot be loaded at the end; turn one of them off");
    }
    if (options_.output_dir.empty())
      throw InvalidArgument("CheckpointKeeper: output_dir is empty; expected a folder");
    if (options_.eval_steps && *options_.eval_steps < 1) {
      throw InvalidArgument("KeeperOptions::eval_steps: found " +
                            std::to_string(*options_.eval_steps) + "; expected at least 1 step");
    }
    if (options_.save_total_limit && *options_.save_total_limit < 1) {
      throw InvalidArgument("KeeperOptions::save_total_limit: found " +
                            std::to_string(*options_.save_total_limit) +
                            "; expected at least 1 checkpoint");
    }
    options_.model.files = options_.files;
  }

  KeeperOptions const& options() const { return options_; }  ///< as given
  /// Whether a loop evaluates after this step, from 1.
  bool evaluates(Index step) const {
    return options_.eval_steps && step % *options_.eval_steps == 0;
  }
  /// Whether more of the metric is better.
  bool greater_is_better() const {
    return options_.greater_is_better.value_or(!options_.metric_for_best_model.ends_with("loss"));
  }
  /// Name of the best checkpoint so far; empty before the first.
  std::string const& best() const { return best_; }
  /// Its metric.
  std::optional<double> best_metric() const { return best_metric_; }
  /// Goes on with what an earlier run found best. Every rank calls it, after it has loaded; rank 0
  /// looks. A model alone, as save_only_model writes it, holds no metric: it stays the best, which
  /// is never removed, until the next evaluation, whatever that measures.
  /// @param trainer a Trainer
  /// @throws CheckpointError on every rank, where the file `best` names nothing, or a checkpoint
  /// without a metric
  void resume(AnyTrainer const& trainer) {
    resume(detail::ranks_of(*trainer.access(), "go on with the best checkpoint"));
  }

  /// Saves, as best where the metric says so, and takes away what is beyond the limit, never the
  /// newest, the best, nor what `latest` names: from that a run goes on, and models leave it there.
  /// @param trainer a Trainer
  /// @param metrics with the one that decides
  /// @param data, user as SaveOptions
  /// @return what warnings there are, each once a keeper
  /// @throws InvalidArgument where the metric is not among `metrics`, or no number; as save and
  /// save_model
  std::vector<std::string> keep(AnyTrainer const& trainer, Metrics const& metrics,
                                DataPosition data = {}, boost::json::object const& user = {}) {
    return keep(*trainer.access(), metrics, data, user);
  }

  /// Where load_best_model_at_end asks for it, loads the best checkpoint.
  /// @return what was loaded, if anything
  /// @throws CheckpointError, as load; where nothing was kept
  std::optional<LoadedCheckpoint> finish(AnyTrainer const& trainer) {
    if (!options_.load_best_model_at_end) return std::nullopt;
    if (best_.empty()) {
      throw CheckpointError("checkpoint: load_best_model_at_end, and '" + options_.output_dir +
                            "' has no best checkpoint: nothing was evaluated");
    }
    LoadOptions load_options;
    load_options.files = options_.files;
    return load(trainer, detail::join_path(options_.output_dir, best_), load_options);
  }

 private:
  void resume(detail::Ranks const& ranks) {
    std::string name;
    std::string metric;
    ranks.together([&] {
      if (ranks.rank() != 0) return;
      auto const named = detail::named_in(files(), options_.output_dir, detail::best_name);
      if (!named) return;
      std::string const folder = detail::join_path(options_.output_dir, *named);
      std::vector<std::string> inside;
      detail::check_file(files().list(folder, inside), "looking for the best checkpoint in",
                         folder);
      if (detail::is_there(files(),
                           detail::join_path(folder, std::string(detail::manifest_name)))) {
        FoundCheckpoint const found = find_checkpoint(folder, files());
        if (!found.manifest.metric)
          throw CheckpointError("checkpoint: '" + folder + "' is the best, and has no metric");
        metric = std::to_string(std::bit_cast<std::uint64_t>(*found.manifest.metric));
      } else if (std::ranges::none_of(inside, [](std::string const& file) {
                   return file.starts_with("model") &&
                          file.find(".safetensors") != std::string::npos;
                 })) {
        throw CheckpointError("checkpoint: '" + folder + "' is the best, and has neither " +
                              std::string(detail::manifest_name) + " nor a model");
      }
      name = *named;
    });
    best_ = ranks.texts(name)[0];
    metric = ranks.texts(metric)[0];
    best_metric_.reset();
    if (!metric.empty()) best_metric_ = std::bit_cast<double>(std::uint64_t{std::stoull(metric)});
  }
  std::vector<std::string> keep(detail::TrainerAccess& x, Metrics const& metrics, DataPosition data,
                                boost::json::object const& user) {
    detail::Ranks const ranks = detail::ranks_of(x, "keep a checkpoint");
    double metric = 0;
    ranks.require_all<InvalidArgument>(detail::failure_of([&] { metric = metric_in(metrics); }));
    bool const better =
        !best_metric_ || (greater_is_better() ? metric > *best_metric_ : metric < *best_metric_);
    ranks.require_same(std::to_string(std::bit_cast<std::uint64_t>(metric)), "different metrics");
    std::vector<std::string> warnings;
    std::string name;
    if (options_.save_only_model) {
      name = keep_model(x, ranks, warnings);
    } else {
      SaveOptions save_options;
      save_options.data = data;
      save_options.user = user;
      save_options.metric = metric;
      save_options.files = options_.files;
      name = detail::save_from(x, options_.output_dir, save_options).name;
    }
    if (better) {
      best_ = name;
      best_metric_ = metric;
    }
    ranks.together([&] {
      if (ranks.rank() != 0) return;
      if (better)
        detail::replace_text(files(), options_.output_dir, std::string(detail::best_name),
                             best_ + "\n");
      if (options_.save_total_limit) remove_old(name);
    });
    return warnings;
  }

  Files& files() const {
    return options_.files == nullptr ? PosixFiles::of_system() : *options_.files;
  }
  double metric_in(Metrics const& metrics) const {
    std::string const& name = options_.metric_for_best_model;
    auto found = metrics.find(name);
    if (found == metrics.end())
      found = metrics.find(name.starts_with("eval_") ? name.substr(5) : "eval_" + name);
    if (found == metrics.end()) {
      std::string all;
      for (auto const& [other, value] : metrics) all += (all.empty() ? "" : ", ") + other;
      throw InvalidArgument("CheckpointKeeper: metric_for_best_model is '" + name +
                            "', and the loop has measured " + (all.empty() ? "nothing" : all));
    }
    if (!std::isfinite(found->second))
      throw InvalidArgument("CheckpointKeeper: '" + name + "' is not finite");
    return found->second;
  }
  /// A model in a folder of its own, which comes into being whole.
  std::string keep_model(detail::TrainerAccess& x, detail::Ranks const& ranks,
                         std::vector<std::string>& warnings) {
    std::string made;
    std::shared_ptr<void> turn;  // rank 0's, as the folder is
    std::optional<detail::WorkFolder> work;
    ranks.together([&] {
      if (ranks.rank() != 0) return;
      turn = detail::take_folder(files(), options_.output_dir);
      made = detail::begin_checkpoint(files(), options_.output_dir, x.step());
      work.emplace(files(), detail::work_folder(options_.output_dir, made));
    });
    std::string const name = ranks.texts(made)[0];
    SavedModel const saved =
        detail::save_model_from(x, detail::work_folder(options_.output_dir, name), options_.model);
    if (!warned_) warnings = saved.warnings;
    warned_ = true;
    ranks.together([&] {
      if (ranks.rank() != 0) return;
      detail::name_checkpoint(files(), options_.output_dir, name);
      work->keep();
    });
    return name;
  }
  void remove_old(std::string const& newest) {
    std::vector<std::string> kept{newest, best_};
    if (auto const latest = detail::named_in(files(), options_.output_dir, detail::latest_name))
      kept.push_back(*latest);
    auto const names = detail::checkpoint_names(files(), options_.output_dir);
    for (std::string const& name : detail::beyond_limit(names, *options_.save_total_limit, kept))
      detail::remove_checkpoint(files(), options_.output_dir, name);
  }

  KeeperOptions options_;
  std::string best_;
  std::optional<double> best_metric_;
  bool warned_ = false;
};

}  // namespace zero
