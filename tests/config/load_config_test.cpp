// SPDX-License-Identifier: Apache-2.0
// A file, a text and an object are one configuration, and its problems and those of the arguments
// are one error.
#include <config/loading.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

namespace {

using namespace config_test;
namespace fs = std::filesystem;

std::string read(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void check_alike(Outcome const& one, Outcome const& other) {
  CHECK(one.problems == other.problems);
  REQUIRE(one.config.has_value() == other.config.has_value());
  if (!one.config) return;
  CHECK(one.config->json == other.config->json);
  CHECK(one.config->origins == other.config->origins);
  CHECK(one.config->warnings == other.config->warnings);
}

TEST_CASE("every case says the same as a file, as a text and as an object") {
  int compared = 0;
  for (auto const& entry : fs::recursive_directory_iterator(cases_folder())) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().string());
    std::string const text = read(entry.path());
    for (auto const& arguments :
         {std::optional<zero::TrainingArguments>(), std::optional(table_arguments())}) {
      for (Index world : {1, 2, 3}) {
        Outcome const by_file = load(zero::ConfigFile{entry.path()}, arguments, world);
        Outcome const by_text = load(zero::ConfigText{text}, arguments, world);
        check_alike(by_file, by_text);
        // An object cannot hold what only a text gets wrong.
        boost::json::error_code code;
        boost::json::value const value = boost::json::parse(text, code);
        bool const twice = by_text.says("this key twice");
        if (code || twice) continue;
        check_alike(by_text, load(value.as_object(), arguments, world));
        ++compared;
      }
    }
  }
  CHECK(compared > 200);
}

TEST_CASE("an object is held to the depth of a text, and to finite numbers") {
  auto const nested = [](std::size_t depth) {
    boost::json::value inner = boost::json::object();
    for (std::size_t i = 2; i < depth; ++i) {
      boost::json::array outer;
      outer.push_back(std::move(inner));
      inner = std::move(outer);
    }
    return boost::json::object{
        {"train_micro_batch_size_per_gpu", 1},
        {"elasticity", boost::json::object{{"enabled", false}, {"x", inner}}}};
  };
  // Off, its inside is not judged; the objects of the file and of the section are two levels.
  CHECK(load(nested(zero::max_config_depth - 1)).config);
  CHECK(load_text(boost::json::serialize(nested(zero::max_config_depth - 1))).config);
  CHECK(load(nested(zero::max_config_depth)).says("at most 32 objects and lists"));
  CHECK(
      load_text(boost::json::serialize(nested(zero::max_config_depth))).says("at most 32 objects"));
  CHECK(load(nested(1000)).says("at most 32 objects and lists"));
  CHECK(load(boost::json::object{{"train_micro_batch_size_per_gpu", 1},
                                 {"gradient_clipping", std::nan("")}})
            .names("gradient_clipping"));
}

TEST_CASE("the problems of arguments that are read come with those of the configuration") {
  std::string const file = with(R"("optimizer": {"type": "AdamW", "params": {"lr": "auto",
    "weight_decay": "auto", "eps": "auto"}}, "zero_optimization": {"stage": 9})");
  auto const load_both = [&](std::string const& arguments) {
    Outcome outcome;
    try {
      outcome.config = zero::load_config(zero::ConfigText{file},
                                         zero::judge_arguments(zero::ConfigText{arguments}));
    } catch (zero::ConfigError const& e) {
      outcome.problems = e.problems;
      outcome.text = e.what();
    }
    return outcome;
  };
  // An argument that is wrong is not missed besides.
  Outcome const wrong =
      load_both(R"({"learning_rate": "5e-5", "weight_decay": -1, "adam_epsilon": 1e-8})");
  CHECK(wrong.problems.size() == 3);
  for (char const* path :
       {"arguments.learning_rate", "arguments.weight_decay", "zero_optimization.stage"})
    CHECK(wrong.names(path));
  // Arguments that cannot be read say so with a path of their own; the keys are judged without
  // them.
  Outcome const broken = load_both(R"({"learning_rate": True})");
  CHECK(broken.problems.size() == 2);
  CHECK(broken.names("arguments, line 1, column 19"));
  CHECK(broken.names("zero_optimization.stage"));
  CHECK(load_both(R"({"bf16": true, "bf16": true})").names("arguments.bf16"));
  CHECK(load_both("[]").names("arguments"));
  CHECK(load_both(R"({"learning_rate": 1, "weight_decay": 0})").names("optimizer.params.eps"));
}

TEST_CASE("arguments that contradict each other are refused") {
  zero::TrainingArguments const both{.fp16 = true, .bf16 = true};
  for (std::string const section :
       {"", R"("fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"})",
        R"("bf16": {"enabled": true})"}) {
    Outcome const outcome = load_text(with(section), both);
    CHECK(outcome.problems.size() == 1);
    CHECK(outcome.names("arguments.fp16"));
  }
  CHECK(load_text(with(""),
                  zero::TrainingArguments{
                      .learning_rate = 1, .num_train_epochs = 1e30, .num_train_samples = 1000})
            .says("num_train_epochs and num_train_samples"));
}

TEST_CASE("the file of arguments that transformers itself writes is read") {
  // Names and defaults of TrainingArguments.to_dict() that carry no number of a training.
  zero::JudgedArguments const judged = zero::judge_arguments(zero::ConfigText{R"({
    "output_dir": "out", "do_train": false, "eval_strategy": "no", "per_device_train_batch_size": 8,
    "per_gpu_train_batch_size": null, "learning_rate": 5e-05, "num_train_epochs": 3.0,
    "max_steps": 10, "lr_scheduler_type": "linear", "lr_scheduler_kwargs": {}, "warmup_ratio": 0.0,
    "warmup_steps": 0, "fp16_opt_level": "O1", "half_precision_backend": "auto", "debug": [],
    "ignore_data_skip": false, "fsdp": [], "fsdp_min_num_params": 0,
    "fsdp_config": {"min_num_params": 0, "xla": false}, "tp_size": 0, "adafactor": false,
    "accelerator_config": {"split_batches": false, "even_batches": true}, "deepspeed": null,
    "label_smoothing_factor": 0.0, "optim": "adamw_torch", "optim_args": null, "seed": 42,
    "use_liger_kernel": false, "eval_use_gather_object": false, "mp_parameters": "",
    "torch_compile": false, "torch_compile_backend": null, "ray_scope": "last", "_n_gpu": 1})"});
  CHECK_MESSAGE(judged.findings.problems().empty(),
                (judged.findings.problems().empty() ? "" : judged.findings.problems()[0].text()));
  REQUIRE(judged.arguments);
  CHECK(judged.arguments->per_device_train_batch_size == 8);
  CHECK(judged.findings.warnings().size() == 1);
  for (char const* text : {R"({"fsdp": "full_shard"})", R"({"adafactor": true})",
                           R"({"accelerator_config": {"split_batches": true}})"})
    CHECK(zero::judge_arguments(zero::ConfigText{text}).findings.problems().size() == 1);
}

TEST_CASE("the path in the arguments may be spelled otherwise than the one that is read") {
  fs::path const path = fs::temp_directory_path() / "zero_config_spelled.json";
  std::ofstream(path) << with("");
  auto const warns = [&](std::string const& named) {
    return load(zero::ConfigFile{path}, zero::TrainingArguments{.deepspeed = named})
        .warns("is not what is read");
  };
  CHECK(!warns(path.string()));
  CHECK(!warns((fs::temp_directory_path() / "." / "zero_config_spelled.json").string()));
  CHECK(warns("other.json"));
  fs::remove(path);
}

}  // namespace
