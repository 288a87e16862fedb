// SPDX-License-Identifier: Apache-2.0
#pragma once
// What of a checkpoint goes where in a trainer, and how the two differ: by names and shapes alone,
// before anything is read.

#include <zero/checkpoint/slice_reader.hpp>
#include <zero/checkpoint/trainer_access.hpp>

namespace zero {

/// How much of a checkpoint is taken.
enum class LoadedParts {
  everything,               ///< training goes on as if it had never stopped
  without_optimizer_state,  ///< the optimizer's numbers start at 0; step and schedule go on
  weights                   ///< a new run from these weights: step 0, states 0
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
    NumberOf number() const { return {state >= 0 ? NumberKind::state : NumberKind::weight, state}; }
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
  bool takes_states() const { return takes_states_; }  ///< else they become 0
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
  bool takes_states_;
  std::map<std::string, CheckpointTensor const*, std::less<>> theirs_;
  std::vector<std::string> differences_;
  std::vector<std::string> warnings_;
  std::vector<NeededSlice> needs_;
  std::vector<Target> targets_;
};

}  // namespace detail

}  // namespace zero
