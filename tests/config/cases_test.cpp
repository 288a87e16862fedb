// SPDX-License-Identifier: Apache-2.0
// Cases that people have hit, of the area "config", and the parts of others that the JSON decides.
#include <config/loading.hpp>
#include <doctest/doctest.h>

namespace {

using namespace config_test;

TEST_CASE(
    "C01: a prefetch size filled by a rule is whole, rounded down, and a fractional number is "
    "refused") {
  // 0.9 h h, rounded down.
  std::pair<Index, Index> const sizes[] = {
      {1024, 943718}, {2048, 3774873}, {3072, 8493465}, {3584, 11560550}, {4096, 15099494}};
  std::string const text =
      with(R"("zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"})");
  for (auto const& [hidden, prefetch] : sizes) {
    CAPTURE(hidden);
    zero::TrainingArguments const arguments{.hidden_size = hidden};
    CHECK(load_text(text, arguments).config->stage3_prefetch_bucket_size == prefetch);
  }
  Outcome const fractional = load_text(
      with(R"("zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 15099494.4})"));
  CHECK(fractional.names("zero_optimization.stage3_prefetch_bucket_size"));
  CHECK(fractional.says("15099494.4"));
}

TEST_CASE("C02: an \"auto\" that nothing fills is refused when the file is read") {
  std::string const text =
      with(R"("zero_optimization": {"stage": 1}, "gradient_clipping": "auto")");
  for (auto const& arguments :
       {std::optional<zero::TrainingArguments>(), std::optional(zero::TrainingArguments{})}) {
    Outcome const outcome = load_text(text, arguments);
    REQUIRE(outcome.problems.size() == 1);
    CHECK(outcome.names("gradient_clipping"));
    CHECK(outcome.says("no value was supplied"));
  }
}

TEST_CASE("C04: three batch sizes and a world that cannot all hold") {
  struct Sizes {
    Index train, micro, accumulation, world;  // 0: not given
    Index right[3];                           // train, micro, accumulation; 0: refused
    char const* says;
  };
  for (Sizes const& s : std::initializer_list<Sizes>{
           {8, 2, 0, 2, {8, 2, 2}, ""},
           {8, 0, 2, 2, {8, 2, 2}, ""},
           {0, 2, 3, 4, {24, 2, 3}, ""},
           {9, 0, 0, 2, {0, 0, 0}, "4 x 1 x 2 = 8"},
           {64, 32, 0, 4, {0, 0, 0}, "gradient_accumulation_steps would be 0"},
           {256, 2, 18, 7, {0, 0, 0}, "2 x 18 x 7 = 252"},
           {16, 1, 1, 1, {0, 0, 0}, "1 x 1 x 1 = 1"},
           {0, 0, 4, 2, {0, 0, 0}, "train_batch_size or train_micro_batch_size_per_gpu"}}) {
    boost::json::object file;
    std::string numbers;
    auto const put = [&](char const* key, Index n) {
      if (n != 0) file[key] = n;
      numbers += std::string(key) + " " + (n != 0 ? std::to_string(n) : "none") + ", ";
    };
    put("train_batch_size", s.train);
    put("train_micro_batch_size_per_gpu", s.micro);
    put("gradient_accumulation_steps", s.accumulation);
    numbers += "world " + std::to_string(s.world);
    CAPTURE(numbers);
    Outcome const outcome = load(file, {}, s.world);
    if (s.right[0] != 0) {
      REQUIRE(outcome.config);
      CHECK(outcome.config->train_batch_size == s.right[0]);
      CHECK(outcome.config->train_micro_batch_size_per_gpu == s.right[1]);
      CHECK(outcome.config->gradient_accumulation_steps == s.right[2]);
    } else {
      REQUIRE(outcome.problems.size() == 1);
      CHECK(outcome.says(numbers));
      CHECK(outcome.says(s.says));
    }
  }
}

TEST_CASE("C05: a known section in the wrong place is told where it belongs") {
  Outcome const outcome = load_case("w19_aio_inside_zero.json");
  REQUIRE(outcome.problems.size() == 1);
  CHECK(outcome.problems[0].path == "zero_optimization.aio");
  CHECK(outcome.says("aio at the top level"));
}

TEST_CASE("C10: keys of fp16 in the section bf16 are refused, all five in one error") {
  Outcome const outcome = load_case("w15_bf16_with_loss_scale_keys.json", {}, 2);
  CHECK(outcome.problems.size() == 5);
  for (char const* key :
       {"loss_scale", "loss_scale_window", "initial_scale_power", "hysteresis", "min_loss_scale"}) {
    CHECK(outcome.names(std::string("bf16.") + key));
    CHECK(outcome.says(std::string(key) + " belongs to section fp16"));
  }
}

TEST_CASE("C16: zero_optimization as true is stage 1, as false stage 0, with a warning") {
  for (bool on : {true, false}) {
    Outcome const outcome =
        load_text(with(std::string(R"("zero_optimization": )") + (on ? "true" : "false")));
    REQUIRE(outcome.config);
    CHECK(outcome.config->stage == (on ? 1 : 0));
    CHECK(outcome.warns("old form"));
  }
  CHECK(load_case("w12_zero_true_no_batch.json", {}, 2).names("train_batch_size"));
}

TEST_CASE("F02: parameter offload below stage 3 is refused, naming stage 3") {
  for (int stage : {0, 1, 2}) {
    Outcome const outcome =
        load_text(with(R"("zero_optimization": {"stage": )" + std::to_string(stage) +
                       R"(, "offload_param": {"device": "cpu"}})"));
    CHECK(outcome.names("zero_optimization.offload_param.device"));
    CHECK(outcome.says("stage 3"));
  }
  CHECK(load_text(with(R"("zero_optimization": {"stage": 2, "offload_param": {"device": "none"}})"))
            .config);
}

TEST_CASE("L03: the dynamic loss scale starts at 65536 at every stage") {
  for (int stage : {0, 1, 2, 3}) {
    Outcome const outcome =
        load_text(with(R"("fp16": {"enabled": true}, "zero_optimization": {"stage": )" +
                       std::to_string(stage) + "}"));
    REQUIRE(outcome.config);
    CHECK(outcome.config->precision == zero::PrecisionChoice::fp16);
    CHECK(outcome.config->loss_scale.static_scale == 0);
    CHECK(outcome.config->loss_scale.initial_power == 16);
  }
}

TEST_CASE("S03: a warm-up of no updates is none, negative and fractional ones are refused") {
  auto const text = [](std::string const& steps) {
    return with(
        R"("optimizer": {"type": "AdamW"}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": )" +
        steps + "}}");
  };
  for (std::string const steps : {"0", "1", "2"})
    CHECK(load_text(text(steps)).config->scheduler->whole("warmup_num_steps") == std::stoi(steps));
  for (std::string const steps : {"-1", "2.5"})
    CHECK(load_text(text(steps)).names("scheduler.params.warmup_num_steps"));
}

}  // namespace
