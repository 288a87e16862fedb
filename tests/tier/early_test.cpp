// SPDX-License-Identifier: Apache-2.0
// Updates below the device that are enqueued while backward is: in which order, how far they go,
// what holds them back, and what is refused once they have begun.
#include <zero/comm/single_rank.hpp>

#include <doctest/doctest.h>
#include <support/late_device.hpp>
#include <tier/io_faults.hpp>
#include <tier/train.hpp>

#include <atomic>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

namespace tier_test {
namespace {

using namespace zero;
using zero_test::LateDevice;

constexpr int unit_count = 6;
constexpr int elements = 640;  // of a unit

/// Whose elements were updated, a unit as often as it has begun; and how many elements.
struct Updates {
  std::vector<int> order;
  std::atomic<int> elements = 0;
} updates;

/// Descent by 1, whose gradient is the unit's number and 1.
struct TellingSgd {
  static constexpr int num_states = 0;
  struct Constants {};

  float learning_rate(Index) const { return 1; }
  Constants constants(Index) const { return {}; }
  float direction(Constants, float, float gradient, float*, float) const {
    int const unit = static_cast<int>(gradient) - 1;
    if (updates.order.empty() || updates.order.back() != unit) updates.order.push_back(unit);
    ++updates.elements;
    return gradient;
  }
};

/// Forward 0 to 5, backward 5 to 0.
struct Chain {
  using Batch = int;
  /// Called before each visit by the thread that enqueues it; may do more.
  std::function<void(Phase, int)> before = [](Phase, int) {};
  /// Work of each forward visit on the device.
  std::function<void(int)> at_forward{};
  bool keeps_parameters = false;  // of the last unit, until the pass ends
  int extra = -1;  // unit that is visited once more before the backward of extra_before
  int extra_before = 0;
  Phase extra_phase = Phase::forward;
  bool returns = false;  // to unit 5, forward, before the backward of 0; its weights join there

  Units units() const {
    Units all;
    for (int u = 0; u < unit_count; ++u) {
      std::string const name = "u" + std::to_string(u);
      all.push_back({name, {{name + ".w", {elements}}}});
    }
    return all;
  }
  Schedule schedule() const {
    Schedule all = default_schedule(unit_count);
    if (returns) all.insert(all.end() - 1, {5, Phase::forward});
    return all;
  }
  template <class Pass>
  void operator()(Pass& pass, int) const {
    for (int u = 0; u < unit_count; ++u) {
      auto const lease = pass.forward(u);
      if (at_forward) pass.stream().enqueue([this, u] { at_forward(u); });
    }
    if constexpr (Pass::trains) {
      std::vector<ParameterLease<Pass>> kept;
      for (int u = unit_count; u-- > 0;) {
        if (u == extra_before && extra >= 0) visit_once_more(pass);
        if (u == 0 && returns) come_back(pass);
        before(Phase::backward, u);
        auto [w, g] = pass.backward(u);
        add(pass, u, g);
        if (u == 0 && returns) add_joined(pass, g);
        if (keeps_parameters && u == 5) kept.push_back(std::move(w));
      }
    }
  }

 private:
  template <class Pass, class Lease>
  static void add(Pass& pass, int u, Lease const& g) {
    pass.stream().enqueue([to = g[0], u] {
      using Gradient = typename Pass::Gradient;
      Gradient* const x = Pass::Device::resolve(to.address());
      for (Index i = 0; i < to.size(); ++i)
        x[i] = Gradient(static_cast<float>(x[i]) + static_cast<float>(u + 1));
    });
  }
  template <class Pass>
  void come_back(Pass& pass) const {
    auto const lease = pass.forward(5);
    pass.stream().enqueue([from = lease[0], to = &joined_] {
      *to = static_cast<float>(*Pass::Device::resolve(from.address()));
    });
  }
  template <class Pass, class Lease>
  void add_joined(Pass& pass, Lease const& g) const {
    pass.stream().enqueue([to = g[0], joined = &joined_] {
      auto* const x = Pass::Device::resolve(to.address());
      for (Index i = 0; i < to.size(); ++i)
        x[i] = typename Pass::Gradient(static_cast<float>(x[i]) + *joined);
    });
  }
  template <class Pass>
  void visit_once_more(Pass& pass) const {
    if (extra_phase == Phase::forward) return pass.forward(extra).end();
    auto [w, g] = pass.backward(extra);
    add(pass, extra, g);
  }

  mutable float joined_ = 0;
};

template <class Sharding, class Checking, class F>
void with_trainer(Chain const& model, Index accumulation, F f) {
  Host device;
  Options options;
  options.accumulation = accumulation;
  options.offload.tile_elements = 256;  // three of a unit
  options.offload.nvme_path = folder();
  options.offload.buffer_count = 3;
  Trainer trainer{model,       SingleRank(device), TellingSgd{}, options,
                  Bf16Mixed{}, Sharding{},         Checking{}};
  updates.order.clear();  // what ranks compare of optimizers has called it
  updates.elements = 0;
  f(trainer);
}

/// Elements that were updated when each backward visit of the second step's last micro-batch was
/// about to be enqueued. The host's streams run what is enqueued at once.
template <class Sharding, class Checking>
std::vector<int> seen_by_visits(Index accumulation, bool keeps = false) {
  std::vector<int> seen;
  Chain model;
  model.keeps_parameters = keeps;
  model.before = [&](Phase, int) { seen.push_back(updates.elements); };
  with_trainer<Sharding, Checking>(model, accumulation, [&](auto& trainer) {
    std::vector<int> const batches(at(accumulation));
    trainer.step(batches);
    updates.order.clear();
    updates.elements = 0;
    seen.clear();
    trainer.step(batches);
    trainer.synchronize();
  });
  for (Index i = 0; i < (accumulation - 1) * unit_count; ++i) CHECK(seen[at(i)] == 0);
  return {seen.end() - unit_count, seen.end()};
}

using Order = std::vector<int>;

template <class Sharding>
void check_order() {
  for (Index accumulation : {1, 3}) {
    CAPTURE(accumulation);
    // A unit is updated when the next one's gradients come down, since its own may be in use until
    // then: when the visit of 3 is enqueued, 5 is. A third of six units goes early.
    Order const early{0, 0, elements, 2 * elements, 2 * elements, 2 * elements};
    CHECK(seen_by_visits<Sharding, UncheckedGradients>(accumulation) == early);
    // Then those that the next forward pass needs first.
    CHECK(updates.order == Order{5, 4, 0, 1, 2, 3});
    CHECK(updates.elements == unit_count * elements);
    CHECK(seen_by_visits<Sharding, CheckedGradients>(accumulation) == Order(unit_count, 0));
    CHECK(updates.order == Order{0, 1, 2, 3, 4, 5});
  }
}

TEST_CASE("unchecked updates below the device are enqueued beside backward, a third of them") {
  check_order<Sharded<1, Offload<OnHost>>>();
  check_order<Sharded<2, Offload<OnHost>>>();
  check_order<Sharded<2, Offload<OnNvme>>>();
  check_order<Sharded<3, Offload<OnHost>>>();
  check_order<Sharded<3, Offload<OnHost, OnHost>>>();
  check_order<Sharded<3, Offload<OnNvme, OnNvme>>>();
}

TEST_CASE("a lease of parameters that an update replaces holds it back until the pass has ended") {
  CHECK(seen_by_visits<Sharded<1, Offload<OnHost>>, UncheckedGradients>(1, true) ==
        Order(unit_count, 0));
  CHECK(updates.order == Order{5, 4, 0, 1, 2, 3});
}

TEST_CASE("the next forward pass waits for the tiles that it reads, not for the last ones") {
  std::vector<int> seen;
  Chain model;
  model.at_forward = [&](int) { seen.push_back(updates.elements); };
  launch<ThreadsOn<LateDevice>>(1, [&](auto communicator) {
    Options options;
    options.offload.tile_elements = 256;
    Trainer trainer{model,
                    communicator,
                    TellingSgd{},
                    options,
                    Bf16Mixed{},
                    Sharded<3, Offload<OnHost>>{},
                    UncheckedGradients{}};
    updates.elements = 0;
    for (int step : {0, 1}) trainer.step(step);
    trainer.synchronize();
  });
  // Late streams run what is asked for alone. The second step's visit of unit 0 asks for 5 and 4,
  // which come before it, and for 0; that of 1 for one more; those of 4 and 5 are there.
  REQUIRE(seen.size() == 2 * unit_count);
  for (int u = 0; u < unit_count; ++u) {
    CAPTURE(u);
    CHECK(seen[at(u)] == 0);
    CHECK(seen[at(unit_count + u)] == std::min(u + 3, unit_count) * elements);
  }
}

template <class Sharding, class Checking>
std::vector<float> weights_of(Chain const& model) {
  std::vector<float> all;
  with_trainer<Sharding, Checking>(model, 1, [&](auto& trainer) {
    for (int step : {0, 1}) trainer.step(step);
    trainer.synchronize();
    read_weights(trainer, [&](PlacedTensor const&, Index, std::span<float const> values) {
      all.insert(all.end(), values.begin(), values.end());
    });
  });
  return all;
}

/// The weights after two steps of a model that visits a unit once more.
template <class Sharding, class Checking>
std::vector<float> weights_with(int extra, Phase phase) {
  Chain model;
  model.extra = extra;
  model.extra_phase = phase;
  return weights_of<Sharding, Checking>(model);
}

TEST_CASE("a unit that the schedule comes back to is updated when the pass has ended") {
  Chain model;
  model.returns = true;
  auto const weights = weights_of<Sharded<3, Offload<OnHost, OnHost>>, UncheckedGradients>(model);
  CHECK(weights == weights_of<Sharded<0>, CheckedGradients>(model));
  // By 1 and by 1 less the 6 that unit 5 has gone down by in the first step.
  CHECK(weights.front() == -1 - (1 - 6));
}

TEST_CASE("a late gradient of a unit that is down and not yet updated is part of its update") {
  Chain model;
  model.extra = 5;
  model.extra_before = 4;
  model.extra_phase = Phase::backward;
  using Below = Sharded<3, Offload<OnHost>>;
  auto const weights = weights_of<Below, UncheckedGradients>(model);
  CHECK(weights == weights_of<Sharded<0>, CheckedGradients>(model));
  CHECK(weights.back() == -2 * (6 + 6));
}

TEST_CASE("an extra visit of a unit that is updated already is refused, others train as ever") {
  using Below = Sharded<3, Offload<OnHost>>;
  for (Phase phase : {Phase::forward, Phase::backward}) {
    for (int extra = 0; extra < unit_count; ++extra) {
      CAPTURE(extra);
      if (extra >= 4) {  // the third of them
        CHECK_THROWS_WITH_AS(
            (weights_with<Below, UncheckedGradients>(extra, phase)),
            ("visit of unit 'u" + std::to_string(extra) +
             "' outside the schedule: its state below the device is updated already; expected none "
             "behind its last visit of the schedule with UncheckedGradients")
                .c_str(),
            Error);
      } else {
        CHECK(weights_with<Below, UncheckedGradients>(extra, phase) ==
              weights_with<Sharded<0>, CheckedGradients>(extra, phase));
      }
      CHECK(weights_with<Below, CheckedGradients>(extra, phase) ==
            weights_with<Sharded<0>, CheckedGradients>(extra, phase));
    }
  }
}

TEST_CASE("a step that breaks off behind early updates ends the trainer, before them it does not") {
  struct Fails {};
  for (int where : {5, 4, 3, 0}) {
    bool breaks = true;
    Chain model;
    model.before = [&](Phase, int u) {
      if (breaks && u == where) throw Fails{};
    };
    with_trainer<Sharded<3, Offload<OnHost>>, UncheckedGradients>(model, 1, [&](auto& trainer) {
      CAPTURE(where);
      CHECK_THROWS_AS(trainer.step(0), Fails);
      breaks = false;
      if (where >= 4) {  // the first update is enqueued with the gradients of unit 4
        trainer.step(0);
        CHECK(updates.elements == unit_count * elements);
      } else {
        std::string const done = where == 3 ? "1" : "2";
        CHECK_THROWS_WITH_AS(
            trainer.step(0),
            ("step: one before was broken off when " + done +
             " of 2 units that are updated below the device during backward had been updated; "
             "expected a new trainer, which loads a checkpoint")
                .c_str(),
            Error);
        // What a save and a load ask first.
        CHECK_THROWS_AS(trainer.context().tiers.early.require_whole(), Error);
      }
    });
  }
}

TEST_CASE("an early update that breaks off has begun, one that is held back has not") {
  Layout const layout(Chain().units(), 1);
  int const order[] = {5, 4};
  EarlyUpdates early(layout);
  early.begin(order, [](int) { return false; });
  early.comes_down(5);
  early.comes_down(4);
  early.require_whole();
  CHECK(early.end() == 0);
  early.begin(order, [](int) -> bool { throw StorageError("no room"); });
  early.comes_down(5);
  CHECK_THROWS_AS(early.comes_down(4), StorageError);
  CHECK_THROWS_AS(early.require_whole(), Error);
  CHECK_THROWS_AS(early.begin(order, [](int) { return true; }), Error);
}

/// Each write of a step's fails once; then the disk is well again, and the trainer still is not.
template <class Checking>
void step_again_behind_a_fault() {
  struct WellAgain {
    ~WellAgain() { io_faults.clear(); }
  } const after;
  int failed = 0;
  for (long bad = 0; bad < 40; ++bad) {
    Chain model;
    with_trainer<Sharded<3, Offload<OnNvme>>, Checking>(model, 1, [&](auto& trainer) {
      trainer.step(0);
      trainer.synchronize();
      io_faults.clear();
      io_faults.bad_write = bad;
      io_faults.error = EIO;
      bool threw = false;
      for (int step = 0; step < 2 && !threw; ++step) {
        try {
          trainer.step(0);
          trainer.synchronize();
        } catch (Error const&) {
          threw = true;
        }
      }
      io_faults.clear();
      if (!threw) return;  // so many writes are not made
      ++failed;
      CAPTURE(bad);
      for (int step = 0; step < 3; ++step) CHECK_THROWS_AS(trainer.step(0), Error);
    });
  }
  CHECK(failed > 5);
}

TEST_CASE("a step behind one that a file broke off is refused again, and touches nothing else") {
  step_again_behind_a_fault<CheckedGradients>();
  step_again_behind_a_fault<UncheckedGradients>();
}

}  // namespace
}  // namespace tier_test
