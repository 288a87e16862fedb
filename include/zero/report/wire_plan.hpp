// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a step will send, from descriptions alone: beside the memory plan, the other half of what a
// run costs.

#include <zero/step/memory_plan.hpp>

namespace zero {

/// Elements of parameters and gradients that one rank sends in a step of `micro_batches`
/// micro-batches: gathers, reductions and publications, an all_reduce at its lower bound of 2 (N -
/// 1) / N.
inline Index plan_wire_elements(Units const& units, Schedule const& schedule, Index world,
                                Facts const& facts, Options const& options, Index micro_batches) {
  Layout const layout(units, world);
  Shares const shares(layout, facts, options);
  Timeline const timeline(schedule, layout, shares, options);
  if (shares.alone()) return 0;
  Index const reductions = shares.boundary() ? 1 : micro_batches;
  Index slices = layout.trainable() / world * reductions * (facts.shards_optimizer ? 1 : 2);
  for (Residency const& r : timeline.gathers())
    slices += layout.elements(r.unit) / world * micro_batches;
  for (int u = 0; u < layout.size(); ++u) slices += shares.publishes(u) ? layout.slice(u) : 0;
  return slices * (world - 1);
}

/// Doubles that one rank sends in a step besides: where the optimizer is sharded, the records of
/// clip (phase "clip") and, for trust ratios, the norms of trained tensors (phase "update").
inline Index plan_wire_doubles(Units const& units, Index world, Facts const& facts) {
  if (!facts.shards_optimizer || world == 1) return 0;
  Index const norms = facts.has_trust_ratio ? Layout(units, world).trained_tensors() * 2 : 0;
  return (norm_record_doubles + norms) * (world - 1);
}

}  // namespace zero
