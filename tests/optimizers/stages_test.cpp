// SPDX-License-Identifier: Apache-2.0
// Every optimizer and every way of storing its numbers gives the same bits at stages 0-3 and on
// every test device, at one world size.
#include <zero/shard/layout.hpp>

#include <doctest/doctest.h>
#include <optimizers/run.hpp>

#include <bit>
#include <utility>

namespace {

using namespace optimizers;

std::vector<AnyOptimizer> menu() {
  return {zero::AdamW{.lr = 0.03f, .weight_decay = 0.1f},
          zero::Adam{.lr = 0.03f, .weight_decay = 0.1f},
          zero::Lamb{.lr = 0.03f, .weight_decay = 0.1f},
          zero::Lion{.lr = 0.03f, .weight_decay = 0.1f},
          zero::Adagrad{.lr = 0.03f, .lr_decay = 0.1f, .weight_decay = 0.1f},
          zero::Sgd{.lr = 0.03f, .momentum = 0.9f, .weight_decay = 0.1f, .nesterov = true}};
}

bool same_bits(Tensors const& a, Tensors const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t t = 0; t < a.size(); ++t) {
    if (a[t].size() != b[t].size()) return false;
    for (std::size_t i = 0; i < a[t].size(); ++i) {
      if (std::bit_cast<std::uint32_t>(a[t][i]) != std::bit_cast<std::uint32_t>(b[t][i]))
        return false;
    }
  }
  return true;
}

bool same_trajectory(Outcome const& a, Outcome const& b) {
  for (std::size_t s = 0; s < a.steps.size(); ++s) {
    if (!same_bits(a.steps[s].weights, b.steps[s].weights)) return false;
    for (std::size_t k = 0; k < 2; ++k) {
      if (!same_bits(a.steps[s].states[k], b.steps[s].states[k])) return false;
    }
  }
  return a.ranks[0].hash == b.ranks[0].hash && same_bits(a.parameters[0], b.parameters[0]);
}

/// What must hold of a run by itself.
void check_alone(Setup const& setup, Outcome const& outcome) {
  bool const trusts = std::holds_alternative<zero::Lamb>(setup.optimizer);
  // At stage 0, which gathers no records, an all_reduce of one gradient a rank says whose loss is
  // not finite, where there is a loss scale: 2 (W - 1) / W of W elements.
  Index const marks =
      setup.storage == Storage::half && setup.stage == 0 ? 2 * (Index{setup.world} - 1) : 0;
  for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
    Numbers const& n = outcome.ranks[r];
    CHECK(n.hash == outcome.ranks[0].hash);
    CHECK(same_bits(outcome.parameters[r], outcome.parameters[0]));
    CHECK(n.planned_bytes == n.peak_bytes);
    CHECK(n.late_allocations == 0);
    CHECK(n.doubles == n.planned_doubles + marks);
    CHECK(n.update_collectives == (trusts && setup.stage > 0 && setup.world > 1 ? 1 : 0));
  }
}

/// All stages against stage 0 on the host.
void check_stages(Setup setup, std::vector<int> const& stages = {0, 1, 2, 3}) {
  Setup reference_setup = setup;
  reference_setup.device = Device::host;
  reference_setup.stage = 0;
  Outcome const reference = run(reference_setup);
  for (int stage : stages) {
    setup.stage = stage;
    CAPTURE(setup.optimizer.index());
    CAPTURE(static_cast<int>(setup.storage));
    CAPTURE(static_cast<int>(setup.device));
    CAPTURE(setup.stage);
    CAPTURE(setup.world);
    Outcome const outcome = run(setup);
    CHECK(same_trajectory(outcome, reference));
    check_alone(setup, outcome);
  }
}

}  // namespace

TEST_CASE("every optimizer and storage: stages agree on the host, worlds 1 to 4") {
  for (AnyOptimizer const& optimizer : menu()) {
    for (Storage storage : {Storage::floats, Storage::mixed, Storage::split, Storage::short_states,
                            Storage::all_short}) {
      for (int world : {1, 2, 3, 4})
        check_stages({.optimizer = optimizer, .storage = storage, .world = world});
    }
  }
}

/// A scale that grows with every good step and falls with every overflow, so that each step is
/// unscaled by another one.
zero::Options moving_scale() {
  zero::Options options{.clip = 4};
  options.loss_scale = zero::LossScale::dynamic({.initial_power = 4, .window = 1, .hysteresis = 1});
  return options;
}

TEST_CASE("every optimizer in fp16: stages agree while the loss scale moves, worlds 1 to 4") {
  for (AnyOptimizer const& optimizer : menu()) {
    for (int world : {1, 2, 3, 4}) {
      Setup const setup{.optimizer = optimizer,
                        .storage = Storage::half,
                        .world = world,
                        .steps = 5,
                        .bad_step = 2,
                        .options = moving_scale()};
      check_stages(setup);
      Outcome const outcome = run(setup);
      std::vector<float> used;
      for (AfterStep const& step : outcome.steps) used.push_back(step.decisions[0].used_scale);
      // The first growth takes two good steps, and so does the one after an overflow.
      CHECK(used == std::vector<float>{16, 16, 32, 16, 16});
      CHECK(outcome.steps[2].decisions[0].cause == zero::SkipCause::gradient);
      CHECK(same_bits(outcome.steps[2].weights, outcome.steps[1].weights));
      CHECK(same_bits(outcome.steps[2].states[0], outcome.steps[1].states[0]));
      CHECK(outcome.steps[4].decisions[0].updates == 4);
    }
  }
}

#if !ZERO_TESTS_SANITIZED
TEST_CASE("storages of 16 bits: stages agree where work runs late and where no host may touch") {
  std::pair<AnyOptimizer, Storage> const some[] = {
      {zero::AdamW{.lr = 0.03f, .weight_decay = 0.1f}, Storage::mixed},
      {zero::AdamW{.lr = 0.03f, .weight_decay = 0.1f}, Storage::split},
      {zero::AdamW{.lr = 0.03f, .weight_decay = 0.1f}, Storage::short_states},
      {zero::Lamb{.lr = 0.03f, .weight_decay = 0.1f}, Storage::mixed},
      {zero::Lamb{.lr = 0.03f, .weight_decay = 0.1f}, Storage::half}};
  for (auto const& [optimizer, storage] : some) {
    for (Device device : {Device::late, Device::guarded}) {
      for (int world : {1, 3}) {
        Setup setup{.optimizer = optimizer, .storage = storage, .device = device, .world = world};
        if (storage == Storage::half) setup.options = moving_scale();
        check_stages(setup);
      }
    }
  }
}

TEST_CASE("every optimizer: stages agree on a device that runs work late") {
  for (AnyOptimizer const& optimizer : menu()) {
    for (Storage storage : {Storage::floats, Storage::all_short}) {
      for (int world : {1, 3})
        check_stages(
            {.optimizer = optimizer, .storage = storage, .device = Device::late, .world = world});
    }
  }
}

TEST_CASE("every optimizer: stages agree on a device whose memory the host cannot touch") {
  for (AnyOptimizer const& optimizer : menu()) {
    for (Storage storage : {Storage::floats, Storage::all_short}) {
      for (int world : {1, 3})
        check_stages({.optimizer = optimizer,
                      .storage = storage,
                      .device = Device::guarded,
                      .world = world});
    }
  }
}
#endif

TEST_CASE("every optimizer: with units kept resident, and with accumulation") {
  for (AnyOptimizer const& optimizer : menu()) {
    for (Storage storage : {Storage::split, Storage::all_short}) {
      zero::Options options{.accumulation = 2, .clip = 4};
      options.reduction = zero::Reduction::boundary;
      options.persistence_threshold = 300;
      check_stages({.optimizer = optimizer, .storage = storage, .world = 3, .options = options});
    }
  }
}

TEST_CASE("a skipped step moves nothing, whatever the optimizer") {
  for (AnyOptimizer const& optimizer : menu()) {
    for (Storage storage : {Storage::floats, Storage::all_short}) {
      Setup setup{.optimizer = optimizer, .storage = storage, .world = 3, .bad_step = 1};
      check_stages(setup);
      Outcome const outcome = run(setup);
      CHECK(outcome.steps[1].decisions[0].skip == 1);
      CHECK(same_bits(outcome.steps[1].weights, outcome.steps[0].weights));
      CHECK(same_bits(outcome.steps[1].states[0], outcome.steps[0].states[0]));
      CHECK(!same_bits(outcome.steps[2].weights, outcome.steps[1].weights));
    }
  }
}

TEST_CASE("halves of master weights train to the bits of whole ones, in 2 bytes less") {
  for (AnyOptimizer const& optimizer : menu()) {
    for (int world : {1, 3}) {
      Outcome const whole =
          run({.optimizer = optimizer, .storage = Storage::mixed, .world = world});
      Outcome const split =
          run({.optimizer = optimizer, .storage = Storage::split, .world = world});
      for (std::size_t s = 0; s < whole.steps.size(); ++s) {
        CHECK(same_bits(whole.steps[s].weights, split.steps[s].weights));
        CHECK(same_bits(whole.steps[s].states[0], split.steps[s].states[0]));
        CHECK(same_bits(whole.steps[s].states[1], split.steps[s].states[1]));
      }
      CHECK(whole.ranks[0].hash == split.ranks[0].hash);
      Index const padded = zero::Layout(units(), world).trainable();
      // Buffers start at multiples of 256 bytes, one a unit.
      Index const saved = whole.ranks[0].state_bytes - split.ranks[0].state_bytes;
      CHECK(saved <= 2 * padded);
      CHECK(saved > 2 * padded - 256 * std::ssize(units()));
    }
  }
}

TEST_CASE("16-bit states take half of the memory, and their noise is not the rank's") {
  for (int world : {1, 2, 4}) {
    Outcome const floats = run({.world = world});
    Outcome const shorts = run({.storage = Storage::short_states, .world = world});
    Index const padded = zero::Layout(units(), world).trainable();
    CHECK(floats.ranks[0].state_bytes == 8 * padded);
    CHECK(shorts.ranks[0].state_bytes == 4 * padded);
    CHECK(!same_bits(floats.steps[2].states[0], shorts.steps[2].states[0]));
  }
  // Every rank gives the same gradients, so that worlds 1, 2 and 4 have the same means: the noise
  // is the same too, wherever an element lies.
  std::vector<Outcome> worlds;
  for (int world : {1, 2, 4}) {
    Setup setup{.storage = Storage::short_states, .stage = 3, .world = world};
    setup.options.clip = 0;
    setup.same_gradients = true;
    worlds.push_back(run(setup));
  }
  CHECK(same_trajectory(worlds[1], worlds[0]));
  CHECK(same_trajectory(worlds[2], worlds[0]));
}
