// SPDX-License-Identifier: Apache-2.0
// Where state lies changes no bit: every tier against the same stage on the device.
#include <doctest/doctest.h>
#include <tier/run.hpp>

namespace {

using namespace tier_test;

std::vector<Place> places() {
  std::vector<Place> all;
  for (int stage : {1, 2}) {
    for (Tier tier : {Tier::host, Tier::nvme}) all.push_back({stage, tier, Tier::device});
  }
  for (Tier optimizer : {Tier::device, Tier::host, Tier::nvme}) {
    for (Tier parameters : {Tier::device, Tier::host, Tier::nvme}) {
      if (optimizer != Tier::device || parameters != Tier::device)
        all.push_back({3, optimizer, parameters});
    }
  }
  return all;
}

Setup setup_of(Place place, int world, Index accumulation) {
  Setup setup{.place = place, .world = world};
  setup.options.accumulation = accumulation;
  setup.micro_batches = std::min<Index>(accumulation, 2);
  setup.options.offload.tile_elements = 100;  // several tiles a unit, none of one size
  setup.options.offload.buffer_count = 3;
  return setup;
}

void check(Setup const& setup) {
  CAPTURE(setup.place.stage);
  CAPTURE(static_cast<int>(setup.place.optimizer));
  CAPTURE(static_cast<int>(setup.place.parameters));
  CAPTURE(setup.world);
  CAPTURE(setup.options.accumulation);
  Setup reference = setup;
  reference.place = {setup.place.stage};
  Outcome const expected = train_mixed(reference);
  Outcome const outcome = train_mixed(setup);
  CHECK(difference(outcome, expected) == "");
  CHECK(fault(outcome) == "");
  for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
    bool const sends = setup.world > 1;
    CHECK(outcome.ranks[r].wire_elements == (sends ? expected.ranks[r].wire_elements : 0));
  }
}

}  // namespace

#if !ZERO_TESTS_SANITIZED
TEST_CASE("AdamW in bf16: stage x tiers x world x accumulation, 96 rows") {
  int rows = 0;
  for (Place const& place : places()) {
    for (int world : {1, 2, 3, 4}) {
      for (Index accumulation : {1, 3}) {
        check(setup_of(place, world, accumulation));
        ++rows;
      }
    }
  }
  CHECK(rows == 96);
}
#endif

TEST_CASE("AdamW in bf16: ten rows of the 96, for sanitizers") {
  int number = 0;
  int rows = 0;
  for (Place const& place : places()) {
    for (int world : {1, 2, 3, 4}) {
      for (Index accumulation : {1, 3}) {
        if (number++ % 10 != 3) continue;
        check(setup_of(place, world, accumulation));
        ++rows;
      }
    }
  }
  CHECK(rows == 10);
}

TEST_CASE(
    "moment of reduction, resident units, prefetch and a skipped step: bits are the device's") {
  for (Place const& place : places()) {
    for (int world : {1, 3}) {
      for (zero::Reduction moment : {zero::Reduction::boundary, zero::Reduction::micro_batch}) {
        Setup setup = setup_of(place, world, 3);
        setup.options.reduction = moment;
        setup.options.persistence_threshold = 300;
        setup.options.prefetch = 2;
        setup.options.bucket = 400;
        setup.bad_step = 1;
        check(setup);
        setup.options.prefetch = 0;
        setup.options.release_after_forward = false;
        setup.options.offload.max_in_cpu_elements = 400;
        setup.options.offload.tile_elements = 1 << 20;
        setup.options.offload.buffer_count = 5;
        check(setup);
      }
    }
  }
}

TEST_CASE(
    "any share of the state stays on the device, and no bit changes, and memory moves with it") {
  for (Place const& place : places()) {
    if (place.optimizer == Tier::device || place.stage < 3) continue;
    for (int world : {1, 3}) {
      for (Index accumulation : {1, 3}) {
        Index device = 0;
        Index below = 0;
        for (double ratio : {0.0, 0.3, 0.7, 1.0}) {
          Setup setup = setup_of(place, world, accumulation);
          setup.options.offload.ratio = ratio;
          setup.bad_step = 1;
          CAPTURE(ratio);
          check(setup);
          Numbers const n = train_mixed(setup).ranks[0];
          if (ratio > 0) CHECK(n.device.planned <= device);
          if (ratio > 0) CHECK(n.host.planned + n.nvme.planned >= below);
          device = n.device.planned;
          below = n.host.planned + n.nvme.planned;
        }
      }
    }
  }
}

TEST_CASE("a device that runs work late, and one that guards its memory: the host's bits") {
  for (Place const& place : hostile_places()) {
    for (int world : {1, 3}) {
      for (Index accumulation : {1, 2}) {
        Setup setup = setup_of(place, world, accumulation);
        setup.bad_step = 1;
        Outcome const late = train_late(setup, true);
        CAPTURE(place.stage);
        CAPTURE(static_cast<int>(place.optimizer));
        CHECK(difference(late, train_mixed(setup)) == "");
        CHECK(fault(late) == "");
#if !ZERO_TESTS_SANITIZED
        Outcome const guarded = train_guarded(setup, true);
        CHECK(difference(guarded, late) == "");
        CHECK(fault(guarded) == "");
        Outcome const floats = train_late(setup, false);
        CHECK(difference(floats, train_guarded(setup, false)) == "");
        CHECK(fault(floats) == "");
#endif
      }
    }
  }
}
