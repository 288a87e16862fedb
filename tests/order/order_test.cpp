// SPDX-License-Identifier: Apache-2.0
// A pass that leaves the declared order gives the bits that it gives at stage 0, with evaluations
// and repeated forward visits between the steps.

#include <order/ways.hpp>
#include <support/agreement.hpp>

namespace zero_test {
namespace {

/// Every way over 2 to 4 ranks; over 3, where not all are taken `in_turn`, with every bucket and
/// prefetch.
void on_host(std::vector<Way> const& ways, bool in_turn = false) {
  int turn = 0;
  for (Way const& way : ways) {
    for (Family const& family : families({2, 3, 4})) {
      Config const config = family.applied_to(of_way(way));
      if (config.world == 3 && !in_turn) {
        check_all(config, false);
      } else {
        check_in_turn(config, turn++);
      }
    }
  }
}

void elsewhere(std::vector<Way> const& ways, OnDevice device,
               std::vector<int> const& worlds = {2, 3}) {
  int turn = 0;
  for (Way const& way : ways) {
    for (Family const& family : families(worlds)) {
      Config config = family.applied_to(of_way(way));
      config.device = device;
      config.watch = turn / 6 % 2 == 0;  // six kinds of family a world
      config.evaluates = turn / 12 % 3 != 0;
      check_in_turn(config, turn++, {0, 1, 2, 3});
    }
  }
}

TEST_CASE("visits left out give the bits of stage 0 [slow]") { on_host(ways_to_skip()); }
TEST_CASE("visits beyond the schedule give the bits of stage 0 [slow]") { on_host(ways_to_add()); }
TEST_CASE("leases held longer than declared give the bits of stage 0 [slow]") {
  on_host(ways_to_hold(), true);
}

TEST_CASE("every way gives the bits of stage 0 on a device that runs work late [slow]") {
  for (auto const& ways : {ways_to_skip(), ways_to_add(), ways_to_hold()})
    elsewhere(ways, OnDevice::late);
}
#if !ZERO_TESTS_SANITIZED
TEST_CASE("every way gives the bits of stage 0 on a device whose memory is closed [slow]") {
  for (auto const& ways : {ways_to_skip(), ways_to_add()}) elsewhere(ways, OnDevice::guarded);
  elsewhere(ways_to_hold(), OnDevice::guarded, {2});
}
#endif

TEST_CASE("every way at one rank gives the same bits at every stage [slow]") {
  for (auto const& ways : {ways_to_skip(), ways_to_add(), ways_to_hold()}) {
    for (Way const& way : ways) {
      for (Family const& family : families({1})) check_in_turn(family.applied_to(of_way(way)), 1);
    }
  }
}

TEST_CASE("ways out of order: a tenth") {
  int turn = 0;
  for (auto const& ways : {ways_to_skip(), ways_to_add(), ways_to_hold()}) {
    for (Way const& way : ways) {
      Config config = of_way(way);
      config.world = 2 + turn % 2;
      config.bf16 = turn % 4 == 1;
      config.options.accumulation = turn % 3 == 0 ? 3 : 1;
      config.options.reduction =
          turn / 2 % 2 == 0 ? zero::Reduction::boundary : zero::Reduction::micro_batch;
      config.device = turn % 2 == 0 ? OnDevice::host : OnDevice::late;
      check_in_turn(config, turn++, {1, 2, 3});
    }
  }
}

TEST_CASE("units kept resident or over the turn, out of order") {
  int turn = 0;
  for (auto const& ways : {ways_to_skip(), ways_to_add()}) {
    for (Way const& way : ways) {
      Config config = of_way(way);
      config.world = 2 + turn % 3;
      config.options.accumulation = 1 + 2 * (turn % 2);
      config.stage = 3;
      config.options.reduction =
          turn % 4 < 2 ? zero::Reduction::boundary : zero::Reduction::micro_batch;
      Result const reference = reference_of(config);
      for (int prefetch : {0, 2}) {
        config.options.prefetch = prefetch;
        config.options.persistence_threshold = 256;
        config.options.release_after_forward = true;
        check_against(reference, config);
        config.options.persistence_threshold = 0;
        config.options.release_after_forward = false;
        check_against(reference, config);
      }
      ++turn;
    }
  }
}

TEST_CASE("passes in order are counted as that, and others by what they did") {
  Config config;
  config.world = 2;
  config.stage = 3;
  config.model = ragged_sizes();
  auto const deviations = [&](Script const& script) {
    config.direct = [script](Batch const&, bool) { return script; };
    Result const result = run(config);
    for (RankNumbers const& n : result.ranks) {
      CHECK(n.deviations.extra_visits == result.ranks[0].deviations.extra_visits);
      CHECK(n.deviations.skipped_visits == result.ranks[0].deviations.skipped_visits);
      CHECK(n.deviations.late_gradients == result.ranks[0].deviations.late_gradients);
    }
    return result.ranks[0].deviations;
  };
  config.steps = 3;
  Script script = in_order(config.model);
  zero::Deviations d = deviations(script);
  CHECK(d.extra_visits == 0);
  CHECK(d.skipped_visits == 0);
  CHECK(d.late_gradients == 0);
  d = deviations(without(script, 2));
  CHECK(d.extra_visits == 0);
  CHECK(d.skipped_visits == 3 * 2);
  CHECK(d.late_gradients == 0);
  script.again = {1, 3};
  d = deviations(script);
  CHECK(d.extra_visits == 3 * 2);
  CHECK(d.skipped_visits == 0);
  CHECK(d.late_gradients == 3 * 2);
}

}  // namespace
}  // namespace zero_test
