// SPDX-License-Identifier: Apache-2.0
#pragma once
// Phase 3, clip: the norm of the whole gradient, whether all of it is finite, and the one decision
// of the step. Each slice has a record, filled by its owner, or by every rank where all keep
// everything; the order of sums is the same.

#include <zero/step/gradients.hpp>

namespace zero {

/// Communication: where the optimizer is sharded, one all_gather of 4 doubles a rank; else nothing.
/// Ordering: on the compute stream, after all reductions. The host waits for nothing.
/// @tparam X a Context
template <class X>
class Clip {
 public:
  using C = typename X::Communicator;  ///< of the ranks
  using D = typename X::Device;        ///< of this rank

  /// @param context outlives this
  explicit Clip(X& context) : context_(context), communicator_(context.communicator.channel(0)) {}

  /// Replaces the decision with that of this step.
  /// @param gradients reduced
  /// @param micro_batches that were given, the same count on every rank
  /// @param learning_rate (Index update) -> float, copied to the device
  template <class LearningRate>
  void operator()(Gradients<X>& gradients, Index micro_batches, LearningRate const& learning_rate) {
    PhaseTimer const timer(context_.seconds.clip);
    auto& stream = context_.compute;
    Index const world = context_.world();
    context_.issued[0].add(micro_batches);
    auto records = context_.records().template on<double>(stream);
    constexpr Index width = norm_record_doubles;
    if constexpr (X::Sharding::shards_optimizer) {
      Index const rank = context_.rank();
      add_slice(gradients, rank, records.view(rank * width, width));
      if (!context_.shares.alone()) {
        communicator_.all_gather(records.source(rank * width, width),
                                 records.target(0, world * width),
                                 Where{"clip", "norm records", context_.step});
      }
    } else {
      for (Index r = 0; r < world; ++r) add_slice(gradients, r, records.view(r * width, width));
    }
    auto decision = context_.decision().template on<Decision>(stream);
    DecisionInputs const inputs{world, static_cast<double>(context_.options.clip),
                                static_cast<double>(world * micro_batches)};
    decide(stream, View<double const, D>(records.view(0, world * width)), decision.view(0, 1),
           inputs, learning_rate);
    context_.issued.fill({});
  }

 private:
  void add_slice(Gradients<X>& gradients, Index rank, View<double, D> record) {
    start_record(context_.compute, record, context_.done());
    for (int u = 0; u < context_.layout.size(); ++u) {
      Index const n = context_.layout.slice(u);
      if (n == 0) continue;
      gradients.with_sums(u, context_.layout.slice_begin(u, rank), n, [&](auto sums) {
        add_squares(context_.compute, sums, record, Index{u});
      });
    }
  }

  X& context_;
  C communicator_;
};

}  // namespace zero
