// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much of each unit one rank keeps: what the policy's facts, the options and the world mean in
// elements. Values only: no device, no communicator. Every buffer and every offset of the step
// follows from here and the layout.

#include <zero/policy/options.hpp>
#include <zero/policy/policies.hpp>
#include <zero/shard/layout.hpp>
#include <zero/tier/tier_plan.hpp>

namespace zero {

/// The facts of a policy bundle and an optimizer, as values.
struct Facts {
  bool shards_optimizer = false;       ///< from stage 1
  bool shards_gradients = false;       ///< from stage 2
  bool shards_parameters = false;      ///< from stage 3
  Index parameter_bytes = 4;           ///< of one element
  Index gradient_bytes = 4;            ///< of one element
  bool has_master = false;             ///< float weights behind the parameters
  Index num_states = 0;                ///< floats of optimizer state an element
  bool fp16_parameters = false;        ///< as long as bf16, and another type
  bool fp16_gradients = false;         ///< likewise
  Index master_bytes = 4;              ///< of one master weight, where there are any
  Index state_bytes = 4;               ///< of one of the optimizer's numbers
  bool has_trust_ratio = false;        ///< the optimizer compares norms of whole tensors
  Tier optimizer_tier = Tier::device;  ///< where the optimizer's numbers lie
  Tier parameter_tier = Tier::device;  ///< where slices of parameters lie
  bool checks_gradients = true;        ///< before anything is moved

  /// @tparam P a Policies<...>
  /// @param has_trust_ratio as the optimizer's concept HasTrustRatio
  /// @param num_states of the optimizer
  template <class P>
  static constexpr Facts of(Index num_states, bool has_trust_ratio = false) {
    using S = typename P::Sharding;
    using R = typename P::Precision;
    return {S::shards_optimizer,
            S::shards_gradients,
            S::shards_parameters,
            sizeof(typename R::Parameter),
            sizeof(typename R::Gradient),
            R::has_master,
            num_states,
            std::same_as<typename R::Parameter, fp16>,
            std::same_as<typename R::Gradient, fp16>,
            splits_master<R> ? 2 : 4,
            sizeof(typename P::State::Type),
            has_trust_ratio,
            S::optimizer_tier,
            S::parameter_tier,
            P::Checking::checks};
  }

  /// 0 to 3.
  constexpr int stage() const {
    return int{shards_optimizer} + int{shards_gradients} + int{shards_parameters};
  }
  /// Equal where all facts are.
  std::uint64_t hash() const {
    return Hash()
        .add(Index{stage()})
        .add(parameter_bytes)
        .add(gradient_bytes)
        .add(Index{has_master})
        .add(num_states)
        .add(Index{fp16_parameters})
        .add(Index{fp16_gradients})
        .add(master_bytes)
        .add(state_bytes)
        .add(Index{has_trust_ratio})
        .add(static_cast<Index>(optimizer_tier))
        .add(static_cast<Index>(parameter_tier))
        .add(Index{checks_gradients})
        .value();
  }
};

/// @throws InvalidArgument for options that the facts leave no room for
inline void validate(Facts const& facts, Options const& o) {
  if (facts.optimizer_tier != Tier::device && facts.stage() < 3)
    require_argument(o.offload.ratio == 1, "Options::offload.ratio", o.offload.ratio,
                     "1, or stage 3");
  if (facts.checks_gradients) return;
  require_argument(o.clip == 0, "Options::clip", double{o.clip},
                   "0 with UncheckedGradients, which makes no norm");
  LossScale const scale = o.loss_scale.value_or(LossScale());
  require_argument(!scale.given(), "Options::loss_scale", double{scale.initial()},
                   "none with UncheckedGradients, which sees no overflow");
}

/// One rank's share of every unit. Refers to the layout, which outlives it.
class Shares {
 public:
  /// `layout` outlives this.
  Shares(Layout const& layout, Facts const& facts, Options const& options)
      : layout_(&layout),
        facts_(facts),
        alone_(layout.world() == 1),
        accumulates_(options.accumulation > 1),
        threshold_(options.persistence_threshold),
        offload_(options.offload) {
    Reduction const unset = facts.shards_gradients ? Reduction::micro_batch : Reduction::boundary;
    // Where nothing is sent both are the same sums, and those below the device cost it no memory.
    boundary_ = options.reduction.value_or(unset) == Reduction::boundary &&
                (!alone_ || facts.optimizer_tier == Tier::device);
    if (facts.optimizer_tier == Tier::device) return;
    std::vector<Index> sizes(at(layout.size()));
    for (int u = 0; u < layout.size(); ++u) sizes[at(u)] = owned(u);
    offloads_ = units_below(sizes, offload_.ratio);
    for (int u = 0; u < layout.size(); ++u) mixes_ = mixes_ || (owned(u) > 0 && !offloads(u));
  }

  Facts const& facts() const { return facts_; }  ///< as given
  /// One rank only: no collective is issued.
  bool alone() const { return alone_; }
  /// Float accumulators exist.
  bool accumulates() const { return accumulates_; }
  /// Gradients are reduced with the last micro-batch only.
  bool boundary() const { return boundary_; }
  /// Of what lies below the device.
  OffloadOptions const& offload() const { return offload_; }
  /// The state of this unit's owned elements lies below the device, and is updated there.
  bool offloads(int u) const { return !offloads_.empty() && offloads_[at(u)]; }
  /// Beside state below the device there is some on it: OffloadOptions::ratio is below 1.
  bool mixes() const { return mixes_; }
  /// This unit's slices of parameters lie below the device.
  bool stores_parameters(int u) const {
    return facts_.parameter_tier != Tier::device && sharded_parameters(u);
  }
  /// Parameters are gathered for visits: stage 3 with more than one rank, or from below the device.
  bool gathers() const {
    return facts_.shards_parameters && (!alone_ || facts_.parameter_tier != Tier::device);
  }
  /// This unit's parameters are gathered for its visits and given back.
  bool gathers(int u) const { return gathers() && !resident(u) && layout_->elements(u) > 0; }
  /// Stage 3: this unit stays gathered.
  bool resident(int u) const {
    return facts_.shards_parameters && layout_->elements(u) <= threshold_;
  }
  /// The update of this unit is sent to the other ranks.
  bool publishes(int u) const {
    bool const replicated = facts_.shards_optimizer && (!facts_.shards_parameters || resident(u));
    return replicated && !alone_ && (*layout_)[u].trainable > 0;
  }
  /// A visit's gradients go into a slot that several units use in turn, not into what is kept.
  bool gradient_slots(int u) const {
    return accumulates_ || (facts_.shards_gradients && (!alone_ || offloads(u)));
  }

  /// Elements of parameters kept on the device: the unit, or the slices of its two parts.
  Index parameters(int u) const {
    if (stores_parameters(u)) return 0;
    return sharded_parameters(u) ? layout_->slice(u) + layout_->frozen_slice(u)
                                 : layout_->elements(u);
  }
  /// Where the frozen part starts in what is kept.
  Index frozen_begin(int u) const {
    return sharded_parameters(u) ? layout_->slice(u) : (*layout_)[u].trainable;
  }
  /// Only slices are kept.
  bool sharded_parameters(int u) const { return facts_.shards_parameters && !resident(u); }

  /// Elements whose optimizer state is kept, and that are updated here.
  Index owned(int u) const {
    return facts_.shards_optimizer ? layout_->slice(u) : (*layout_)[u].trainable;
  }
  /// Those whose state is kept on the device.
  Index owned_on_device(int u) const { return offloads(u) ? 0 : owned(u); }
  /// Where they start in the unit's trainable part.
  Index owned_begin(int u, Index rank) const {
    return facts_.shards_optimizer ? layout_->slice_begin(u, rank) : 0;
  }
  /// Where they start in the parameters kept.
  Index owned_in_parameters(int u, Index rank) const {
    return sharded_parameters(u) ? 0 : owned_begin(u, rank);
  }

  /// Elements of reduced gradients kept in the gradient type; none where accumulators hold them.
  Index gradients(int u) const {
    if (accumulates_ || (facts_.shards_gradients && offloads(u))) return 0;
    return facts_.shards_gradients ? layout_->slice(u) : (*layout_)[u].trainable;
  }
  /// Elements of float accumulators kept.
  Index accumulators(int u) const {
    if (!accumulates_ || (offloads(u) && !boundary_)) return 0;
    return boundary_ || !facts_.shards_optimizer ? (*layout_)[u].trainable : layout_->slice(u);
  }
  /// Where the owned elements start in what holds the reduced gradients.
  Index owned_in_gradients(int u, Index rank) const {
    Index const kept = accumulates_ ? accumulators(u) : gradients(u);
    return kept == owned(u) ? 0 : owned_begin(u, rank);
  }

 private:
  Layout const* layout_;
  Facts facts_;
  bool alone_;
  bool accumulates_;
  bool boundary_ = true;
  Index threshold_;
  OffloadOptions offload_;
  std::vector<bool> offloads_;  // of each unit; empty where none is
  bool mixes_ = false;
};

}  // namespace zero
