// SPDX-License-Identifier: Apache-2.0
// A gradient that is not finite, wherever it comes from: the step is skipped on every rank alike,
// counted, its unit named; nothing that is trained changes by a bit; and training goes on as if the
// step had not been.

#include <support/agreement.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace zero_test {
namespace {

float const nan = std::numeric_limits<float>::quiet_NaN();
float const infinity = std::numeric_limits<float>::infinity();

/// A value put into one gradient of one micro-batch of one rank.
struct Spot {
  int step = 1;
  int micro = 0;
  int rank = 0;
  Poison poison{};
};

void put(Config& config, std::vector<Spot> const& spots) {
  config.alter = [spots](Batch& batch) {
    for (Spot const& spot : spots) {
      if (batch.step == spot.step && batch.micro == spot.micro && batch.rank == spot.rank)
        batch.poisons.push_back(spot.poison);
    }
  };
}

bool same(Tensors const& a, Tensors const& b) {
  for (std::size_t t = 0; t < a.size(); ++t) {
    for (std::size_t i = 0; i < a[t].size(); ++i) {
      if (std::bit_cast<std::uint32_t>(a[t][i]) != std::bit_cast<std::uint32_t>(b[t][i]))
        return false;
    }
  }
  return true;
}

/// Step `bad` (from 0) is skipped with that unit named, and no other.
void check_skip(Config const& config, Result const& result, int bad, int unit) {
  INFO(describe(config));
  for (int s = 0; s < config.steps; ++s) {
    for (zero::Decision const& d : result.steps[zero::at(s)].decisions) {
      CHECK(d.skip == (s == bad ? 1 : 0));
      CHECK(d.bad_unit == (s == bad ? unit : -1));
      CHECK(d.skipped == (s >= bad ? 1 : 0));
      CHECK(d.updates == (s >= bad ? s : s + 1));
      CHECK(std::isfinite(d.norm) == (s != bad));
      CHECK(std::isfinite(d.learning_rate));
    }
    if (s == 0) continue;
    Snapshot const& before = result.snapshots[zero::at(s - 1)];
    Snapshot const& after = result.snapshots[zero::at(s)];
    CHECK(same(before.weights, after.weights) == (s == bad));
    CHECK(same(before.moments[0], after.moments[0]) == (s == bad));
    CHECK(same(before.moments[1], after.moments[1]) == (s == bad));
  }
}

/// A run of the steps without the bad one ends in the same weights and moments.
void check_going_on(Config config, Result const& result, int bad) {
  config.steps -= 1;
  config.alter = [bad](Batch& batch) {
    if (batch.step >= bad) batch = make_batch(batch.rank, batch.step + 1, batch.micro);
  };
  Result const without = run(config);
  Snapshot const& a = result.snapshots.back();
  Snapshot const& b = without.snapshots.back();
  INFO(describe(config));
  CHECK(same(a.weights, b.weights));
  CHECK(same(a.moments[0], b.moments[0]));
  CHECK(same(a.moments[1], b.moments[1]));
}

Config poisoned(Family const& family, std::vector<Spot> const& spots) {
  Config config;
  config.model = everything();
  config.steps = 4;
  // Rises in the first step and falls from then on, by updates and not by steps.
  config.optimizer.schedule = zero::LearningRate::linear(1, 10);
  config = family.applied_to(config);
  put(config, spots);
  return config;
}

void check_everywhere(Config config, int bad, int unit, std::vector<int> const& stages) {
  Result const reference = reference_of(config);
  check_skip(config, reference, bad, unit);
  for (int stage : stages) {
    config.stage = stage;
    Result const result = check_against(reference, config);
    check_skip(config, result, bad, unit);
  }
  check_going_on(config, reference, bad);
}

/// Trainable places of everything(): unit, tensor, element.
std::vector<Poison> const& places() {
  static std::vector<Poison> const all{{0, 0, 0, 0}, {0, 0, 142, 0}, {0, 1, 6, 0},   {1, 0, 0, 0},
                                       {2, 2, 0, 0}, {2, 3, 16, 0},  {4, 0, 712, 0}, {4, 0, 320, 0},
                                       {4, 1, 0, 0}, {6, 0, 4, 0}};
  return all;
}

TEST_CASE("a value that is not finite skips the step: every rank, place, stage and precision") {
  std::size_t turn = 0;
  float const values[] = {nan, infinity, -infinity};
  for (Family const& family : families({1, 2, 3, 4, 8})) {
    for (int rank = 0; rank < family.world; ++rank) {
      for (std::size_t place = 0; place < places().size(); ++place) {
        if (family.world == 8 && place % 8 != static_cast<std::size_t>(rank)) continue;
        Poison poison = places()[place];
        poison.value = values[turn % 3];
        int const micro =
            static_cast<int>(static_cast<zero::Index>(turn / 3) % family.accumulation);
        ++turn;
        if (ZERO_TESTS_SANITIZED && turn % 11 != 0) continue;  // not 10, of which each rank has
        Config const config = poisoned(family, {{1, micro, rank, poison}});
        check_everywhere(config, 1, poison.unit, {1, 2, 3});
      }
    }
  }
}

TEST_CASE(
    "a value that is not finite skips the step, on devices that run work late or are closed") {
  for (OnDevice device : {OnDevice::late, OnDevice::guarded}) {
    if (ZERO_TESTS_SANITIZED && device == OnDevice::guarded) continue;
    for (Family const& family : families({2, 3})) {
      Poison poison = places()[static_cast<std::size_t>(family.world)];
      poison.value = nan;
      Config config = poisoned(family, {{2, 0, family.world - 1, poison}});
      config.device = device;
      check_everywhere(config, 2, poison.unit, {0, 1, 2, 3});
    }
  }
}

TEST_CASE("the first step may be the bad one") {
  for (Family const& family : families({1, 2})) {
    Poison poison = places()[3];
    poison.value = infinity;
    Config const config = poisoned(family, {{0, 0, family.world - 1, poison}});
    Result const reference = reference_of(config);
    CHECK(reference.steps[0].decisions[0].skip == 1);
    CHECK(reference.steps[0].decisions[0].updates == 0);
    for (float m : reference.snapshots[0].moments[0][0]) CHECK(m == 0.0f);
    for (int stage : {1, 2, 3}) {
      Config other = config;
      other.stage = stage;
      check_against(reference, other);
    }
    check_going_on(config, reference, 0);
  }
}

TEST_CASE("of several bad units the one that backward comes to first is named, on whatever rank") {
  for (Family const& family : families({2, 4})) {
    for (bool swapped : {false, true}) {
      Poison early{2, 2, 80, nan};
      Poison late{6, 0, 1, infinity};
      int const last = family.world - 1;
      Config const config =
          poisoned(family, {{1, 0, swapped ? last : 0, early}, {1, 0, swapped ? 0 : last, late}});
      check_everywhere(config, 1, 6, {1, 2, 3});
    }
  }
}

TEST_CASE("where backward goes another way, its own order says which of several is named") {
  // Backward visits 1, 3, 0, 2; and in tied() 0, 3, 2, 1, 0, so that 0 is done with last.
  ModelSpec const permuted = spec("permuted", tied().units, {2, 0, 3, 1});
  struct Row {
    ModelSpec model;
    int first, second;  // as backward is done with them
  };
  for (Family const& family : families({2, 3})) {
    for (Row const& row : {Row{permuted, 1, 3}, Row{permuted, 3, 0}, Row{permuted, 0, 2},
                           Row{tied(), 3, 0}, Row{tied(), 1, 0}}) {
      for (bool swapped : {false, true}) {
        if (ZERO_TESTS_SANITIZED && swapped != (family.world == 2)) continue;
        int const last = family.world - 1;
        Config config =
            poisoned(family, {{1, 0, swapped ? last : 0, {row.first, 0, 1, nan}},
                              {1, 0, swapped ? 0 : last, {row.second, 0, 2, infinity}}});
        config.model = row.model;
        check_everywhere(config, 1, row.first, {1, 2, 3});
      }
    }
  }
}

TEST_CASE("infinities that would cancel are seen") {
  for (Family const& family : families({2, 3})) {
    Config const config =
        poisoned(family, {{1, 0, 0, {4, 0, 7, infinity}}, {1, 0, 1, {4, 0, 7, -infinity}}});
    check_everywhere(config, 1, 4, {1, 2, 3});
  }
}

TEST_CASE("several skips are counted and training goes on after each") {
  for (Family const& family : families({1, 2})) {
    Config config = poisoned(
        family, {{1, 0, 0, {0, 0, 3, nan}}, {3, 0, 0, {6, 0, 0, nan}}, {4, 0, 0, {1, 0, 0, nan}}});
    config.steps = 6;
    Result const reference = reference_of(config);
    zero::Decision const& last = reference.steps.back().decisions[0];
    CHECK(last.skipped == 3);
    CHECK(last.updates == 3);
    CHECK(last.skip == 0);
    for (int stage : {1, 2, 3}) {
      config.stage = stage;
      check_against(reference, config);
    }
  }
}

TEST_CASE("late gradients that are not finite skip the step") {
  for (Family const& family : families({1, 2, 3})) {
    Config config = poisoned(family, {{1, 0, 0, {4, 0, 3, nan}}});
    config.direct = [script = in_order(config.model)](Batch const&, bool) {
      Script again = script;
      again.again = {4};
      return again;
    };
    check_everywhere(config, 1, 4, {1, 2, 3});
  }
}

}  // namespace
}  // namespace zero_test
