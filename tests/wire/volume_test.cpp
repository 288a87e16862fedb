// SPDX-License-Identifier: Apache-2.0
#include <zero/report/wire_plan.hpp>
#include <zero/step/memory_plan.hpp>

#include <archetypes/rig.hpp>
#include <doctest/doctest.h>
#include <wire/formula.hpp>
#include <wire/models.hpp>

#include <optional>

namespace {

using zero::Index;
using zero::Reduction;

/// Elements of one step after the first ones, which must not differ from step to step.
Index sent(rig::Setup const& setup, int world, int rank, Index micro_batches) {
  rig::Alone alone(setup, rank, world);
  Index before = 0;
  Index last = -1;
  for (int s = 0; s < 2; ++s) {
    before = alone.log().wire_elements();
    alone.step(micro_batches);
    Index const now = alone.log().wire_elements() - before;
    if (last >= 0) CHECK(now == last);
    last = now;
  }
  CHECK(alone->deviations().extra_visits == 0);
  CHECK(alone->deviations().skipped_visits == 0);
  return last;
}

Index planned(rig::Setup const& setup, int world, Index micro_batches) {
  return zero::plan_wire_elements(setup.units, rig::schedule_of(setup), world, rig::facts_of(setup),
                                  setup.options, micro_batches);
}

struct Steps {
  Index accumulation;
  Index given;
};

constexpr Steps all_steps[] = {{1, 1}, {3, 3}, {3, 2}};
constexpr std::optional<Reduction> all_moments[] = {std::nullopt, Reduction::boundary,
                                                    Reduction::micro_batch};

void check(rig::Setup const& setup, int world, Index given) {
  Index const expected = formula::step_elements(setup, world, given);
  CHECK(planned(setup, world, given) == expected);
  CHECK(sent(setup, world, world - 1, given) == expected);
}

}  // namespace

TEST_CASE("stages 0 to 2 send what the formula says, whatever the gathers of stage 3 are told") {
  for (wire::Described const& model : wire::models()) {
    for (int stage = 0; stage <= 2; ++stage) {
      for (int world : {1, 2, 3, 4, 8}) {
        for (auto moment : all_moments) {
          for (Steps const steps : all_steps) {
            rig::Setup setup{.units = model.units, .schedule = model.schedule, .stage = stage};
            setup.options.accumulation = steps.accumulation;
            setup.options.reduction = moment;
            CAPTURE(model.name);
            CAPTURE(world);
            CAPTURE(steps.given);
            CAPTURE(setup);
            check(setup, world, steps.given);
            setup.options.prefetch = 3;
            setup.options.bucket = 700;
            setup.options.persistence_threshold = 512;
            setup.options.release_after_forward = false;
            check(setup, world, steps.given);
          }
        }
      }
    }
  }
}

TEST_CASE("stage 3 sends what the formula says: tied, frozen, resident and kept units counted so") {
  for (wire::Described const& model : wire::models()) {
    for (int world : {1, 2, 3, 4, 8}) {
      for (auto moment : all_moments) {
        for (Steps const steps : all_steps) {
          for (int prefetch = 0; prefetch <= 3; ++prefetch) {
            for (Index threshold : {0, 512, 100000}) {
              for (bool release : {true, false}) {
                rig::Setup setup{
                    .units = model.units, .schedule = model.schedule, .stage = 3, .bf16 = true};
                setup.options.accumulation = steps.accumulation;
                setup.options.reduction = moment;
                setup.options.prefetch = prefetch;
                setup.options.persistence_threshold = threshold;
                setup.options.release_after_forward = release;
                CAPTURE(model.name);
                CAPTURE(world);
                CAPTURE(steps.given);
                CAPTURE(setup);
                check(setup, world, steps.given);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("every rank sends the same") {
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Setup const setup{.units = wire::frozen_units(), .stage = stage};
    for (int rank = 0; rank < 3; ++rank)
      CHECK(sent(setup, 3, rank, 1) == formula::step_elements(setup, 3, 1));
  }
}

TEST_CASE("in numbers: units of 640 elements on 4 ranks") {
  zero::Units units;
  for (int u = 0; u < 6; ++u)
    units.push_back({"u" + std::to_string(u), {wire::tensor("t" + std::to_string(u), {640})}});
  Index const P = 6 * 768;  // each padded to a multiple of 256
  auto const wire = [&](int stage, auto change) {
    rig::Setup setup{.units = units, .stage = stage};
    change(setup.options);
    return sent(setup, 4, 2, setup.options.accumulation);
  };
  auto const as_is = [](zero::Options&) {};
  CHECK(wire(0, as_is) == 2 * P * 3 / 4);
  CHECK(wire(1, as_is) == 2 * P * 3 / 4);
  CHECK(wire(2, as_is) == 2 * P * 3 / 4);
  // Each unit is gathered for its forward and for its backward, but the last one is still there.
  CHECK(wire(3, as_is) == (3 * P - 768) * 3 / 4);
  CHECK(wire(3, [](auto& o) { o.prefetch = 0; }) == (3 * P - 768) * 3 / 4);
  CHECK(wire(3, [](auto& o) { o.prefetch = 3; }) == (3 * P - 2 * 768) * 3 / 4);
  CHECK(wire(3, [](auto& o) { o.release_after_forward = false; }) == 2 * P * 3 / 4);
  CHECK(wire(3, [](auto& o) { o.persistence_threshold = 768; }) == 2 * P * 3 / 4);
  // Three micro-batches: the stages that keep whole gradients reduce once, the others three times.
  auto const three = [](zero::Options& o) { o.accumulation = 3; };
  CHECK(wire(0, three) == 2 * P * 3 / 4);
  CHECK(wire(1, three) == 2 * P * 3 / 4);
  CHECK(wire(2, three) == 4 * P * 3 / 4);
  CHECK(wire(3, three) == (3 * P + 3 * (2 * P - 768)) * 3 / 4);
}

TEST_CASE("stages 1 and 2 with one reduction a step send exactly what stage 0 sends") {
  for (wire::Described const& model : wire::models()) {
    for (int world : {2, 3, 8}) {
      for (Steps const steps : {Steps{1, 1}, Steps{3, 3}}) {
        auto const wire = [&](int stage) {
          rig::Setup setup{.units = model.units, .schedule = model.schedule, .stage = stage};
          setup.options.accumulation = steps.accumulation;
          setup.options.reduction = Reduction::boundary;
          return sent(setup, world, 0, steps.given);
        };
        CAPTURE(model.name);
        CAPTURE(world);
        CHECK(wire(1) == wire(0));
        CHECK(wire(2) == wire(0));
      }
    }
  }
}
