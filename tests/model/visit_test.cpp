// SPDX-License-Identifier: Apache-2.0
#include <zero/model/backward_place.hpp>
#include <zero/model/model.hpp>

#include <doctest/doctest.h>

#include <set>

namespace {

using zero::Index;
using zero::Phase;
using zero::Schedule;
using zero::Unit;
using zero::Units;
using zero::Visit;

Units three_units() {
  return {Unit{"a", {{.name = "x", .shape = {2}}}},
          Unit{"b", {{.name = "y", .shape = {2}, .trainable = false}}},
          Unit{"c", {{.name = "z", .shape = {2}}}}};
}

void refused(Schedule const& schedule, char const* sentence) {
  CHECK_THROWS_WITH_AS(zero::validate(schedule, three_units()), sentence, zero::InvalidArgument);
}

TEST_CASE("the default is forward in order, backward in the opposite one") {
  Schedule const schedule = zero::default_schedule(3);
  REQUIRE(schedule.size() == 6);
  for (int i = 0; i < 6; ++i) {
    CAPTURE(i);
    Visit const& visit = schedule[zero::at(i)];
    CHECK(visit.unit == (i < 3 ? i : 5 - i));
    CHECK(visit.phase == (i < 3 ? Phase::forward : Phase::backward));
    CHECK(visit.held == 0);
  }
  CHECK(zero::default_schedule(0).empty());
  zero::validate(schedule, three_units());
}

TEST_CASE("a unit may be visited several times, a frozen one never") {
  zero::validate({{0, Phase::forward},
                  {2, Phase::forward, 5},
                  {0, Phase::forward},
                  {0, Phase::backward},
                  {2, Phase::backward},
                  {0, Phase::backward}},
                 three_units());
  // Without elements there is nothing to reach either.
  Units units = three_units();
  units[2].tensors[0].shape = {0};
  zero::validate({{0, Phase::forward}, {0, Phase::backward}}, units);
}

TEST_CASE("what a schedule gets wrong is named") {
  refused({{3, Phase::forward}}, "schedule: visit 0 is of unit 3; the model has units 0 to 2");
  refused({{0, Phase::forward}, {-1, Phase::backward}},
          "schedule: visit 1 is of unit -1; the model has units 0 to 2");
  refused({{0, Phase::forward, -1}}, "schedule: visit 0 is held for a negative count");
  refused({}, "schedule: unit 'a' is trainable but has no backward visit");
  refused({{0, Phase::forward}, {2, Phase::forward}, {0, Phase::backward}},
          "schedule: unit 'c' is trainable but has no backward visit");
}

TEST_CASE("schedules that differ anywhere have different hashes") {
  Schedule const base = zero::default_schedule(2);
  std::set<std::uint64_t> seen{zero::hash(base)};
  auto const differs = [&](auto change) {
    Schedule other = base;
    change(other);
    CHECK(seen.insert(zero::hash(other)).second);
  };
  differs([](Schedule& s) { s[1].unit = 0; });
  differs([](Schedule& s) { s[1].phase = Phase::backward; });
  differs([](Schedule& s) { s[1].held = 1; });
  differs([](Schedule& s) { std::swap(s[0], s[1]); });
  differs([](Schedule& s) { s.pop_back(); });
  differs([](Schedule& s) { s.push_back({0, Phase::forward}); });
  differs([](Schedule& s) { s.clear(); });
  CHECK(zero::hash(zero::default_schedule(2)) == zero::hash(base));
}

TEST_CASE("where backward met something first is told as far as gradients tell it") {
  Units const units = [] {
    Units all;
    for (char const* name : {"wte", "h.0", "h.1", "cold", "norm"})
      all.push_back({name, {{.name = std::string(name) + ".w", .shape = {3}}}});
    all[3].tensors[0].trainable = false;
    return all;
  }();
  auto const place = [&](std::vector<int> const& backward, Index unit) {
    Schedule s;
    for (int u : {0, 1, 2, 3, 4, 0}) s.push_back({u, Phase::forward});
    for (int u : backward) s.push_back({u, Phase::backward});
    return zero::backward_place(s, units, unit);
  };
  for (Index u : {0, 1, 2, 4}) {
    std::string const alone = "unit '" + units[zero::at(u)].name + "'";
    CHECK(place({4, 3, 2, 1, 0}, u) == alone);
    CHECK(place({2, 1, 4, 0, 3}, u) == alone);
  }
  // The head is wte, visited first and last. Where it met it, norm has it, which comes next.
  CHECK(place({0, 4, 3, 2, 1, 0}, 4) == "unit 'norm' or, visited more than once, 'wte'");
  CHECK(place({0, 4, 3, 2, 1, 0}, 2) == "unit 'h.1'");
  CHECK(place({0, 4, 3, 2, 1, 0}, 0) == "unit 'wte'");
  // A frozen unit between them has no gradient and tells nothing.
  CHECK(place({0, 3, 2, 1, 4, 0}, 2) == "unit 'h.1' or, visited more than once, 'wte'");
  // Several that come again, one of them twice; and one that stands between visits of the unit.
  CHECK(place({0, 1, 0, 4, 2, 1, 0}, 4) == "unit 'norm' or, visited more than once, 'wte', 'h.0'");
  CHECK(place({0, 1, 0, 4, 2, 1, 0}, 2) == "unit 'h.1'");
  CHECK(place({4, 1, 2, 1, 2, 0}, 1) == "unit 'h.0' or, visited more than once, 'h.1'");
}

struct Plain {
  using Batch = int;
  Units units() const { return three_units(); }
};
struct WithSchedule : Plain {
  Schedule schedule() const { return {{2, Phase::forward}, {2, Phase::backward}}; }
};
struct NoBatch {
  Units units() const { return {}; }
};
struct NoUnits {
  using Batch = int;
};

TEST_CASE("a model is units and a batch, and a schedule of its own is taken where it has one") {
  static_assert(zero::Model<Plain> && !zero::HasSchedule<Plain>);
  static_assert(zero::Model<WithSchedule> && zero::HasSchedule<WithSchedule>);
  static_assert(!zero::Model<NoBatch> && !zero::Model<NoUnits> && !zero::Model<int>);
  zero::Description const plain = zero::describe(Plain{});
  CHECK(plain.units.size() == 3);
  CHECK(zero::hash(plain.schedule) == zero::hash(zero::default_schedule(3)));
  CHECK(zero::hash(zero::describe(WithSchedule{}).schedule) ==
        zero::hash(WithSchedule{}.schedule()));
}

}  // namespace
