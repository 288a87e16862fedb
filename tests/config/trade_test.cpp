// SPDX-License-Identifier: Apache-2.0
// The sizes of a configuration really trade memory for communication, and change no bit.
#include <zero/comm/recording.hpp>
#include <zero/comm/single_rank.hpp>
#include <zero/comm/threads.hpp>
#include <zero/launch/threads.hpp>
#include <zero/report/slices.hpp>
#include <zero/report/wire_plan.hpp>
#include <zero/step/trainer.hpp>

#include <cases/given_gradients.hpp>
#include <config/loading.hpp>
#include <doctest/doctest.h>

namespace {

using namespace config_test;
constexpr Index world = 2;

/// Padded elements of the units: multiples of world x 64, so they are their own padding.
std::vector<Index> const sizes{512, 256, 256, 128, 384, 512, 128, 256};

zero::Units units() {
  zero::Units all;
  for (std::size_t u = 0; u < sizes.size(); ++u) {
    std::string const name = "u" + std::to_string(u);
    all.push_back(
        {.name = name,
         .tensors = {
             {.name = name + ".w", .shape = {sizes[u]}, .initial = zero::Initial::normal(1)}}});
  }
  return all;
}

struct Measured {
  Index planned = 0;
  Index peak = 0;
  Index parameters = 0;  ///< planned bytes of what is kept of parameters
  Index groups = 0;      ///< launched in one step
  Index wire = 0;        ///< elements sent in one step
  Index planned_wire = 0;
  std::uint64_t hash = 0;
  std::vector<std::string> warnings{};
};

/// Three steps on two ranks.
Measured run(std::string const& zero_members) {
  Outcome const outcome = load_text(with(R"("optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
    "zero_optimization": {)" + zero_members +
                                         "}"),
                                    {}, world);
  REQUIRE_MESSAGE(outcome.config, outcome.text);
  zero::ResolvedConfig const& config = *outcome.config;
  zero::RunOptions const run_options = zero::run_options(config, units());
  Measured m;
  m.warnings = run_options.warnings;
  using Menu =
      zero::Menu<zero::Sharded<1>, zero::Sharded<2>, zero::Sharded<3>, zero::Fp32, zero::AdamW>;
  zero::dispatch<Menu>(
      config, [&]<class S, class R, class O>(S sharding, R precision, O const& optimizer) {
        m.planned_wire = zero::plan_wire_elements(
            units(), zero::default_schedule(8), world,
            zero::Facts::of<zero::Policies<S, R>>(O::num_states), run_options.options, 1);
        zero::launch<zero::Threads>(static_cast<int>(world), [&](auto communicator) {
          zero::CollectiveLog log;
          zero::Recording recording(communicator, log);
          zero::Trainer trainer(cases::GivenGradients{units()}, recording, optimizer,
                                run_options.options, sharding, precision);
          std::vector<float> batch;
          for (Index n : sizes) {
            for (Index i = 0; i < n; ++i)
              batch.push_back(0.01f * static_cast<float>(i % 17 - 8 + communicator.rank()));
          }
          for (int step = 0; step < 3; ++step) {
            log.clear();
            trainer.step(batch);
            trainer.decision();
          }
          std::uint64_t const hash = zero::parameters_hash(trainer);
          if (communicator.rank() != 0) return;
          m.planned = trainer.plan().total_bytes();
          m.parameters = trainer.plan().parameters.bytes;
          m.peak = communicator.device().ledger().peak_bytes();
          m.groups = log.groups();
          m.wire = log.wire_elements();
          m.hash = hash;
        });
      });
  return m;
}

std::string number(Index n) { return std::to_string(n); }

TEST_CASE("a configuration that was resolved for another world starts no trainer") {
  Outcome const outcome = load_text(with(R"("zero_optimization": {"stage": 1})"), {}, 3);
  REQUIRE_MESSAGE(outcome.config, outcome.text);
  zero::Options const options = zero::run_options(*outcome.config, units()).options;
  zero::Host device;
  CHECK_THROWS_WITH_AS((zero::Trainer{cases::GivenGradients{units()}, zero::SingleRank(device),
                                      zero::AdamW{}, options, zero::Sharded<1>{}}),
                       "Options::world: found 3; expected the communicator's 1 ranks",
                       zero::InvalidArgument);
}

TEST_CASE("overlap_comm: false reduces on the compute stream, null and true beside it") {
  for (auto const& [value, overlaps] :
       {std::pair("false", false), std::pair("true", true), std::pair("null", true)}) {
    Outcome const outcome = load_text(
        with(R"("zero_optimization": {"stage": 2, "overlap_comm": )" + std::string(value) + "}"),
        {}, world);
    REQUIRE_MESSAGE(outcome.config, outcome.text);
    CHECK(zero::run_options(*outcome.config, units()).options.overlap == overlaps);
  }
}

TEST_CASE("a smaller reduce bucket: the plan and the peak fall, launches rise, bits stay") {
  for (int stage : {2, 3}) {
    CAPTURE(stage);
    Measured before;
    for (Index bucket : {5'000'000, 1024, 512}) {
      CAPTURE(bucket);
      Measured const m =
          run(R"("stage": )" + number(stage) + R"(, "reduce_bucket_size": )" + number(bucket) +
              R"(, "stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 512)");
      CHECK(m.planned == m.peak);
      if (before.planned != 0) {
        CHECK(m.planned < before.planned);
        CHECK(m.groups > before.groups);
        CHECK(m.hash == before.hash);
        CHECK(m.wire == before.wire);
      }
      before = m;
    }
  }
}

TEST_CASE("a smaller allgather bucket: launches rise, nothing else") {
  for (int stage : {1, 2}) {
    CAPTURE(stage);
    Measured before;
    for (Index bucket : {5'000'000, 1024, 512}) {
      CAPTURE(bucket);
      Measured const m =
          run(R"("stage": )" + number(stage) + R"(, "allgather_bucket_size": )" + number(bucket));
      CHECK(m.planned == m.peak);
      if (before.planned != 0) {
        CHECK(m.groups > before.groups);
        CHECK(m.planned <= before.planned);  // slices are gathered where they stay
        CHECK(m.hash == before.hash);
        CHECK(m.wire == before.wire);
      }
      before = m;
    }
  }
}

TEST_CASE("below the largest unit a bucket acts as that unit, with a warning") {
  Measured const unit =
      run(R"("stage": 2, "reduce_bucket_size": 512, "allgather_bucket_size": 512)");
  CHECK(unit.warnings.empty());
  Measured const below =
      run(R"("stage": 2, "reduce_bucket_size": 100, "allgather_bucket_size": 0)");
  REQUIRE(below.warnings.size() == 2);
  CHECK(below.warnings[0] ==
        "zero_optimization.reduce_bucket_size: 100 elements are less than the largest unit has, "
        "so it acts as that unit, 512");
  CHECK(below.planned == unit.planned);
  CHECK(below.groups == unit.groups);
  CHECK(below.hash == unit.hash);
}

/// Elements that a rank sends at stage 3: reductions and gathers of what is not resident, and
/// publications and reductions of what is, each times (N - 1) / N.
Index wire_formula(int prefetch, Index threshold) {
  Index slices = 0;
  int const n = static_cast<int>(sizes.size());
  for (int u = 0; u < n; ++u) {
    Index const size = sizes[zero::at(u)];
    slices += size / world;  // reduced once
    bool const resident = size <= threshold;
    // Forward visit u, backward visit 2 n - 1 - u: within the prefetch the unit is kept between
    // them.
    bool const kept = 2 * n - 1 - 2 * u <= std::max(prefetch, 1);
    slices += size / world * (resident ? 1 : kept ? 1 : 2);
  }
  return slices * (world - 1);
}

TEST_CASE("a smaller prefetch: the plan falls, the wire is the formula's, bits stay") {
  Measured before;
  std::pair<Index, int> const prefetches[] = {{5 * 512 + 511, 5}, {3 * 512, 3}, {512, 1}};
  for (auto const& [elements, visits] : prefetches) {
    CAPTURE(elements);
    Measured const m =
        run(R"("stage": 3, "stage3_param_persistence_threshold": 0, "reduce_bucket_size": 512,
      "stage3_prefetch_bucket_size": )" +
            number(elements));
    CHECK(m.wire == wire_formula(visits, 0));
    CHECK(m.planned_wire == m.wire);
    CHECK(m.planned == m.peak);
    if (before.planned != 0) {
      CHECK(m.planned < before.planned);
      CHECK(m.hash == before.hash);
    }
    before = m;
  }
  // What may live at once bounds it: three units are two visits ahead.
  Measured const bounded =
      run(R"("stage": 3, "stage3_param_persistence_threshold": 0, "reduce_bucket_size": 512,
    "stage3_max_live_parameters": 1536)");
  CHECK(bounded.wire == wire_formula(2, 0));
  CHECK(bounded.hash == before.hash);
}

TEST_CASE(
    "a smaller persistence threshold: fewer units stay, the plan falls, the wire is the "
    "formula's") {
  Measured before;
  for (Index threshold : {384, 256, 127}) {
    CAPTURE(threshold);
    Measured const m =
        run(R"("stage": 3, "stage3_prefetch_bucket_size": 512, "reduce_bucket_size": 512,
      "stage3_param_persistence_threshold": )" +
            number(threshold));
    CHECK(m.wire == wire_formula(1, threshold));
    CHECK(m.planned_wire == m.wire);
    CHECK(m.planned == m.peak);
    Index kept = 0;  // resident units whole, of the others a slice
    for (Index n : sizes) kept += n <= threshold ? n : n / world;
    CHECK(m.parameters == kept * Index{sizeof(float)});
    if (before.planned != 0) {
      CHECK(m.parameters < before.parameters);
      CHECK(m.wire > before.wire);
      CHECK(m.hash == before.hash);
    }
    before = m;
  }
  // 128 + 128 + 256 fit into 520 elements, a third unit of 256 does not: those of 256 all go.
  Measured const capped =
      run(R"("stage": 3, "stage3_prefetch_bucket_size": 512, "reduce_bucket_size": 512,
    "stage3_param_persistence_threshold": 384, "stage3_model_persistence_threshold": 520)");
  CHECK(capped.wire == wire_formula(1, 128));
  CHECK(capped.hash == before.hash);
}

}  // namespace
