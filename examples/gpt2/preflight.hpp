// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run will need, told and judged before anything is allocated.

#include <zero/policy/options.hpp>
#include <zero/policy/policies.hpp>
#include <zero/report/memory_table.hpp>
#include <zero/report/number_text.hpp>
#include <zero/report/wire_plan.hpp>
#include <zero/step/memory_plan.hpp>

#include <gpt2/flags.hpp>
#include <gpt2/optimizer.hpp>
#include <gpt2/rate.hpp>
#include <gpt2/settings.hpp>
#include <gpt2/units.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

namespace gpt2 {

/// The library's options of a run.
inline zero::Options options_of(Settings const& s) {
  if (s.configured) return s.configured->options;
  return {.accumulation = s.accumulation,
          .clip = 1.0f,
          .reduction = s.reduction,
          .prefetch = s.prefetch,
          .bucket = s.bucket,
          .loss_scale = loss_scale_of(s),
          .seed = s.seed,
          .offload = s.offload};
}

namespace detail {

template <int Stage>
zero::Facts facts_of(Precision precision) {
  constexpr zero::Index states = zero::AdamW::num_states;
  using S = zero::Sharded<Stage>;
  switch (precision) {
    case Precision::fp32:
      return zero::Facts::of<zero::Policies<S, zero::Fp32>>(states);
    case Precision::bf16:
      return zero::Facts::of<zero::Policies<S, zero::Bf16Mixed>>(states);
    default:
      return zero::Facts::of<zero::Policies<S, zero::Fp16Mixed>>(states);
  }
}

}  // namespace detail

/// The facts of a stage with the settings' precision and optimizer.
inline zero::Facts facts_of(Settings const& s, int stage) {
  auto const of_stage = {detail::facts_of<0>, detail::facts_of<1>, detail::facts_of<2>,
                         detail::facts_of<3>};
  zero::Facts facts = std::data(of_stage)[stage](s.precision);
  facts.optimizer_tier = stage >= 1 ? s.optimizer_tier : zero::Tier::device;
  facts.parameter_tier = stage >= 3 ? s.parameter_tier : zero::Tier::device;
  with_optimizer(s, [&]<class O>(O const&) {
    facts.num_states = O::num_states;
    facts.has_trust_ratio = zero::HasTrustRatio<O>;
  });
  return facts;
}

/// Plans of stages 0 to 3.
/// @param workspace bytes that the device's kernels need, zero::workspace_bytes of it
inline std::array<zero::MemoryPlan, 4> memory_plans(Settings const& s, Index workspace = 0) {
  std::array<zero::MemoryPlan, 4> plans;
  for (int stage = 0; stage < 4; ++stage) {
    plans[at(stage)] = zero::plan_memory(units_of(s.size), schedule_of(s.size), s.ranks,
                                         facts_of(s, stage), options_of(s), workspace);
  }
  return plans;
}

/// Elements of parameters and gradients that a rank sends in a step.
inline Index planned_wire_elements(Settings const& s) {
  return zero::plan_wire_elements(units_of(s.size), schedule_of(s.size), s.ranks,
                                  facts_of(s, s.stage), options_of(s), s.accumulation);
}

/// The plans side by side, with an arrow at the stage that runs.
inline zero::MemoryTable memory_table(std::array<zero::MemoryPlan, 4> const& plans, int stage) {
  zero::MemoryTable table{.title = "memory plan, a rank", .columns = {}, .rows = {}};
  for (int column = 0; column < 4; ++column) {
    table.columns.push_back((column == stage ? "> stage " : "stage ") + std::to_string(column));
  }
  for (std::size_t row = 0; row < plans[0].buffers().size(); ++row) {
    std::vector<Index> bytes;
    for (zero::MemoryPlan const& plan : plans) bytes.push_back(plan.buffers()[row]->bytes);
    table.rows.emplace_back(std::string(plans[0].buffers()[row]->kind), bytes);
  }
  return table;
}

/// What lies below the device, where anything does.
/// @param of_process,of_host ranks of each
inline std::string tiers_text(zero::MemoryPlan const& plan, int of_process, int of_host) {
  zero::TierPlan const& tiers = plan.tiers;
  if (tiers.host_bytes() == 0) return {};
  zero::MemoryTable table{.title = "below the device, a rank", .columns = {"planned"}, .rows = {}};
  for (zero::PlannedBuffer const* buffer : tiers.buffers())
    table.rows.push_back({std::string(buffer->kind), {buffer->bytes}});
  std::string text = table.text();
  if (tiers.nvme_bytes() > 0)
    text += "in files: " + zero::human_bytes(tiers.nvme_bytes()) + " a rank\n";
  if (tiers.locked_bytes() > 0) text += tiers.locked_text(of_process, of_host) + "\n";
  return text;
}

/// Beside a GPU host memory is pinned whatever is asked for, and the plan says so.
inline void pin_below_gpus(Settings& s) {
  if (s.on != On::cuda || !s.offloads()) return;
  (s.configured ? s.configured->options.offload : s.offload).pin_memory =
      zero::MemoryLock::required;
}

/// Bytes of this machine's memory, or 0 where it does not say.
inline double memory_there() {
  return std::max(0.0, static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                           static_cast<double>(::sysconf(_SC_PAGESIZE)));
}

/// @param rank_bytes of host memory below the device, a rank
/// @throws WrongFlag when this machine cannot hold what lies below its GPUs
inline void check_host(Settings const& s, Index rank_bytes) {
  double const there = memory_there();
  int const ranks = s.ranks_here.value_or(s.ranks);
  double const needed = ranks * static_cast<double>(rank_bytes);
  if (there == 0 || needed <= there) return;
  throw WrongFlag("gpt2: state below the GPUs of " + std::to_string(ranks) +
                  (ranks == 1 ? " rank" : " ranks") + " needs " + zero::human_count(needed) +
                  "B of host memory, and this machine has " + zero::human_count(there) +
                  "B: keep some of it on the device or in files");
}

/// Bytes of all ranks of this machine together, roughly, in floating point: flags may ask for more
/// than 64 bits count.
inline double needed_bytes(Settings const& s) {
  auto const d = [](Index n) { return static_cast<double>(n); };
  double const layers = d(s.size.layers);
  double const width = d(s.size.width);
  double const rows = d(s.batch) * d(s.size.context);
  double const parameters =
      12 * layers * width * width + d(s.size.vocabulary + s.size.context) * width;
  double const block = rows * (15 * width + d(s.size.heads) * d(s.size.context));
  double const activations = layers * block + rows * (8 * width + d(s.size.vocabulary));
  // Two bytes each for 16-bit parameters and gradients, twelve for master weights and two states;
  // sharded, a rank's part.
  double const shared = s.stage == 0 ? 0 : 12 * parameters / s.ranks;
  double const own = s.stage == 0   ? 16 * parameters
                     : s.stage == 3 ? 4 * parameters / s.ranks
                                    : 4 * parameters;
  return s.ranks_here.value_or(s.ranks) * (own + shared + 4 * activations);
}

/// @throws WrongFlag when the machine cannot hold the run
inline void check_memory(Settings const& s) {
  double const there = memory_there();
  double const needed = needed_bytes(s);
  if (there == 0 || needed <= there) return;
  auto const text = [](double bytes) { return zero::human_count(bytes) + "B"; };
  throw WrongFlag("gpt2: " + std::to_string(s.ranks_here.value_or(s.ranks)) +
                  " ranks of this model need about " + text(needed) +
                  " of memory and this machine has " + text(there) +
                  ": take fewer --ranks, --layers or a smaller --width, --context or --batch");
}

}  // namespace gpt2
