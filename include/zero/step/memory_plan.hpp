// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every buffer of one rank, named and sized before anything is allocated. What is allocated is
// exactly this.

#include <zero/device/slot_array.hpp>
#include <zero/optim/decision.hpp>
#include <zero/step/timeline.hpp>
#include <zero/tier/tier_plan.hpp>

#include <array>
#include <string>
#include <string_view>

namespace zero {

/// Most 64-bit words that ranks exchange at once outside a step.
inline constexpr Index max_exchanged_words = 16;

/// The buffers of one rank, in bytes of device memory.
/// Slots: parameters, gradients, accumulators: one a unit. optimizer_state: master weights and
/// states, two a unit. gather_slots, gradient_slots: as coloured. tables: decision, loss and its
/// mark, norm records, exchange, then segments, one a unit, and, where there are such, the tensors'
/// norms for trust ratios, sums of units beside tiers, and what the compute stream's own work
/// needs.
struct MemoryPlan {
  PlannedBuffer parameters{"parameters"};      ///< one slot a unit
  PlannedBuffer gradients{"gradients"};        ///< reduced, one slot a unit
  PlannedBuffer accumulators{"accumulators"};  ///< float sums, one slot a unit
  /// Master weights and states, two slots a unit.
  PlannedBuffer optimizer_state{"optimizer state"};
  PlannedBuffer gather_slots{"gather slots"};      ///< full parameters in use
  PlannedBuffer gradient_slots{"gradient slots"};  ///< full gradients in use
  PlannedBuffer tables{"tables"};                  ///< decision, loss, records, words, segments
  TierPlan tiers{};                                ///< what lies below the device

  MemoryPlan() = default;
  /// Of one rank, from what it owns and when.
  /// @param layout, shares, timeline of the rank
  /// @param workspace,pins workspace_bytes and CanPin of its device
  /// @throws InvalidArgument for bytes beyond 64 bits
  MemoryPlan(Layout const& layout, Shares const& shares, Timeline const& timeline,
             Index workspace = 0, bool pins = false)
      : tiers(layout, shares, pins) {
    Facts const& f = shares.facts();
    Index largest = 0;
    // More than any buffer below has, so that no size can overflow.
    checked_product(layout.trainable() + layout.frozen(), 16 * (4 + f.num_states),
                    "bytes of the memory plan");
    for (int u = 0; u < layout.size(); ++u) {
      parameters.add(shares.parameters(u) * f.parameter_bytes);
      gradients.add(shares.gradients(u) * f.gradient_bytes);
      accumulators.add(shares.accumulators(u) * Index{sizeof(float)});
      optimizer_state.add(f.has_master ? shares.owned_on_device(u) * f.master_bytes : 0);
      optimizer_state.add(shares.owned_on_device(u) * f.num_states * f.state_bytes);
      if (shares.stores_parameters(u)) largest = std::max(largest, shares.owned_on_device(u));
    }
    for (Index n : timeline.gather_slots()) gather_slots.add(n * f.parameter_bytes);
    // In which slices that lie below the device are updated on it, in turn.
    for (int i = 0; largest > 0 && i < 2; ++i) gather_slots.add(largest * f.parameter_bytes);
    for (Index n : timeline.gradient_slots()) gradient_slots.add(n * f.gradient_bytes);
    tables.add(sizeof(Decision));
    tables.add(2 * sizeof(double));
    tables.add(layout.world() * norm_record_doubles * Index{sizeof(double)});
    tables.add(layout.world() * max_exchanged_words * 8 * std::max(f.gradient_bytes, Index{2}));
    for (int u = 0; u < layout.size(); ++u)
      tables.add(layout.max_segments(u) * Index{sizeof(Segment)});
    if (f.has_trust_ratio)
      tables.add(layout.world() * layout.trained_tensors() * 2 * Index{sizeof(double)});
    if (shares.mixes()) tables.add(layout.size() * norm_record_doubles * Index{sizeof(double)});
    if (workspace > 0) tables.add(workspace);
  }

  /// All buffers, in the order in which they are shown.
  std::array<PlannedBuffer const*, 7> buffers() const {
    return {&parameters,   &gradients,      &accumulators, &optimizer_state,
            &gather_slots, &gradient_slots, &tables};
  }
  /// Of all buffers.
  Index total_bytes() const {
    Index n = 0;
    for (PlannedBuffer const* b : buffers()) n += b->bytes;
    return n;
  }
  /// "parameters 128 bytes, gradients 0 bytes, ..., in all 640 bytes"
  std::string text() const {
    std::string s;
    for (PlannedBuffer const* b : buffers())
      s += std::string(b->kind) + " " + std::to_string(b->bytes) + " bytes, ";
    return s + "in all " + std::to_string(total_bytes()) + " bytes";
  }
};

/// The plan of one rank, from descriptions alone: no device, no communicator, no allocation.
/// @param units, schedule of the model
/// @param world ranks
/// @param facts, options of the trainer
/// @param workspace,pins workspace_bytes and CanPin of the device
/// @throws InvalidArgument as validate(units), validate(schedule, units), validate(options)
inline MemoryPlan plan_memory(Units const& units, Schedule const& schedule, Index world,
                              Facts const& facts, Options const& options, Index workspace = 0,
                              bool pins = false) {
  validate(options);
  Layout const layout(units, world);
  validate(schedule, units);
  Shares const shares(layout, facts, options);
  return MemoryPlan(layout, shares, Timeline(schedule, layout, shares, options), workspace, pins);
}

}  // namespace zero
