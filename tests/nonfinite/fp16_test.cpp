// SPDX-License-Identifier: Apache-2.0
// fp16 with a loss scale: overflows lower it, good steps raise it, and all stages agree in every
// bit; a step is unscaled by the scale of its own backward.

#include <support/agreement.hpp>

#include <cmath>
#include <limits>
#include <vector>

namespace zero_test {
namespace {

float const infinity = std::numeric_limits<float>::infinity();

/// @param bad steps, from 0, of which one gradient on the last rank overflows
Config with_overflows(int world, zero::Index accumulation, std::vector<int> const& bad) {
  Config config;
  config.model = everything();
  config.world = world;
  config.fp16 = true;
  config.options.accumulation = accumulation;
  config.options.reduction = zero::Reduction::boundary;  // the stages' own moments differ
  config.options.loss_scale =
      zero::LossScale::dynamic({.initial_power = 6, .window = 2, .hysteresis = 2});
  config.steps = 10;
  config.optimizer.schedule = zero::LearningRate::linear(1, 20);
  config.alter = [bad, world](Batch& batch) {
    for (int step : bad) {
      if (batch.step == step && batch.micro == 0 && batch.rank == world - 1)
        batch.poisons.push_back({4, 0, 7, infinity});
    }
  };
  return config;
}

/// Scales after each step, by hand: window 2, hysteresis 2, from 64, overflows at steps 2, 3 and 7.
std::vector<float> const scales_by_hand{64, 64, 64, 32, 32, 32, 64, 64, 64, 64};
std::vector<int> const bad_steps{2, 3, 7};

TEST_CASE("stages agree bit for bit in fp16, over overflows, halvings and growth") {
  for (int world : {1, 2, 3, 4}) {
    for (zero::Index accumulation : {1, 3}) {
      Config config = with_overflows(world, accumulation, bad_steps);
      if (world == 3) config.options.reduction = zero::Reduction::micro_batch;
      Result const reference = reference_of(config);
      for (std::size_t s = 0; s < 10; ++s) {
        INFO(describe(config) << ", step " << s);
        zero::Decision const& d = reference.steps[s].decisions[0];
        bool const bad = s == 2 || s == 3 || s == 7;
        CHECK(d.skip == (bad ? 1 : 0));
        CHECK(d.cause == (bad ? zero::SkipCause::gradient : zero::SkipCause::none));
        CHECK(d.loss_scale == scales_by_hand[s]);
        CHECK(d.used_scale == (s == 0 ? 64 : scales_by_hand[s - 1]));
      }
      CHECK(reference.steps.back().decisions[0].updates == 7);
      for (int stage : {1, 2, 3}) {
        config.stage = stage;
        check_against(reference, config);
      }
      config.device = OnDevice::late;
      config.stage = 3;
      check_against(reference, config);
      config.stage = 0;
      check_against(reference, config);
    }
  }
}

TEST_CASE("parts alone make the same fp16 steps, evaluations between micro-batches and all") {
  for (int stage : {0, 3}) {
    Config config = with_overflows(2, 3, bad_steps);
    config.stage = stage;
    Result reference = run(config);
    config.loop = Loop::parts;
    Result const parts = run(config);
    for (std::size_t s = 0; s < 10; ++s) reference.steps[s].losses = parts.steps[s].losses;
    CHECK(difference(reference, parts) == "");
  }
}

/// A run in another type, with a scale that is a power of two; small gradients, so that no bit is
/// lost.
Result scaled(Config config, zero::LossScale const& scale) {
  config.options.loss_scale = scale;
  return run(config);
}

TEST_CASE("a scale of any power of two leaves the bits of float as they are") {
  // Gradients of float times 2^k lose nothing while neither underflows: sizes here are 1e-9 to 1e3.
  for (int stage : {0, 1, 2, 3}) {
    Config config;
    config.model = everything();
    config.stage = stage;
    config.world = 2;
    config.steps = 5;
    Result const plain = scaled(config, zero::LossScale());
    for (float scale : {0x1p-4f, 0x1p1f, 0x1p16f}) {
      Result const other = scaled(config, zero::LossScale::fixed(scale));
      CHECK(other.snapshots.back().weights == plain.snapshots.back().weights);
      CHECK(other.snapshots.back().moments == plain.snapshots.back().moments);
      CHECK(other.steps.back().decisions[0].norm == plain.steps.back().decisions[0].norm);
    }
    // Growth in the middle of it: each step is unscaled by its own.
    Result const growing = scaled(
        config, zero::LossScale::dynamic({.initial_power = 4, .window = 1, .hysteresis = 1}));
    CHECK(growing.steps.back().decisions[0].loss_scale == 256);
    for (std::size_t s = 0; s < 5; ++s) {
      CHECK(growing.snapshots[s].weights == plain.snapshots[s].weights);
      CHECK(growing.snapshots[s].moments == plain.snapshots[s].moments);
    }
  }
}

TEST_CASE("a step after which the scale grows has the bits of one after which it does not") {
  for (int stage : {0, 1, 2, 3}) {
    Config config = with_overflows(2, 1, {});
    config.stage = stage;
    config.steps = 3;
    Result const grows = run(config);
    config.options.loss_scale = zero::LossScale::fixed(64);
    Result const stays = run(config);
    CHECK(grows.steps[2].decisions[0].loss_scale == 128);
    CHECK(stays.steps[2].decisions[0].loss_scale == 64);
    CHECK(grows.snapshots[2].weights == stays.snapshots[2].weights);
    CHECK(grows.snapshots[2].moments == stays.snapshots[2].moments);
    CHECK(grows.steps[2].decisions[0].norm == stays.steps[2].decisions[0].norm);
    CHECK(grows.steps[2].decisions[0].factor == stays.steps[2].decisions[0].factor);
  }
}

TEST_CASE("a sum over ranks that leaves fp16 is an overflow though each gradient is finite") {
  for (int stage : {0, 1, 2, 3}) {
    Config config = with_overflows(2, 1, {});
    config.stage = stage;
    config.alter = [](Batch& batch) {
      // 65504 is the largest fp16, 32 the place of its last bit: half of that ties away from it.
      float const other = batch.step == 1 ? 16.0f : 15.0f;
      if (batch.step <= 1) batch.poisons.push_back({2, 2, 5, batch.rank == 0 ? 65504.0f : other});
    };
    Result const result = run(config);
    CHECK(result.steps[0].decisions[0].skip == 0);
    CHECK(result.steps[1].decisions[0].skip == 1);
    CHECK(result.steps[1].decisions[0].bad_unit == 2);
  }
}

TEST_CASE("a loss that is not finite on one rank is told apart, at every stage, and named") {
  for (int world : {1, 2, 4}) {
    Config config = with_overflows(world, 3, {});
    config.alter = [world](Batch& batch) {
      // In the first of three micro-batches; backward brings it to every unit.
      if (batch.step == 1 && batch.micro == 0 && batch.rank == world - 1)
        batch.target[2] = std::nanf("");
    };
    Result const reference = reference_of(config);
    zero::Decision const& d = reference.steps[1].decisions[0];
    CHECK(d.cause == zero::SkipCause::loss);
    CHECK(d.bad_loss_rank == world - 1);
    // Backward begins in unit 0, the head, and comes to it again at the end; it is done with 6
    // first.
    CHECK(d.bad_unit == 6);
    CHECK(d.loss_scale == d.used_scale);
    CHECK(d.scale_state.steps == 1);
    CHECK(reference.steps[2].decisions[0].bad_loss_rank == -1);
    for (int stage : {1, 2, 3}) {
      config.stage = stage;
      check_against(reference, config);
    }
    for (int stage : {0, 3}) {
      config.stage = stage;
      config.loop = Loop::parts;
      Result const parts = run(config);
      CHECK(parts.steps[1].decisions[0].cause == zero::SkipCause::loss);
      config.loop = Loop::trainer;
    }
  }
}

TEST_CASE("the error names the unit that backward is done with first, and what may be before it") {
  // A schedule of its own order, and a unit that is visited first and last.
  ModelSpec permuted = tied();
  permuted = spec("permuted", permuted.units, {2, 0, 3, 1});
  std::pair<ModelSpec, std::string> const models[] = {
      {tied(), "unit 'norm' or, visited more than once, 'embedding' first"},
      {permuted, "unit 'a' first"}};
  for (auto const& [model, place] : models) {
    for (int stage : {0, 1, 2, 3}) {
      Config config = with_overflows(2, 1, {});
      config.model = model;
      config.stage = stage;
      config.may_fail = true;
      config.options.loss_scale = zero::LossScale::fixed(64, 1);
      config.alter = [](Batch& batch) {
        if (batch.step == 1 && batch.rank == 1) batch.target[2] = std::nanf("");
      };
      Result const result = run(config);
      INFO(describe(config));
      for (std::string const& error : result.errors)
        CHECK_MESSAGE(error.find("backward met it in " + place + " (") != std::string::npos, error);
    }
  }
}

TEST_CASE("a loss that is not finite is told apart from an overflow under a fixed scale, too") {
  for (bool half : {true, false}) {
    Config config = with_overflows(2, 1, {3});
    config.fp16 = half;
    config.options.loss_scale = zero::LossScale::fixed(64);
    auto const overflows = config.alter;
    config.alter = [overflows](Batch& batch) {
      overflows(batch);
      if (batch.step == 1 && batch.rank == 1) batch.target[2] = std::nanf("");
    };
    Result const reference = reference_of(config);
    CHECK(reference.steps[1].decisions[0].cause == zero::SkipCause::loss);
    CHECK(reference.steps[1].decisions[0].bad_loss_rank == 1);
    CHECK(reference.steps[3].decisions[0].cause == zero::SkipCause::gradient);
    CHECK(reference.steps.back().decisions[0].loss_scale == 64);
    CHECK(reference.steps.back().decisions[0].failed == 0);
    for (int stage : {1, 2, 3}) {
      config.stage = stage;
      check_against(reference, config);
    }
  }
}

}  // namespace
}  // namespace zero_test
