// SPDX-License-Identifier: Apache-2.0
// The table of configurations, row by row: what a strict reader concludes from each file and world.
#include <config/loading.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

namespace {

using namespace config_test;

struct Row {
  std::string file, world, verdict, stage, optimizer, parameters, precision, micro, accumulation,
      train, problems;
};

std::vector<Row> table() {
  std::ifstream in(cases_folder() / "expected.tsv");
  std::vector<Row> rows;
  std::string line;
  std::getline(in, line);  // names of the columns
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    Row r;
    for (std::string* field : {&r.file, &r.world, &r.verdict, &r.stage, &r.optimizer, &r.parameters,
                               &r.precision, &r.micro, &r.accumulation, &r.train, &r.problems})
      std::getline(fields, *field, '\t');
    rows.push_back(r);
  }
  return rows;
}

void check_resolved(Row const& row, Outcome const& outcome) {
  REQUIRE_MESSAGE(outcome.config, outcome.text);
  zero::ResolvedConfig const& c = *outcome.config;
  CHECK(c.stage == std::stoi(row.stage));
  CHECK(zero::tier_name(c.offload_optimizer.tier) == row.optimizer);
  CHECK(zero::tier_name(c.offload_param.tier) == row.parameters);
  CHECK(zero::precision_name(c.precision) == row.precision);
  CHECK(std::to_string(c.train_micro_batch_size_per_gpu) == row.micro);
  CHECK(std::to_string(c.gradient_accumulation_steps) == row.accumulation);
  CHECK(std::to_string(c.train_batch_size) == row.train);
}

TEST_CASE("every row of the table of configurations") {
  std::vector<Row> const rows = table();
  REQUIRE(rows.size() == 54);  // none is lost
  for (Row const& row : rows) {
    CAPTURE(row.file);
    CAPTURE(row.world);
    Index const world = std::stoi(row.world);
    Outcome const alone = load_case(row.file, {}, world);
    if (row.verdict == "auto") {
      CHECK(!alone.config);  // without the caller's values
      CHECK(alone.says("no value was supplied"));
      check_resolved(row, load_case(row.file, table_arguments(), world));
    } else if (row.verdict == "valid") {
      check_resolved(row, alone);
    } else {
      CHECK(!alone.config);
      std::istringstream paths(row.problems);
      std::string path;
      std::size_t named = 0;
      while (paths >> path) {
        if (path == "+") continue;
        ++named;
        if (path == "line") {
          CHECK(alone.names(row.problems));
          break;
        }
        CHECK_MESSAGE(alone.names(path), path);
      }
      // And nothing besides, but what waits for the caller's values.
      auto const waits = std::ranges::count_if(alone.problems, [](zero::Problem const& p) {
        return p.found.find("no value was supplied") != std::string::npos;
      });
      CHECK_MESSAGE(alone.problems.size() == named + static_cast<std::size_t>(waits), alone.text);
    }
  }
}

TEST_CASE("what the table says besides") {
  auto const arguments = table_arguments();
  CHECK(load_case("s02_seed_stage1.json", arguments, 4).config->gradient_clipping == 1);
  auto const s03 = *load_case("s03_seed_stage2.json", arguments, 4).config;
  CHECK(s03.reduce_bucket_size == 200'000'000);
  CHECK(s03.allgather_bucket_size == 200'000'000);
  auto const s04 = *load_case("s04_seed_stage3_offload.json", arguments, 2).config;
  CHECK(s04.reduce_bucket_size == 1'048'576);
  CHECK(s04.stage3_prefetch_bucket_size == 943'718);
  CHECK(s04.stage3_param_persistence_threshold == 10'240);
  CHECK(s04.gather_16bit_weights_on_model_save);
  CHECK(load_case("s01_seed_quick_auto.json", arguments, 2).config->optimizer->number("lr") ==
        5e-5);
  CHECK(load_case("s08_seed_gather16.json", {}, 2).config->gather_16bit_weights_on_model_save);

  auto const s11 = *load_case("s11_seed_optimizer_scheduler.json", arguments, 2).config;
  CHECK(s11.optimizer->type == "AdamW");
  CHECK(s11.optimizer->params.at("betas") == boost::json::value{0.9, 0.999});
  CHECK(s11.optimizer->number("eps") == 1e-8);
  CHECK(s11.optimizer->number("weight_decay") == 0.01);
  CHECK(s11.scheduler->type == "WarmupDecayLR");
  CHECK(s11.scheduler->whole("total_num_steps") == 1000);
  CHECK(s11.scheduler->whole("warmup_num_steps") == 100);
  CHECK(s11.scheduler->number("warmup_max_lr") == 5e-5);
  CHECK(s11.scheduler->number("warmup_min_lr") == 0);
  CHECK(s11.scheduler->text("warmup_type") == "log");

  CHECK(!load_case("s12_seed_force_cpu_opt_false.json", {}, 2).config->force_ds_cpu_optimizer);
  CHECK(load_case("w07_deprecated_cpu_offload.json", {}, 2).says("WarmupDecayLR"));
  Outcome const w09 = load_case("w09_deprecated_fp16_gather_name.json", {}, 2);
  CHECK(w09.warns("stage3_gather_fp16_weights_on_model_save: deprecated"));
  CHECK(w09.warns("stage3_prefetch_bucket_size: no effect at stage 2"));
  CHECK(load_case("w13_zero_false.json", {}, 2).warns("old form"));
  CHECK(load_case("w14_offload_param_at_stage2.json", {}, 4).says("stage 3"));
  Outcome const w21 = load_case("w21_top_level_typo_step_per_print.json", {}, 2);
  CHECK(w21.says("nearest is steps_per_print"));
  CHECK(w21.says("nearest is gradient_clipping"));
  for (Index world : {2, 8}) {
    Outcome const w23 = load_case("w23_batch_8_2_1.json", {}, world);
    CHECK(
        w23.says("train_batch_size 8, train_micro_batch_size_per_gpu 2, "
                 "gradient_accumulation_steps 1, world " +
                 std::to_string(world)));
  }
  CHECK(load_case("w39_train_batch_400.json", {}, 3).says("133 x 1 x 3 = 399"));
  CHECK(load_case("w48_max_grad_norm_in_optimizer.json", {}, 2).says("gradient_clipping"));
  CHECK(load_case("w50_stage_4.json", {}, 2).says("from 0 to 3"));
  CHECK(load_case("w61_micro_only_minimal.json", {}, 2).config->gradient_clipping == 1);
  CHECK(load_case("w62_train_and_micro_small_scale_power.json", {}, 2)
            .config->loss_scale.initial_power == 12);
  CHECK(load_case("w63_unknown_scheduler.json", {}, 2)
            .says("LRRangeTest, OneCycle, WarmupLR, WarmupDecayLR, WarmupCosineLR"));
}

}  // namespace
