// SPDX-License-Identifier: Apache-2.0
#pragma once
// Phase 5, publish: every rank gets every owner's new parameters of the units that are replicated
// while their optimizer state is sharded. Nothing waits here; the next visit of a unit waits for
// its own event.

#include <zero/step/context.hpp>

namespace zero {

/// Sends this rank's updated slices and receives the others'.
/// Communication: stages 1-2, one all_gather a unit with trainable elements; stage 3, one a unit
/// kept resident; units are grouped up to Options::publish_bucket elements. Ordering: on the
/// gathering stream, after each unit's update.
/// @tparam X a Context
template <class X>
class Publish {
 public:
  using C = typename X::Communicator;       ///< of the ranks
  using D = typename X::Device;             ///< of this rank
  using Parameter = typename X::Parameter;  ///< on the wire

  /// @param context,kept outlive this; kept: one slot a unit, the parameters this rank keeps
  Publish(X& context, SlotArray<D>& kept)
      : context_(context), kept_(kept), communicator_(context.communicator.channel(1)) {
    held_.reserve(at(context.layout.size()));
    if constexpr (X::Sharding::shards_optimizer) make_groups();
  }

  /// Sends this rank's updates to the others and enqueues the receipt of theirs.
  void operator()() {
    if constexpr (X::Sharding::shards_optimizer) {
      if (context_.shares.alone()) return;
      PhaseTimer const timer(context_.seconds.publish);
      for (Grouped& group : groups_) group.issue(context_.gathering, [&] { publish(group.units); });
    }
  }

 private:
  struct Grouped {
    std::vector<int> units{};
    Repeated<D> issue;
  };

  void make_groups() {
    Index const bucket = context_.options.publish_bucket.value_or(context_.options.bucket);
    Index in_group = 0;
    for (int u = 0; u < context_.layout.size(); ++u) {
      if (!context_.shares.publishes(u)) continue;
      Index const n = context_.layout[u].trainable;
      if (groups_.empty() || (in_group > 0 && in_group + n > bucket)) {
        groups_.push_back({{}, Repeated<D>(context_.options.replay && CanReplayCollectives<C>)});
        in_group = 0;
      }
      in_group += n;
      groups_.back().units.push_back(u);
    }
  }

  void publish(std::vector<int> const& units) {
    Group<C> group(communicator_);
    for (int u : units) {
      Index const n = context_.layout[u].trainable;
      Index const slice = context_.layout.slice(u);
      ranges_.begin("publish", context_.layout[u].name);
      auto& claim = held_.emplace_back(kept_[u].template on<Parameter>(context_.gathering));
      communicator_.all_gather(claim.source(context_.layout.slice_begin(u, context_.rank()), slice),
                               claim.target(0, n), context_.where(1, "publish", u));
    }
    group.end();
    held_.clear();
    ranges_.end();
  }

  X& context_;
  SlotArray<D>& kept_;
  C communicator_;
  std::vector<Grouped> groups_;
  std::vector<Claim<Parameter, D>> held_;
  [[no_unique_address]] OpenRanges<D> ranges_;
};

}  // namespace zero
