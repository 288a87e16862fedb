// SPDX-License-Identifier: Apache-2.0
#include <zero/report/wire_plan.hpp>
#include <zero/step/memory_plan.hpp>

#include <archetypes/rig.hpp>
#include <doctest/doctest.h>
#include <wire/formula.hpp>
#include <wire/models.hpp>

#include <optional>
#include <string>

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

TEST_CASE("the plan tells each phase, and bytes by the types of parameters and of gradients") {
  zero::Units units;
  for (int u = 0; u < 6; ++u)
    units.push_back({"u" + std::to_string(u), {wire::tensor("t" + std::to_string(u), {640})}});
  Index const P = 6 * 768;
  zero::Schedule const schedule = zero::default_schedule(6);
  auto const plan = [&](zero::Facts const& facts, zero::Options const& options, Index given) {
    return zero::plan_wire(units, schedule, 4, facts, options, given);
  };
  // Parameters of 2 bytes and gradients of 4, as a precision of the user's might have.
  zero::Facts facts{true, true, true, 2, 4, true, 2};
  zero::Options options{.accumulation = 3};
  auto const full = plan(facts, options, 2);
  CHECK(full.gather_elements == 2 * (2 * P - 768) * 3 / 4);
  CHECK(full.reduce_elements == 2 * P * 3 / 4);
  CHECK(full.publish_elements == 0);
  CHECK(full.elements() == full.gather_elements + full.reduce_elements);
  CHECK(full.bytes() == 2 * full.gather_elements + 4 * full.reduce_elements);
  facts = {true, false, false, 2, 4, true, 2};
  auto const one = plan(facts, {}, 1);
  CHECK(one.gather_elements == 0);
  CHECK(one.reduce_elements == P * 3 / 4);
  CHECK(one.publish_elements == P * 3 / 4);
  CHECK(one.bytes() == (4 + 2) * P * 3 / 4);
  facts = {false, false, false, 4, 4, false, 2};
  CHECK(plan(facts, {}, 1).reduce_elements == 2 * P * 3 / 4);
  CHECK(zero::plan_wire(units, schedule, 1, facts, {}, 1).elements() == 0);
}

TEST_CASE("bytes that were planned are the bytes that go over the wire") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool bf16 : {false, true}) {
      rig::Setup const setup{.units = wire::frozen_units(), .stage = stage, .bf16 = bf16};
      rig::Alone alone(setup, 0, 4);
      alone.step(1);
      auto const bytes = [&] {
        return alone.log().totals("gather").bytes + alone.log().totals("reduce").bytes +
               alone.log().totals("publish").bytes;
      };
      Index const before = bytes();
      alone.step(1);
      CAPTURE(stage);
      CHECK(bytes() - before == zero::plan_wire(setup.units, rig::schedule_of(setup), 4,
                                                rig::facts_of(setup), setup.options, 1)
                                    .bytes());
    }
  }
}

TEST_CASE("a wire plan refuses what a memory plan refuses, and a number of micro-batches") {
  zero::Units const units{{"u", {wire::tensor("t", {64})}}};
  zero::Schedule const schedule = zero::default_schedule(1);
  zero::Facts const facts{true, true, true, 2, 2, true, 2};
  auto const text = [&](zero::Units const& u, zero::Schedule const& s, Index world,
                        zero::Options const& options, Index given) -> std::string {
    try {
      (void)zero::plan_wire(u, s, world, facts, options, given);
    } catch (zero::InvalidArgument const& e) {
      return e.what();
    }
    return "";
  };
  CHECK(text(units, schedule, 2, {}, 1).empty());
  CHECK(text(units, schedule, 2, {.prefetch = 65}, 1) ==
        "Options::prefetch: found 65; expected 0 to 64 visits");
  CHECK(text(units, {{1, zero::Phase::forward}}, 2, {}, 1) ==
        "schedule: visit 0 is of unit 1; the model has units 0 to 0");
  CHECK(text(units, {{0, zero::Phase::forward}}, 2, {}, 1) ==
        "schedule: unit 'u' is trainable but has no backward visit");
  CHECK(text({}, {}, 2, {}, 1) == "model: it has no units");
  CHECK(!text(units, schedule, 0, {}, 1).empty());
  for (Index given : {-1, 0, 3}) {
    CHECK(text(units, schedule, 2, {.accumulation = 2}, given) ==
          "plan_wire: " + std::to_string(given) + " micro-batches; the options are for 1 to 2");
  }
  zero::Units const large{{"u", {wire::tensor("t", {Index{1} << 59})}}};
  CHECK(text(large, schedule, 2, {}, 1).find("wire plan does not fit 64 bits") !=
        std::string::npos);
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
