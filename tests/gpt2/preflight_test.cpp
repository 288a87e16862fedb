// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <gpt2/model.hpp>
#include <gpt2/offloaded.hpp>
#include <gpt2/outcome.hpp>
#include <gpt2/preflight.hpp>

#include <limits>
#include <string>
#include <vector>

namespace {

using gpt2::at;
using gpt2::Index;

TEST_CASE("the default GPT's plan falls strictly from stage 0 to 3 in every world") {
  for (int ranks : {2, 3, 4, 8}) {
    for (Index accumulation : {1, 3}) {
      for (auto precision : {gpt2::Precision::fp32, gpt2::Precision::bf16}) {
        gpt2::Settings settings;
        settings.ranks = ranks;
        settings.accumulation = accumulation;
        settings.precision = precision;
        auto const plans = gpt2::memory_plans(settings);
        INFO("ranks " << ranks << ", accumulation " << accumulation << ", fp32 "
                      << (precision == gpt2::Precision::fp32));
        for (std::size_t stage = 0; stage < 3; ++stage) {
          CHECK(plans[stage].total_bytes() > plans[stage + 1].total_bytes());
        }
      }
    }
  }
}

TEST_CASE("what a device's kernels need is in the plan of every stage, to the next 256 bytes") {
  gpt2::Settings const settings;
  auto const without = gpt2::memory_plans(settings);
  auto const with = gpt2::memory_plans(settings, 1000);
  for (std::size_t stage = 0; stage < 4; ++stage)
    CHECK(with[stage].total_bytes() == without[stage].total_bytes() + 1024);
}

TEST_CASE("a step's planned wire is the formula of each stage") {
  gpt2::Settings settings;
  Index trainable = 0;
  Index gathered = 0;  // stage 3: each unit twice, the embedding once more, as the head
  for (auto const& unit : gpt2::units_of(settings.size)) {
    Index padded = 0;
    for (auto const& tensor : unit.tensors) padded += zero::round_up(tensor.elements(), 64);
    padded = zero::round_up(padded, 64 * settings.ranks);
    trainable += padded;
    gathered += padded * (unit.name == "embedding" ? 3 : 2);
  }
  auto const wire = [&](int stage) {
    settings.stage = stage;
    return gpt2::planned_wire_elements(settings);
  };
  CHECK(wire(0) == 2 * trainable / 4 * 3);
  CHECK(wire(1) == wire(0));
  CHECK(wire(2) == wire(0));
  CHECK(wire(3) > wire(0));
  CHECK(wire(3) <= (trainable + gathered) / 4 * 3);
  settings.ranks = 1;
  CHECK(wire(3) == 0);
}

TEST_CASE("the memory table has a row a kind and marks the stage that runs") {
  gpt2::Settings const settings;
  auto const plans = gpt2::memory_plans(settings);
  auto const table = gpt2::memory_table(plans, 2);
  CHECK(table.columns == std::vector<std::string>{"stage 0", "stage 1", "> stage 2", "stage 3"});
  CHECK(table.totals() == std::vector<Index>{plans[0].total_bytes(), plans[1].total_bytes(),
                                             plans[2].total_bytes(), plans[3].total_bytes()});
}

TEST_CASE("the memory table's rows are the kinds of buffers, in bytes counted by hand") {
  gpt2::Settings settings;
  auto const rows = [&] { return gpt2::memory_table(gpt2::memory_plans(settings), 3).rows; };
  // A block has two norms of 2 x 128, matrices of 128 x 384, 128 x 128 and twice 128 x 512, and
  // their biases: 198,272 elements; four ranks share them in slices of a multiple of 64: 198,400.
  // The embedding has (256 + 128) x 128, the last norm 2 x 128.
  Index const all = 6 * 198'400 + 49'152 + 256;
  Index const slices = all / 4;
  std::vector<std::string> kinds;
  for (auto const& [kind, bytes] : rows()) kinds.push_back(kind);
  CHECK(kinds == std::vector<std::string>{"parameters", "gradients", "accumulators",
                                          "optimizer state", "gather slots", "gradient slots",
                                          "tables"});
  CHECK(rows()[0].second[0] == 2 * all);  // of 16 bits
  CHECK(rows()[0].second[2] == 2 * all);
  CHECK(rows()[1].second[1] == 2 * all);
  // Each slice begins at a multiple of 256 bytes: a block's 99,200 take 99,328, the norm's 128 all.
  CHECK(rows()[0].second[3] == 6 * 99'328 + 2 * 12'288 + 256);
  CHECK(rows()[2].second == std::vector<Index>{0, 0, 0, 0});
  // Master weights and two states, in float.
  CHECK(rows()[3].second == std::vector<Index>{12 * all, 12 * slices, 12 * slices, 12 * slices});
  // Two blocks in turn, one in use and one ahead; at the turn the last norm beside head and block.
  CHECK(rows()[4].second == std::vector<Index>{0, 0, 0, 2 * (2 * 198'400 + 256)});
  settings.accumulation = 3;  // summed in float, where they are reduced to slices at stages 2 and 3
  CHECK(rows()[2].second == std::vector<Index>{4 * all, 4 * all, 4 * slices, 4 * slices});
}

TEST_CASE("the rough estimate of a run's memory is within a third of plan and activations") {
  for (int stage = 0; stage < 4; ++stage) {
    for (Index width : {128, 512}) {
      gpt2::Settings settings;
      settings.stage = stage;
      settings.size.width = width;
      double const activations = static_cast<double>(
          gpt2::Activations<float>::bytes(settings.size, settings.batch, 128, true));
      double const plan =
          static_cast<double>(gpt2::memory_plans(settings)[at(stage)].total_bytes());
      double const exact = settings.ranks * (plan + activations);
      CHECK(gpt2::needed_bytes(settings) > exact * 2 / 3);
      CHECK(gpt2::needed_bytes(settings) < exact * 4 / 3);
    }
  }
}

TEST_CASE("a run that no machine holds is refused before anything is counted in whole numbers") {
  gpt2::Settings settings;
  settings.ranks = 1024;
  settings.size = {
      .vocabulary = 256, .context = 32767, .width = 65536, .heads = 65536, .layers = 1000};
  settings.batch = 65536;
  CHECK_THROWS_AS(gpt2::check_memory(settings), gpt2::WrongFlag);
  CHECK_NOTHROW(gpt2::check_memory({}));
}

TEST_CASE("activations are carved from as many bytes as are told before") {
  gpt2::Configuration const size{
      .vocabulary = 7, .context = 6, .width = 8, .heads = 2, .layers = 2};
  gpt2::Activations<float> a;
  a.prepare(size, 3, 5, true);
  std::byte const* const begin = reinterpret_cast<std::byte const*>(a.blocks[0].input.data());
  auto const& last = a.gradients.attention_scratch;
  std::byte const* const end = reinterpret_cast<std::byte const*>(last.data() + last.size());
  Index const bytes = gpt2::Activations<float>::bytes(size, 3, 5, true);
  CHECK(end - begin <= bytes);
  CHECK(end - begin > bytes - 64);
}

TEST_CASE(
    "tiers that settings name are the ones that train and both on the device are none of these") {
  using zero::Tier;
  gpt2::Settings settings;
  settings.parameter_tier = Tier::device;
  Tier optimizer{};
  Tier parameters{};
  auto const run = [&]<class Sharding>() {
    optimizer = Sharding::optimizer_tier;
    parameters = Sharding::parameter_tier;
    return gpt2::Outcome{};
  };
  CHECK_THROWS_AS((gpt2::with_tiers<3, Tier::device>(settings, run)), zero::InvalidArgument);
  gpt2::with_tiers<2, Tier::nvme>(settings, run);
  CHECK(optimizer == Tier::nvme);
  CHECK(parameters == Tier::device);
  for (Tier tier : {Tier::host, Tier::nvme}) {
    settings.parameter_tier = tier;
    gpt2::with_tiers<3, Tier::device>(settings, run);
    CHECK(optimizer == Tier::device);
    CHECK(parameters == tier);
    gpt2::with_tiers<3, Tier::host>(settings, run);
    CHECK(optimizer == Tier::host);
    CHECK(parameters == tier);
  }
}

TEST_CASE("--json is one line with exactly these keys, in this order") {
  gpt2::Outcome const outcome{.steps = 7,
                              .first_loss = 5.5,
                              .last_loss = 2.25,
                              .validation_loss = std::numeric_limits<double>::quiet_NaN(),
                              .tokens_per_s = 1000,
                              .planned_bytes = 10,
                              .measured_bytes = 11,
                              .host_bytes = 13,
                              .locked_bytes = 0,
                              .nvme_bytes = 14,
                              .wire_elements_per_step = 12,
                              .skipped_steps = 1,
                              .parameters_hash = 0xfedcba9876543210u,
                              .sample = {},
                              .memory = {}};
  gpt2::Settings settings;
  settings.stage = 1;
  settings.ranks = 2;
  CHECK(
      gpt2::json_text(outcome, settings) ==
      R"({"stage":1,"world":2,"steps":7,"first_loss":5.5,"last_loss":2.25,"validation_loss":"NaN",)"
      R"("tokens_per_s":1000.0,"planned_bytes":10,"measured_bytes":11,"host_bytes":13,)"
      R"("nvme_bytes":14,"wire_elements_per_step":12,)"
      R"("skipped_steps":1,"parameters_hash":"0xfedcba9876543210"})");
}

}  // namespace
