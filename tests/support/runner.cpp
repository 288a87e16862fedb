// SPDX-License-Identifier: Apache-2.0
#include <zero/device/host.hpp>

#include <support/guarded_device.hpp>
#include <support/late_device.hpp>
#include <support/runner.hpp>

#include <stdexcept>

namespace zero_test {

// Each is compiled in a file of its own (run_as.cpp).
template <class D, int Stage>
void run_as(Config const& config, Result& result);

namespace {

using Run = void (*)(Config const&, Result&);

template <class D>
Run of_stage(int stage) {
  Run const table[] = {run_as<D, 0>, run_as<D, 1>, run_as<D, 2>, run_as<D, 3>};
  return table[stage];
}

Run choose(Config const& config) {
  switch (config.device) {
    case OnDevice::host:
      return of_stage<zero::Host>(config.stage);
    case OnDevice::late:
      return of_stage<LateDevice>(config.stage);
    case OnDevice::guarded:
#if ZERO_TESTS_SANITIZED
      break;  // AddressSanitizer already sees what that device shows
#else
      return of_stage<GuardedDevice>(config.stage);
#endif
  }
  throw std::logic_error("this device is not built into this lane");
}

/// One vector a tensor, with room for tensors that are trained, or for those that are not.
Tensors room(ModelSpec const& model, bool trainable) {
  Tensors tensors;
  for (zero::Unit const& unit : model.units) {
    for (zero::Tensor const& tensor : unit.tensors)
      tensors.emplace_back(tensor.trainable == trainable ? zero::at(tensor.elements()) : 0);
  }
  return tensors;
}

}  // namespace

std::string describe(Config const& c) {
  static char const* const devices[] = {"host", "late", "guarded"};
  static char const* const loops[] = {"trainer", "parts", "two trainers"};
  std::string text = c.model.name + ": stage " + std::to_string(c.stage) +
                     (c.fp16   ? ", fp16"
                      : c.bf16 ? ", bf16"
                               : ", fp32") +
                     ", " + devices[static_cast<std::size_t>(c.device)] + ", world " +
                     std::to_string(c.world) + ", accumulation " +
                     std::to_string(c.options.accumulation);
  if (c.options.reduction)
    text += *c.options.reduction == zero::Reduction::boundary ? " (boundary)" : " (micro-batch)";
  text += ", prefetch " + std::to_string(c.options.prefetch) + ", bucket " +
          std::to_string(c.options.bucket) + ", threshold " +
          std::to_string(c.options.persistence_threshold);
  if (!c.options.release_after_forward) text += ", kept over the turn";
  return text + ", " + loops[static_cast<std::size_t>(c.loop)];
}

std::vector<Batch> make_batches(Config const& config, int rank, int step) {
  int const count = config.micro_batches ? config.micro_batches(step)
                                         : static_cast<int>(config.options.accumulation);
  std::vector<Batch> batches;
  for (int micro = 0; micro < count; ++micro) {
    batches.push_back(make_batch(rank, step, micro));
    if (config.alter) config.alter(batches.back());
  }
  return batches;
}

Result run(Config const& config) {
  Result result;
  std::size_t const world = zero::at(config.world);
  Tensors const trained = room(config.model, true);
  result.steps.resize(zero::at(config.steps));
  for (StepResult& step : result.steps) {
    step.losses.resize(world);
    step.evaluations.resize(world);
    step.generations.resize(world);
    step.decisions.resize(world);
  }
  for (int s = config.watch ? 1 : config.steps; s <= config.steps; ++s)
    result.snapshots.push_back({s, trained, {trained, trained}, trained});
  result.frozen = room(config.model, false);
  result.replicas.resize(world, Tensors(zero::at(config.model.tensors())));
  result.ranks.resize(world);
  result.errors.resize(world);
  choose(config)(config, result);
  return result;
}

}  // namespace zero_test
