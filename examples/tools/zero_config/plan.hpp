// SPDX-License-Identifier: Apache-2.0
#pragma once
// zero-config plan: what a model of some size costs a rank under a configuration, before there is a
// model.

#include <zero/config/run_options.hpp>
#include <zero/report/wire_plan.hpp>

#include <zero_config/load.hpp>

namespace zero_config {

/// A model of which three numbers are known: `units` units, the largest of `largest` elements, the
/// others alike.
inline zero::Units model_of(Index parameters, Index largest, Index units) {
  zero::Units all;
  Index left = parameters - largest;
  for (Index u = 0; u < units; ++u) {
    Index const rest = units - u;  // the first is the largest, the others share what is left
    Index const n = u == 0 ? largest : (left + rest - 1) / rest;
    if (u > 0) left -= n;
    std::string const name = "unit" + std::to_string(u);
    all.push_back({.name = name, .tensors = {{.name = name + ".weight", .shape = {n}}}});
  }
  return all;
}

/// Numbers that an optimizer keeps for each element.
inline Index num_states(std::optional<zero::MenuChoice> const& optimizer) {
  if (!optimizer) return 2;
  return optimizer->has("betas") && optimizer->type != "Lion" ? 2 : 1;
}

/// The facts of a stage and precision, as values.
inline zero::Facts facts_of(int stage, zero::PrecisionChoice precision,
                            std::optional<zero::MenuChoice> const& optimizer) {
  Index const states = num_states(optimizer);
  bool const ratio = optimizer && optimizer->type == "Lamb";
  auto const at_stage = [&]<class R>(R) {
    using namespace zero;
    switch (stage) {
      case 0:
        return Facts::of<Policies<Sharded<0>, R>>(states, ratio);
      case 1:
        return Facts::of<Policies<Sharded<1>, R>>(states, ratio);
      case 2:
        return Facts::of<Policies<Sharded<2>, R>>(states, ratio);
      default:
        return Facts::of<Policies<Sharded<3>, R>>(states, ratio);
    }
  };
  if (precision == zero::PrecisionChoice::bf16) return at_stage(zero::Bf16Mixed{});
  if (precision == zero::PrecisionChoice::fp16) return at_stage(zero::Fp16Mixed{});
  return at_stage(zero::Fp32{});
}

struct Planned {
  zero::MemoryPlan memory{};
  Index wire_elements = 0;
};

/// @param workspace bytes that the device's kernels need, zero::workspace_bytes of it
inline Planned plan_stage(zero::ResolvedConfig config, zero::Units const& units, int stage,
                          Index workspace) {
  config.stage = stage;
  zero::RunOptions const run = zero::run_options(config, units);
  zero::Schedule const schedule = zero::default_schedule(static_cast<int>(units.size()));
  zero::Facts facts = facts_of(stage, config.precision, config.optimizer);
  if (stage >= 1) facts.optimizer_tier = config.offload_optimizer.tier;
  if (stage >= 3) facts.parameter_tier = config.offload_param.tier;
  return {zero::plan_memory(units, schedule, config.world_size, facts, run.options, workspace),
          zero::plan_wire_elements(units, schedule, config.world_size, facts, run.options,
                                   config.gradient_accumulation_steps)};
}

/// Prints kinds and bytes of one rank, and what it sends in a step. With --recommend stages and
/// their bytes, up to the lowest that fits.
inline int plan(std::span<char const* const> arguments) {
  CommandLine const line("plan", arguments, true,
                         loading_options({{"parameters", "P"},
                                          {"largest-unit", "L"},
                                          {"units", "U"},
                                          {"workspace", "BYTES"},
                                          {"device-memory", "BYTES"},
                                          {"host-memory", "BYTES"},
                                          {"recommend", ""}}));
  Index const parameters = line.required("parameters", 1, Index{1} << 50);
  Index const largest = line.required("largest-unit", 1, parameters);
  Index const count = line.required("units", 1, 100'000);
  Index const workspace = line.number("workspace", 0).value_or(0);
  std::optional<Index> const device = line.number("device-memory", 0);
  std::optional<Index> const host = line.number("host-memory", 0);
  Index const rest =
      count > 1 ? (parameters - largest + count - 2) / (count - 1) : parameters - largest;
  if ((count == 1 && rest != 0) || rest > largest)
    line.refuse(std::to_string(count) + " units of at most " + std::to_string(largest) +
                " elements do not make " + std::to_string(parameters) + " parameters");
  if (line.has("recommend") && !device) line.refuse("--recommend wants --device-memory");
  zero::ResolvedConfig const config = load(line);
  zero::Units const units = model_of(parameters, largest, count);
  if (line.has("recommend")) {
    std::cout << "stage\tbytes\tmisses_by\n";
    for (int stage = 0; stage <= 3; ++stage) {
      Index const bytes = plan_stage(config, units, stage, workspace).memory.total_bytes();
      std::cout << stage << "\t" << bytes << "\t" << std::max(bytes - *device, Index{0}) << "\n";
      if (bytes > *device) continue;
      std::cout << "recommended\t" << stage << "\n";
      return 0;
    }
    std::cout << std::flush;
    throw zero::ConfigError(
        {{"--device-memory", std::to_string(*device) + " bytes", "what stage 3 needs, above"}});
  }
  Planned const planned = plan_stage(config, units, config.stage, workspace);
  std::cout << "kind\tbytes\n";
  for (zero::PlannedBuffer const* buffer : planned.memory.buffers())
    std::cout << buffer->kind << "\t" << buffer->bytes << "\n";
  std::cout << "total\t" << planned.memory.total_bytes() << "\n";
  for (zero::PlannedBuffer const* buffer : planned.memory.tiers.buffers()) {
    if (buffer->bytes > 0) std::cout << buffer->kind << "\t" << buffer->bytes << "\n";
  }
  std::cout << "host\t" << planned.memory.tiers.host_bytes() << "\n";
  if (planned.memory.tiers.nvme_bytes() > 0)
    std::cout << "files\t" << planned.memory.tiers.nvme_bytes() << "\n";
  std::cout << "wire elements a step\t" << planned.wire_elements << "\n" << std::flush;
  auto const fits = [&](char const* option, std::optional<Index> memory, Index need) {
    if (memory && need > *memory)
      throw zero::ConfigError(
          {{option, std::to_string(*memory) + " bytes",
            std::to_string(need) + ", " + std::to_string(need - *memory) + " more"}});
  };
  fits("--device-memory", device, planned.memory.total_bytes());
  fits("--host-memory", host, planned.memory.tiers.host_bytes());
  return 0;
}

}  // namespace zero_config
