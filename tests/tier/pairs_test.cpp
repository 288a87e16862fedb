// SPDX-License-Identifier: Apache-2.0
// Every optimizer and way of storing its numbers in every tier: pairwise, against stage 0 on the
// device.
#include <doctest/doctest.h>
#include <tier/run.hpp>

#include <array>
#include <limits>
#include <set>
#include <utility>

namespace {

using namespace tier_test;

std::vector<Pair> all_pairs() {
  std::vector<Pair> all = pairs_0();
#if !ZERO_TESTS_SANITIZED  // a third of the rows is their tenth
  for (auto const& more : {pairs_1(), pairs_2()}) all.insert(all.end(), more.begin(), more.end());
#endif
  return all;
}

#if !ZERO_TESTS_SANITIZED

using Row = std::array<std::string, 5>;

Row row_of(std::string const& optimizer, std::string const& storage, Place const& p) {
  auto const tier = [](Tier t) { return std::to_string(static_cast<int>(t)); };
  return {optimizer, storage, "stage " + std::to_string(p.stage), "o" + tier(p.optimizer),
          "p" + tier(p.parameters)};
}

void add_pairs(std::set<std::pair<std::string, std::string>>& all, Row const& row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (std::size_t j = i + 1; j < row.size(); ++j) all.emplace(row[i], row[j]);
  }
}

#endif

/// In fp16 with a scale that goes down at an overflow, and up at the second good step since.
void scale(Setup& setup, Pair const& pair) {
  if (pair.storage != "scaled") return;
  setup.options.loss_scale =
      zero::LossScale::dynamic({.initial_power = 6, .window = 1, .hysteresis = 1});
}

}  // namespace

#if !ZERO_TESTS_SANITIZED

TEST_CASE("the table has every two values that may stand together in one of its 37 rows") {
  std::set<std::pair<std::string, std::string>> wanted;
  for (std::string const optimizer : {"AdamW", "Adam", "Lamb", "Lion", "Adagrad", "Sgd"}) {
    for (std::string const storage :
         {"floats", "mixed", "scaled", "split", "short_states", "all_short"}) {
      for (int stage : {1, 2, 3}) {
        for (Tier o : {Tier::device, Tier::host, Tier::nvme}) {
          for (Tier p : {Tier::device, Tier::host, Tier::nvme}) {
            if (o == Tier::device && p == Tier::device) continue;
            if (stage < 3 && p != Tier::device) continue;
            add_pairs(wanted, row_of(optimizer, storage, {stage, o, p}));
          }
        }
      }
    }
  }
  std::set<std::pair<std::string, std::string>> found;
  for (Pair const& pair : all_pairs())
    add_pairs(found, row_of(pair.optimizer, pair.storage, pair.place));
  CHECK(all_pairs().size() == 37);
  CHECK(found == wanted);
}

#endif

TEST_CASE("every row of the table has the bits of stage 0 on the device") {
  for (Pair const& pair : all_pairs()) {
    for (int world : {1, 3}) {
      for (Index accumulation : {1, 2}) {
        Setup setup{.place = pair.place, .world = world, .bad_step = 1};
        setup.options.accumulation = accumulation;
        setup.options.reduction = zero::Reduction::boundary;
        setup.options.persistence_threshold = world == 3 ? 300 : 0;
        setup.options.offload.tile_elements = 100;
        setup.options.offload.buffer_count = 3;
        scale(setup, pair);
        CAPTURE(pair.optimizer);
        CAPTURE(pair.storage);
        CAPTURE(pair.place.stage);
        CAPTURE(static_cast<int>(pair.place.optimizer));
        CAPTURE(static_cast<int>(pair.place.parameters));
        CAPTURE(world);
        CAPTURE(accumulation);
        Outcome const outcome = pair.offloaded(setup);
        CHECK(difference(outcome, pair.reference(setup)) == "");
        CHECK(fault(outcome) == "");
      }
    }
  }
}

TEST_CASE("every optimizer with a part of its state on the device, and a part below it: the bits") {
  for (Pair const& pair : all_pairs()) {
    if (pair.place.optimizer == Tier::device || pair.place.stage < 3) continue;
    for (double ratio : {0.3, 0.7}) {
      Setup setup{.place = pair.place, .world = 2, .bad_step = 1};
      setup.options.offload.ratio = ratio;
      setup.options.offload.tile_elements = 100;
      scale(setup, pair);
      CAPTURE(pair.optimizer);
      CAPTURE(pair.storage);
      CAPTURE(pair.place.stage);
      CAPTURE(static_cast<int>(pair.place.optimizer));
      CAPTURE(ratio);
      Outcome const outcome = pair.offloaded(setup);
      CHECK(difference(outcome, pair.reference(setup)) == "");
      CHECK(fault(outcome) == "");
      for (Numbers const& n : outcome.ranks) CHECK(n.state_bytes > 0);
    }
  }
}

TEST_CASE(
    "L06: infinity or NaN in one element of one rank, in bf16 and in fp16 with a scale, below") {
  int rows = 0;
  for (Pair const& pair : all_pairs()) {
    if (pair.storage != "mixed" && pair.storage != "scaled") continue;
    for (float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Setup setup{.place = pair.place, .world = 4, .steps = 6, .bad_step = 2};
      setup.bad_value = bad;
      setup.bad_rank = 2;
      setup.bad_element = 5;
      setup.options.offload.tile_elements = 64;
      scale(setup, pair);
      CAPTURE(pair.optimizer);
      CAPTURE(pair.storage);
      Outcome const outcome = pair.offloaded(setup);
      // Elements are equal: NaN does not come into them.
      CHECK(outcome.steps[2].weights == outcome.steps[1].weights);
      CHECK(outcome.steps[2].states == outcome.steps[1].states);
      for (int s = 0; s < 6; ++s) {
        for (zero::Decision const& d : outcome.steps[at(s)].decisions) {
          CHECK(d.skip == (s == 2 ? 1 : 0));
          CHECK(d.updates == (s < 2 ? s + 1 : s));
          CHECK(d.skipped == (s < 2 ? 0 : 1));
          CHECK(d.loss_scale == outcome.steps[at(s)].decisions[0].loss_scale);
          // DeepSpeed's: halved by an overflow, doubled by each good step but the first since.
          constexpr float scales[] = {64, 128, 64, 64, 128, 256};
          CHECK(d.loss_scale == (pair.storage == "scaled" ? scales[s] : 1));
        }
      }
      CHECK(difference(outcome, pair.reference(setup)) == "");
      ++rows;
    }
  }
  CHECK(rows == 2 * (ZERO_TESTS_SANITIZED ? 4 : 12));
}
