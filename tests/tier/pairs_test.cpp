// SPDX-License-Identifier: Apache-2.0
// Every optimizer and way of storing its numbers in every tier: pairwise, against stage 0 on the
// device.
#include <doctest/doctest.h>
#include <tier/run.hpp>

#include <array>
#include <set>
#include <utility>

namespace {

using namespace tier_test;

std::vector<Pair> all_pairs() {
  std::vector<Pair> all = pairs_0();
  for (auto const& more : {pairs_1(), pairs_2()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

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

}  // namespace

TEST_CASE("the table has every two values that may stand together in one of its 31 rows") {
  std::set<std::pair<std::string, std::string>> wanted;
  for (std::string const optimizer : {"AdamW", "Adam", "Lamb", "Lion", "Adagrad", "Sgd"}) {
    for (std::string const storage : {"floats", "mixed", "split", "short_states", "all_short"}) {
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
  CHECK(all_pairs().size() == 31);
  CHECK(found == wanted);
}

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
