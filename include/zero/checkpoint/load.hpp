// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loading a checkpoint into a trainer of any stage, world and precision. Tensors are found by name;
// a rank reads the ranges that it keeps, from whatever rank's file they lie in. Everything is
// compared and verified, on every rank, before any state changes.

#include <zero/checkpoint/slice_reader.hpp>
#include <zero/checkpoint/trainer_access.hpp>

namespace zero {

/// How much of a checkpoint is taken.
enum class LoadedParts {
  everything,               ///< training goes on as if it had never stopped
  without_optimizer_state,  ///< the optimizer's numbers start at 0; step and schedule go on
  weights                   ///< a new run from these weights: step 0, states 0
};

/// What is loaded, and how strictly.
struct LoadOptions {
  LoadedParts parts = LoadedParts::everything;  ///< what is taken
  /// false: tensors that are missing or of another shape keep their values, foreign ones are left,
  /// and of another optimizer the states of the same names are taken; all of it is listed.
  bool strict = true;
  /// Host memory, in bytes, that a rank may take to keep what it has read and verified until all
  /// ranks have. Where its blocks fit, each is read once, past the system's memory; else twice.
  Index staging_bytes = 0;
  Files* files = nullptr;  ///< null: the system's; outlives the call
};

/// What a load has found.
struct LoadedCheckpoint {
  std::string folder;                    ///< path of the checkpoint
  Manifest manifest{};                   ///< what it says of itself: step, data, user section
  std::vector<std::string> differences;  ///< taken as they are, with strict = false
  std::vector<std::string> warnings;     ///< settings that differ: the trainer's are used
  Index bytes_read = 0;                  ///< by this rank
};

namespace detail {

inline std::string shapes_differ(std::string const& name, std::vector<Index> const& theirs,
                                 std::vector<Index> const& ours) {
  return "tensor '" + name + "': the checkpoint has " + shape_text(theirs) + ", the model " +
         shape_text(ours);
}

/// What a load must know of a trainer.
struct LoadingTrainer {
  Units const& units;
  CheckpointOptimizer optimizer;
  std::uint64_t seed = 0;
  bool scale_moves = false;
  std::vector<OwnedPiece> trained;  ///< that this rank keeps
  std::vector<OwnedPiece> frozen;
};

/// What of a checkpoint goes where, and how the two differ.
class LoadPlan {
 public:
  /// Where the elements of a need go.
  struct Target {
    OwnedPiece piece;
    bool trainable;
    int state;  ///< of the optimizer; -1: the weights, or the frozen parameters

    /// Where element `first` of the tensor stands in its unit's part.
    Index begin(Index first) const { return piece.begin + (first - piece.first); }
  };

  LoadPlan(LoadingTrainer trainer, Manifest const& manifest, LoadedParts parts)
      : trainer_(std::move(trainer)),
        manifest_(manifest),
        takes_states_(parts == LoadedParts::everything) {
    for (CheckpointUnit const& unit : manifest_.units) {
      for (CheckpointTensor const& t : unit.tensors) theirs_.emplace(t.name, &t);
    }
    compare_tensors();
    if (takes_states_) compare_states();
    if (parts != LoadedParts::weights) compare_settings();
    for (OwnedPiece const& piece : trainer_.trained) add_needs(piece, true);
    for (OwnedPiece const& piece : trainer_.frozen) add_needs(piece, false);
  }

  std::vector<std::string> const& differences() const { return differences_; }  ///< strict refuses
  std::vector<std::string> const& warnings() const { return warnings_; }
  std::vector<NeededSlice> const& needs() const { return needs_; }
  Target const& target(std::size_t need) const { return targets_[need]; }

 private:
  void compare_tensors() {
    std::unordered_set<std::string> mine;
    for (Unit const& unit : trainer_.units) {
      for (Tensor const& t : unit.tensors) {
        mine.insert(t.name);
        auto const it = theirs_.find(t.name);
        if (it == theirs_.end()) {
          differences_.push_back("tensor '" + t.name + "' is not in the checkpoint");
        } else if (it->second->shape != t.shape) {
          differences_.push_back(shapes_differ(t.name, it->second->shape, t.shape));
        } else if (it->second->trainable != t.trainable && !manifest_.optimizer.name.empty()) {
          differences_.push_back("tensor '" + t.name + "' is " +
                                 (t.trainable ? "trained in the model and frozen"
                                              : "frozen in the model and trained") +
                                 " in the checkpoint");
        }
      }
    }
    for (auto const& [name, tensor] : theirs_) {
      if (!mine.contains(name))
        differences_.push_back("tensor '" + name + "' of the checkpoint is not in the model");
    }
  }
  void compare_states() {
    std::string const theirs = manifest_.optimizer.name.empty() ? "none" : manifest_.optimizer.name;
    if (theirs != trainer_.optimizer.name)
      differences_.push_back("optimizer: the checkpoint has " + theirs + ", the trainer " +
                             trainer_.optimizer.name);
    for (std::string const& state : trainer_.optimizer.states) {
      if (!has_state(state))
        differences_.push_back("optimizer: the checkpoint has no state '" + state + "'");
    }
  }
  bool has_state(std::string const& state) const {
    return std::ranges::find(manifest_.optimizer.states, state) != manifest_.optimizer.states.end();
  }
  void compare_settings() {
    auto const number = [](double x) { return exact_json(boost::json::value(x)); };
    auto const warn = [&](std::string const& name, std::string const& theirs,
                          std::string const& ours) {
      warnings_.push_back(name + ": the checkpoint has " + theirs + ", this run " + ours +
                          ", which is used");
    };
    for (auto const& [name, value] : trainer_.optimizer.settings) {
      auto const theirs = manifest_.optimizer.settings.find(name);
      if (theirs != manifest_.optimizer.settings.end() && theirs->second != value)
        warn("optimizer setting " + name, number(theirs->second), number(value));
    }
    bool const same_optimizer = trainer_.optimizer.name == manifest_.optimizer.name;
    if (same_optimizer && trainer_.optimizer.hash != manifest_.optimizer.hash)
      warn("schedule of the optimizer", "another one", "its own");
    if (manifest_.seed != trainer_.seed)
      warn("Options::seed", std::to_string(manifest_.seed), std::to_string(trainer_.seed));
    if (manifest_.loss_scale.moves != trainer_.scale_moves)
      warn("loss scale", manifest_.loss_scale.moves ? "a dynamic one" : "a fixed one",
           trainer_.scale_moves ? "a dynamic one" : "a fixed one");
  }

  /// One need for a tensor kept here that the checkpoint has in the same shape, and one for each
  /// state of it that both have.
  void add_needs(OwnedPiece const& piece, bool trainable) {
    Tensor const& t = trainer_.units[at(piece.unit)].tensors[at(piece.tensor)];
    auto const it = theirs_.find(t.name);
    if (it == theirs_.end() || it->second->shape != t.shape) return;
    bool const was_trained = it->second->trainable;
    add(was_trained ? checkpoint_kind::master : checkpoint_kind::parameter, t.name,
        {piece, trainable, -1});
    if (!trainable || !was_trained || !takes_states_) return;
    for (std::size_t k = 0; k < trainer_.optimizer.states.size(); ++k) {
      std::string const& state = trainer_.optimizer.states[k];
      if (has_state(state))
        add(std::string(checkpoint_kind::state) + state, t.name,
            {piece, trainable, static_cast<int>(k)});
    }
  }
  void add(std::string_view kind, std::string const& name, Target target) {
    needs_.push_back({std::string(kind), name, target.piece.first, target.piece.elements});
    targets_.push_back(target);
  }

  LoadingTrainer trainer_;
  Manifest const& manifest_;
  bool takes_states_;  // else they become 0
  std::map<std::string, CheckpointTensor const*, std::less<>> theirs_;
  std::vector<std::string> differences_;
  std::vector<std::string> warnings_;
  std::vector<NeededSlice> needs_;
  std::vector<Target> targets_;
};

/// Counts, rate and loss scale as they go on.
inline Decision loaded_decision(Manifest const& m, LoadedParts parts, LossScale const& scale) {
  Decision d{};
  d.loss_scale = d.used_scale = scale.initial();
  d.scale_state = LossScaleState::first(scale);
  if (parts == LoadedParts::weights) return d;
  d.updates = m.updates;
  d.skipped = m.skipped;
  d.learning_rate = static_cast<float>(m.learning_rate);
  d.bad_losses = m.loss_scale.bad_losses;
  if (m.loss_scale.moves && scale.moves()) {
    d.loss_scale = d.used_scale = m.loss_scale.scale;
    d.scale_state = m.loss_scale.state;
  }
  return d;
}

inline std::string listed(std::vector<std::string> const& all) {
  std::string text;
  for (std::string const& one : all) text += "\n  " + one;
  return text;
}

/// The way of a checkpoint into a trainer, in the order of its steps.
/// @param find (Files&) -> FoundCheckpoint
/// @param open (Files&, FoundCheckpoint const&, std::optional<SliceReader>&) makes the reader
inline LoadedCheckpoint load_into(
    TrainerAccess& x, std::string const& dir, LoadOptions const& options,
    std::function<FoundCheckpoint(Files&)> const& find,
    std::function<void(Files&, FoundCheckpoint const&, std::optional<SliceReader>&)> const& open) {
  x.synchronize();
  Files& files = options.files == nullptr ? PosixFiles::of_system() : *options.files;
  Ranks const ranks = ranks_of(x, "load");
  FoundCheckpoint found;
  std::optional<LoadPlan> plan;
  std::optional<SliceReader> reader;
  LoadingTrainer facts{x.units(),
                       x.optimizer(),
                       x.seed(),
                       x.loss_scale().moves(),
                       pieces_of(x, true, &TrainerAccess::kept),
                       pieces_of(x, false, &TrainerAccess::kept)};
  ranks.together([&] {
    found = find(files);
    plan.emplace(std::move(facts), found.manifest, options.parts);
    if (options.strict && !plan->differences().empty()) {
      throw CheckpointError("checkpoint: '" + found.folder +
                            "' is not of this trainer:" + listed(plan->differences()));
    }
    open(files, found, reader);
    reader->need(plan->needs());
    reader->verify(options.staging_bytes);
  });
  ranks.require_same(manifest_text(found.manifest), "different checkpoints in '" + dir + "'");
  ranks.require_same(std::to_string(static_cast<int>(options.parts)) + (options.strict ? "s" : "n"),
                     "different LoadOptions::parts or strict");
  // From here on a failure leaves the trainer between two states, and ends it on every rank.
  x.guarded([&] {
    if (options.parts != LoadedParts::everything || !plan->differences().empty()) x.clear_states();
    reader->read([&](std::size_t need, Index first, std::span<float const> values) {
      LoadPlan::Target const& to = plan->target(need);
      NumberOf const number{to.state >= 0 ? NumberKind::state : NumberKind::weight, to.state};
      x.write(number, to.piece.unit, to.trainable, {}, to.begin(first), values);
    });
    x.publish();
    x.set_decision(loaded_decision(found.manifest, options.parts, x.loss_scale()),
                   options.parts == LoadedParts::weights ? 0 : found.manifest.step);
  });
  x.synchronize();
  return {found.folder, found.manifest, plan->differences(), plan->warnings(),
          reader->bytes_read()};
}

inline LoadedCheckpoint load_into(TrainerAccess& x, std::string const& dir,
                                  LoadOptions const& options) {
  return load_into(
      x, dir, options, [&](Files& files) { return find_checkpoint(dir, files); },
      [](Files& files, FoundCheckpoint const& found, std::optional<SliceReader>& reader) {
        reader.emplace(files, found);
      });
}

}  // namespace detail

/// Loads a checkpoint. Every rank calls it, between steps; a trainer that has trained may load as
/// well as a new one. Float weights and states get the bits that were saved, at any stage, world
/// and precision of parameters; where State<bf16> meets states saved as float, they are rounded to
/// nearest. Hyper-parameters and schedule stay the trainer's; where they differ, `warnings` says
/// so.
/// @param trainer a Trainer, or what has its parts
/// @param dir a checkpoint, or the folder that holds `latest`
/// @param options what is taken; the same on every rank
/// @throws CheckpointError on every rank, before any state has changed, naming file and tensor for
/// what is missing, damaged, cut short, foreign, twice there or half written; with strict, listing
/// every difference of model and optimizer
/// Memory: four blocks and one tile of the host, whatever the model's size, and with
/// `staging_bytes` at most so many more; nothing on the device.
/// Communication: exchanges of words, and one publication of parameters as after an update.
template <HasParts T>
LoadedCheckpoint load(T& trainer, std::string const& dir, LoadOptions const& options = {}) {
  detail::AccessOf<T> access(trainer);
  return detail::load_into(access, dir, options);
}

}  // namespace zero
