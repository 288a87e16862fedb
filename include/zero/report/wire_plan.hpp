// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a step will send, from descriptions alone: beside the memory plan, the other half of what a
// run costs.

#include <zero/step/memory_plan.hpp>

#include <string>

namespace zero {

/// Elements of parameters and gradients that one rank sends in a step, by phase, an all_reduce at
/// its lower bound of 2 (N - 1) / N; and their bytes. The norm records of clip, 4 doubles a rank,
/// are not among them.
struct WirePlan {
  Index gather_elements = 0;   ///< parameters, before visits: stage 3
  Index reduce_elements = 0;   ///< gradients
  Index publish_elements = 0;  ///< parameters, after the update
  Index parameter_bytes = 0;   ///< of one element on the wire
  Index gradient_bytes = 0;    ///< of one element on the wire

  /// Of all phases.
  Index elements() const { return gather_elements + reduce_elements + publish_elements; }
  /// Of all phases.
  Index bytes() const {
    return (gather_elements + publish_elements) * parameter_bytes +
           reduce_elements * gradient_bytes;
  }
};

/// What a step of `micro_batches` micro-batches sends, from descriptions alone: needs no device and
/// no communicator, and is the same on every rank.
/// @param units,schedule the model's description
/// @param world ranks, at least 1
/// @param facts of the policies and the optimizer
/// @param options as the trainer gets them
/// @param micro_batches that the step is given, 1 to Options::accumulation
/// @throws InvalidArgument as plan_memory; for another number of micro-batches; for bytes beyond 64
///   bits
inline WirePlan plan_wire(Units const& units, Schedule const& schedule, Index world,
                          Facts const& facts, Options const& options, Index micro_batches) {
  validate(options);
  if (micro_batches < 1 || micro_batches > options.accumulation) {
    throw InvalidArgument("plan_wire: " + std::to_string(micro_batches) +
                          " micro-batches; the options are for 1 to " +
                          std::to_string(options.accumulation));
  }
  Layout const layout(units, world);
  validate(schedule, units);
  Shares const shares(layout, facts, options);
  Timeline const timeline(schedule, layout, shares, options);
  WirePlan plan{.parameter_bytes = facts.parameter_bytes, .gradient_bytes = facts.gradient_bytes};
  if (shares.alone()) return plan;
  // More than all phases send, so that no sum or product below can overflow.
  Index const total = layout.trainable() + layout.frozen();
  auto const gathers = static_cast<Index>(timeline.gathers().size());
  checked_product(total, gathers + 3, "elements of the wire plan");
  Index gathered = 0;
  for (Residency const& r : timeline.gathers()) gathered += layout.elements(r.unit);
  checked_product(gathered + 3 * total, checked_product(micro_batches, 4, "micro-batches"),
                  "bytes of the wire plan");
  Index const others = world - 1;
  Index const reductions = shares.boundary() ? 1 : micro_batches;
  Index const passes = facts.shards_optimizer ? 1 : 2;
  plan.reduce_elements = layout.trainable() / world * reductions * passes * others;
  plan.gather_elements = gathered / world * micro_batches * others;
  for (int u = 0; u < layout.size(); ++u)
    plan.publish_elements += shares.publishes(u) ? layout.slice(u) * others : 0;
  return plan;
}

/// The elements of plan_wire.
/// @throws InvalidArgument as plan_wire
inline Index plan_wire_elements(Units const& units, Schedule const& schedule, Index world,
                                Facts const& facts, Options const& options, Index micro_batches) {
  return plan_wire(units, schedule, world, facts, options, micro_batches).elements();
}

/// Doubles that one rank sends in a step besides: where the optimizer is sharded, the records of
/// clip (phase "clip") and, for trust ratios, the norms of trained tensors (phase "update").
inline Index plan_wire_doubles(Units const& units, Index world, Facts const& facts) {
  if (!facts.shards_optimizer || world == 1) return 0;
  Index const norms = facts.has_trust_ratio ? Layout(units, world).trained_tensors() * 2 : 0;
  return (norm_record_doubles + norms) * (world - 1);
}

}  // namespace zero
