// SPDX-License-Identifier: Apache-2.0
#pragma once
// Phase 3, clip: the norm of the whole gradient, whether all of it is finite, and the one decision
// of the step. Each slice has a record, filled by its owner, or by every rank where all keep
// everything; the order of sums is the same.

#include <zero/device/replay.hpp>
#include <zero/optim/not_finite.hpp>
#include <zero/step/gradients.hpp>

namespace zero {

/// Communication: with UncheckedGradients none, and no order after reductions either. Else: where
/// the optimizer is sharded, one all_gather of 4 doubles a rank; else, where there is a loss scale,
/// one all_reduce of a gradient element a rank: whether its loss is finite. Ordering: on the
/// compute stream, after all reductions. The host waits for nothing; on a device that runs host
/// code the work throws NotFinite where the decision has failed.
/// @tparam X a Context
template <class X>
class Clip {
 public:
  using C = typename X::Communicator;  ///< of the ranks
  using D = typename X::Device;        ///< of this rank

  /// @param context outlives this
  explicit Clip(X& context)
      : context_(context),
        communicator_(context.communicator.channel(0)),
        squares_(context.options.replay) {}

  /// Replaces the decision with that of this step.
  /// @param gradients reduced
  /// @param micro_batches that were given, the same count on every rank
  /// @param learning_rate (Index update) -> float, copied to the device
  template <class LearningRate>
  void operator()(Gradients<X>& gradients, Index micro_batches, LearningRate const& learning_rate) {
    PhaseTimer const timer(context_.seconds.clip);
    [[maybe_unused]] typename X::Range const range("clip", "");
    auto& stream = context_.compute;
    Index const world = context_.world();
    context_.issued[0].add(micro_batches);
    auto records = context_.records().template on<double>(stream);
    constexpr Index width = norm_record_doubles;
    if constexpr (!X::Policy::Checking::checks) {
      fill_zero(stream, records.view(0, world * width));  // nothing is known, all is well
    } else if constexpr (X::Sharding::shards_optimizer) {
      Index const rank = context_.rank();
      auto const record = records.view(rank * width, width);
      start_record(stream, record, context_.done());
      squares_(stream, {gradients.number()}, [&] { add_slice(gradients, rank, record); });
      mark_loss(records.view(rank * width + 3, 1));
      if (!context_.shares.alone()) {
        communicator_.all_gather(records.source(rank * width, width),
                                 records.target(0, world * width),
                                 Where{"clip", "norm records", context_.step});
      }
    } else {
      for (Index r = 0; r < world; ++r)
        start_record(stream, records.view(r * width, width), context_.done());
      squares_(stream, {gradients.number()}, [&] {
        for (Index r = 0; r < world; ++r) add_slice(gradients, r, records.view(r * width, width));
      });
      share_losses(records);
    }
    auto decision = context_.decision().template on<Decision>(stream);
    DecisionInputs const inputs{world, static_cast<double>(context_.options.clip),
                                static_cast<double>(world * micro_batches), context_.loss_scale};
    decide(stream, View<double const, D>(records.view(0, world * width)), decision.view(0, 1),
           inputs, learning_rate);
    if constexpr (below) context_.tiers.decided(stream, decision.view());
    if constexpr (RunsHostCode<D>) {
      stream.enqueue([d = decision.view(0, 1), x = &context_, step = context_.step] {
        check_finite(*D::resolve(d.address()), step, [x](Index u) { return x->place(u); });
      });
    }
    context_.issued.fill({});
  }

 private:
  /// Reduced gradients lie below the device.
  static constexpr bool below = X::Sharding::optimizer_tier != Tier::device;

  void add_slice(Gradients<X>& gradients, Index rank, View<double, D> record) {
    if constexpr (below) {
      if (context_.shares.mixes()) add_units(gradients, rank);
      context_.tiers.write_squares(context_.compute, record);
    } else {
      for (int u = 0; u < context_.layout.size(); ++u) add_unit(gradients, rank, u, record);
    }
  }
  void add_unit(Gradients<X>& gradients, Index rank, int u, View<double, D> record) {
    Index const n = context_.layout.slice(u);
    if (n == 0) return;
    gradients.with_sums(u, context_.layout.slice_begin(u, rank), n, [&](auto sums) {
      add_squares(context_.compute, sums, record, context_.mark(u));
    });
  }
  /// Units whose state stays on the device, each in a record of its own: their sums are added below
  /// the device, in the order of all units.
  void add_units(Gradients<X>& gradients, Index rank) {
    auto records = context_.unit_records().template on<double>(context_.compute);
    fill_zero(context_.compute, records.view());
    for (int u = 0; u < context_.layout.size(); ++u) {
      if (context_.shares.offloads(u)) continue;
      add_unit(gradients, rank, u, records.view(u * norm_record_doubles, norm_record_doubles));
    }
    context_.tiers.take_squares(context_.compute, View<double const, D>(records.view()));
  }

  template <class T>
  void mark_loss(View<T, D> to) {
    if (!context_.loss_scale.given()) return;
    auto loss = context_.loss().template on<double>(context_.compute);
    mark_not_finite(context_.compute, View<double const, D>(loss.view(1, 1)), to);
  }

  /// Stage 0 exchanges no records, and yet every rank is to know of every loss.
  void share_losses(Claim<double, D>& records) {
    if (!context_.loss_scale.given()) return;
    using G = typename X::Gradient;
    auto& stream = context_.compute;
    Index const world = context_.world();
    auto marks = context_.exchange_rows().template on<G>(stream);
    fill_zero(stream, marks.view(0, world));
    mark_loss(marks.view(context_.rank(), 1));
    if (world > 1)
      communicator_.all_reduce(marks.target(0, world), Where{"clip", "losses", context_.step});
    for (Index r = 0; r < world; ++r) {
      mark_not_finite(stream, View<G const, D>(marks.view(r, 1)),
                      records.view(r * norm_record_doubles + 3, 1));
    }
  }

  X& context_;
  C communicator_;
  Repeated<D> squares_;  // of all units, one behind the other
};

}  // namespace zero
