// SPDX-License-Identifier: Apache-2.0
// Ranks that do not do the same, and models that fail, end in an error on every rank, within the
// timeout, that says who is where.

#include <support/agreement.hpp>

#include <set>
#include <string>

namespace zero_test {
namespace {

using namespace std::chrono_literals;

bool holds(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// Runs to an error on all ranks, and gives one rank's text after checks that hold for all.
std::vector<std::string> errors_of(Config config) {
  config.may_fail = true;
  config.timeout = 700ms;
  Result const result = run(config);
  double const seconds = ZERO_TESTS_SANITIZED ? 60 : 10;
  CHECK_MESSAGE(result.error_seconds < seconds, describe(config));
  for (int rank = 0; rank < config.world; ++rank) {
    CHECK_MESSAGE(!result.errors[zero::at(rank)].empty(),
                  describe(config) << ": rank " << rank << " knows nothing of it");
  }
  return result.errors;
}

/// Every rank is told the same: who is where, on both sides. Of the ranks that wait for rank 1 any
/// may be the one that tells.
void names_both(Config const& config, std::string const& unit) {
  std::vector<std::string> const errors = errors_of(config);
  std::set<std::string> const texts(errors.begin(), errors.end());
  CHECK_MESSAGE(texts.size() == 1, describe(config) << ": ranks were told different things");
  for (std::string const& text : errors) {
    INFO(describe(config) << ": " << text);
    CHECK(holds(text, "unit '" + unit + "'"));
    bool differ = false;
    bool missing = holds(text, "rank 1 waits in ");
    for (int rank : {0, 2, 3}) {
      std::string const other = "rank " + std::to_string(rank);
      differ = differ || holds(text, "different collectives: " + other + " is in ");
      missing = missing || (holds(text, other + " waits in ") && holds(text, "rank 1 ("));
    }
    CHECK(holds(text, "rank 1"));
    CHECK((differ || missing));
  }
}

Config small(int stage, int world) {
  Config config;
  config.model = ragged_sizes();
  config.stage = stage;
  config.world = world;
  return config;
}

/// Rank 1 does something else in one pass.
Director rank_1_at_step(ModelSpec const& model, int step, auto change) {
  return [script = in_order(model), step, change](Batch const& b, bool trains) {
    Script changed = script;
    if (b.rank == 1 && b.step == step && trains) change(changed);
    return changed;
  };
}

TEST_CASE("a forward visit outside the schedule by some ranks only is an error at stage 3") {
  for (int world : {2, 3, 4}) {
    for (int step : {0, 1, 2}) {
      Config config = small(3, world);
      for (int prefetch : {0, 3}) {
        config.options.prefetch = prefetch;
        config.direct = rank_1_at_step(config.model, step, [](Script& s) { s.extra = {1}; });
        names_both(config, "b");
      }
    }
  }
}

TEST_CASE("a forward visit outside the schedule by some ranks only is an error below stage 3") {
  for (int stage : {0, 1, 2}) {
    for (int step : {0, 2}) {
      Config config = small(stage, 2);
      config.direct = rank_1_at_step(config.model, step, [](Script& s) { s.extra = {1}; });
      for (std::string const& text : errors_of(config))
        CHECK_MESSAGE(holds(text, "rank 1 "), describe(config) << ": " << text);
    }
  }
}

TEST_CASE("a late gradient by some ranks only is an error at every stage") {
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {2, 4}) {
      for (int step : {0, 2}) {
        for (int accumulation : {1, 3}) {
          Config config = small(stage, world);
          config.options.accumulation = accumulation;
          config.options.reduction = zero::Reduction::micro_batch;
          config.direct = rank_1_at_step(config.model, step, [](Script& s) { s.again = {2}; });
          names_both(config, "c");
        }
      }
    }
  }
}

TEST_CASE("different visits outside the schedule are an error that names both units") {
  Config config = small(3, 2);
  config.direct = [script = in_order(config.model)](Batch const& b, bool) {
    Script changed = script;
    changed.extra = {b.rank == 0 ? 3 : 0};
    return changed;
  };
  names_both(config, "a");
  names_both(config, "d");
  for (int stage : {0, 1, 2, 3}) {
    config.stage = stage;
    config.direct = [script = in_order(config.model)](Batch const& b, bool) {
      Script changed = script;
      changed.again = {b.rank == 0 ? 3 : 0};
      return changed;
    };
    names_both(config, "a");
    names_both(config, "d");
  }
}

TEST_CASE("leases held longer by some ranks only are an error where streams wait for each other") {
  for (OnDevice device : {OnDevice::host, OnDevice::late}) {
    for (int stage : {0, 1, 2, 3}) {
      Config config = small(stage, 2);
      Result const plain = reference_of(config);
      config.device = device;
      config.options.prefetch = 0;
      config.direct = rank_1_at_step(config.model, 1, [](Script& s) { s.held = 2; });
      // A host stream runs a reduction where it is enqueued: rank 1 then waits in a gather that
      // comes before it. On streams of their own each channel keeps its order, and nothing is lost.
      if (stage == 3 && device == OnDevice::host) {
        for (std::string const& text : errors_of(config)) {
          CHECK(holds(text, "rank 1"));
          CHECK(holds(text, " waits in "));
        }
      } else {
        check_against(plain, config);
      }
    }
  }
}

TEST_CASE("divergence is found on a device that runs work late") {
  for (int stage : {0, 1, 2, 3}) {
    Config config = small(stage, 2);
    config.device = OnDevice::late;
    config.direct = rank_1_at_step(config.model, 1, [](Script& s) { s.again = {2}; });
    for (std::string const& text : errors_of(config)) CHECK(holds(text, "unit '"));
  }
}

TEST_CASE("a model that throws on one rank ends the step on all, with its text") {
  for (OnDevice device : {OnDevice::host, OnDevice::late}) {
    for (int stage : {0, 1, 2, 3}) {
      for (int world : {1, 2, 4}) {
        for (int step : {0, 2}) {
          Config config = small(stage, world);
          config.device = device;
          int const culprit = world - 1;
          config.direct = [script = in_order(config.model), culprit, step](Batch const& b, bool) {
            Script changed = script;
            if (b.rank == culprit && b.step == step) changed.throws_at = 2;
            return changed;
          };
          std::vector<std::string> const errors = errors_of(config);
          for (int rank = 0; rank < world; ++rank) {
            CHECK_MESSAGE(holds(errors[zero::at(rank)], "the model fails at layer 2"),
                          describe(config) << ": " << errors[zero::at(rank)]);
            if (rank == culprit) continue;
            CHECK_MESSAGE(holds(errors[zero::at(rank)], "rank " + std::to_string(culprit)),
                          describe(config) << ": " << errors[zero::at(rank)]);
          }
        }
      }
    }
  }
}

TEST_CASE("a model that throws with many leases open ends the step on all") {
  for (int stage : {0, 1, 2, 3}) {
    Config config = small(stage, 2);
    Director const throws = rank_1_at_step(config.model, 0, [](Script& s) { s.throws_at = 1; });
    config.direct = [throws](Batch const& batch, bool trains) {
      Script s = throws(batch, trains);
      s.held = 100;  // on every rank: held by some only, leases delay what the others reduce
      return s;
    };
    for (std::string const& text : errors_of(config))
      CHECK_MESSAGE(holds(text, "the model fails at layer 1"), describe(config) << ": " << text);
  }
}

}  // namespace
}  // namespace zero_test
