// SPDX-License-Identifier: Apache-2.0
// Options and habits of a model that change what is kept, gathered, cleared or waited for, and not
// one bit of what is trained.

#include <support/agreement.hpp>

#include <string>
#include <utility>

namespace zero_test {
namespace {

/// Every family of some worlds, in turn, on one device.
void agree(Config const& config, OnDevice device, std::vector<int> const& worlds) {
  int turn = 0;
  for (Family const& family : families(worlds)) {
    // Of the product a part under a sanitizer: the families of one world.
    if (ZERO_TESTS_SANITIZED && family.world != (device == OnDevice::host ? 2 : 3)) continue;
    Config changed = family.applied_to(config);
    changed.device = device;
    changed.watch = device != OnDevice::late;
    check_in_turn(changed, turn++);
  }
}

void agree(Config const& config) {
  agree(config, OnDevice::host, {1, 2, 3, 4});
  agree(config, OnDevice::late, {2, 3});
  if (!ZERO_TESTS_SANITIZED) agree(config, OnDevice::guarded, {2});
}

Config of(ModelSpec model) {
  Config config;
  config.model = std::move(model);
  return config;
}

Config scripted(ModelSpec model, Script script) {
  Config config = of(std::move(model));
  config.direct = [script](Batch const&, bool) { return script; };
  return config;
}

/// Forward leases open all at once, held to the end of the turn.
ModelSpec declared(ModelSpec model, int held) {
  model.schedule = there_and_back(model.chain, held);
  return model;
}

TEST_CASE("units kept resident: the small ones, most, all [slow]") {
  for (ModelSpec const& model : {everything(), frozen_parts(), one_element_units()}) {
    for (zero::Index threshold : {64, 200, 512, 1 << 20}) {
      Config config = of(model);
      config.options.persistence_threshold = threshold;
      agree(config, OnDevice::host, {1, 2, 3, 4, 8});
    }
  }
  Config config = of(everything());
  config.options.persistence_threshold = 200;
  agree(config, OnDevice::late, {2, 3});
  if (!ZERO_TESTS_SANITIZED) agree(config, OnDevice::guarded, {2, 3});
}

TEST_CASE("units kept over the turn") {
  for (ModelSpec const& model : {everything(), tied()}) {
    Config config = of(model);
    config.options.release_after_forward = false;
    agree(config);
  }
}

TEST_CASE("reductions on the compute stream") {
  for (ModelSpec const& model : {everything(), tied()}) {
    Config config = of(model);
    config.options.overlap = false;
    agree(config);
  }
}

TEST_CASE("gradients that the model overwrites") {
  for (ModelSpec const& model : {everything(), tied(), frozen_parts()}) {
    Script script = in_order(model);
    script.overwrites = true;
    agree(scripted(model, script));
    // The same bits as adding to zeros.
    Config config = scripted(model, script);
    config.world = 2;
    Result const overwritten = reference_of(config);
    config.direct = {};
    check_against(overwritten, config);
  }
}

TEST_CASE("leases held over further visits, as declared [slow]") {
  for (int held : {1, 2, 20}) {
    for (ModelSpec const& model : {declared(everything(), held), declared(ragged_sizes(), held)}) {
      Script script = in_order(model);
      script.held = held;
      agree(scripted(model, script));
    }
  }
}

TEST_CASE("leases held less long than declared") {
  ModelSpec const model = declared(everything(), 3);
  Script script = in_order(model);
  script.held = 1;
  agree(scripted(model, script));
  agree(of(model));
}

TEST_CASE("leases of one visit that end apart") {
  for (Ends ends : {Ends::parameters_first, Ends::gradients_first}) {
    for (int held : {0, 2}) {
      ModelSpec const model = declared(tied(), held);
      Script script = in_order(model);
      script.ends = ends;
      script.held = held;
      agree(scripted(model, script));
    }
  }
}

TEST_CASE("gathers further ahead than a pass is long") {
  for (int prefetch : {7, 64}) {
    for (Family const& family : families({2, 3})) {
      Config config = family.applied_to(of(everything()));
      Result const reference = reference_of(config);
      config.stage = 3;
      config.options.prefetch = prefetch;
      check_against(reference, config);
    }
  }
}

TEST_CASE("forward visits that are declared before each backward one, as when recomputing") {
  ModelSpec model = everything();
  model.schedule.clear();
  for (int unit : model.chain) model.schedule.push_back({unit, zero::Phase::forward});
  for (std::size_t k = model.chain.size(); k-- > 0;) {
    model.schedule.push_back({model.chain[k], zero::Phase::forward});
    model.schedule.push_back({model.chain[k], zero::Phase::backward});
  }
  Script script = in_order(model);
  script.recomputes = true;
  Config config = of(std::move(model));
  config.direct = [script](Batch const&, bool trains) {
    Script changed = script;
    changed.recomputes = trains;
    return changed;
  };
  agree(config);
}

TEST_CASE("fewer micro-batches than the trainer was made for") {
  for (int stage : {0, 1, 2, 3}) {
    for (Family const& family : families({1, 2, 3})) {
      if (family.accumulation == 1) continue;
      Config config = family.applied_to(of(everything()));
      config.steps = 4;
      config.micro_batches = [](int step) { return 1 + (step + 1) % 3; };  // 2, 3, 1, 2
      Result const reference = reference_of(config);
      config.stage = stage;
      check_against(reference, config);
    }
  }
}

TEST_CASE("one micro-batch a step gives the same bits with accumulators as without") {
  for (int world : {1, 2, 4}) {
    for (bool bf16 : {false, true}) {
      Config config = of(everything());
      config.world = world;
      config.bf16 = bf16;
      Result const without = reference_of(config);
      config.options.accumulation = 3;
      config.micro_batches = [](int) { return 1; };
      for (auto reduction : {zero::Reduction::boundary, zero::Reduction::micro_batch}) {
        config.options.reduction = reduction;
        for (int stage : {0, 1, 2, 3}) {
          config.stage = stage;
          check_against(without, config);
        }
      }
    }
  }
}

TEST_CASE("clipping off, hardly ever and always") {
  for (float clip : {0.0f, 1e6f, 1e-3f}) {
    Config config = of(everything());
    config.options.clip = clip;
    agree(config, OnDevice::host, {1, 3});
  }
}

TEST_CASE("the loss falls") {
  Config config = of(everything());
  config.world = 2;
  config.steps = 30;
  config.stage = 3;
  // The same batch again and again.
  config.alter = [](Batch& batch) { batch = make_batch(batch.rank, 0, batch.micro); };
  Result const result = run(config);
  CHECK(result.steps.back().losses[0] < 0.5 * result.steps.front().losses[0]);
}

}  // namespace
}  // namespace zero_test
