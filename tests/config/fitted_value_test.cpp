// SPDX-License-Identifier: Apache-2.0
// Any value under any key: what does not fit its row is refused by name, and what is taken is what
// the run computes with.
#include <config/loading.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace {

using namespace config_test;
using zero::Key;
using zero::KeyStatus;
using zero::KeyType;

/// A file with one key; sections that a type opens have one.
boost::json::object file_with(Key const& k, boost::json::value value) {
  boost::json::object file{{"train_micro_batch_size_per_gpu", 1}};
  std::string_view const type = k.of.substr(0, k.of.find(' '));
  if (k.path.starts_with("optimizer."))
    put_at(file, "optimizer.type", boost::json::string(type.empty() ? "AdamW" : type));
  if (k.path.starts_with("scheduler."))
    put_at(file, "scheduler.type", boost::json::string(type.empty() ? "WarmupLR" : type));
  put_at(file, k.path, std::move(value));
  return file;
}
/// Keys of a file whose value is judged by their row alone.
bool is_leaf(Key const& k) {
  bool const switched = k.parent() == "flops_profiler" || k.parent() == "comms_logger";
  bool const of_arguments = k.what.find("only from") != std::string_view::npos;
  return k.type != KeyType::section && k.type != KeyType::anything && k.translated.empty() &&
         k.name() != "type" && !switched && !of_arguments;
}

/// Whether a value is of the JSON type that a row asks for.
bool is_of_type(boost::json::value const& v, KeyType type) {
  bool const is_number = v.is_int64() || v.is_uint64() || v.is_double();
  switch (type) {
    case KeyType::boolean:
      return v.is_bool();
    case KeyType::whole:
      return is_number && (!v.is_double() || v.get_double() == std::floor(v.get_double()));
    case KeyType::number:
      return is_number;
    case KeyType::text:
    case KeyType::choice:
      return v.is_string();
    case KeyType::pair:
    case KeyType::list:
      return v.is_array();
    default:
      return v.is_object();
  }
}

TEST_CASE("a value of another type is refused under every key, by its name alone") {
  boost::json::value const values[] = {true,
                                       7,
                                       -3,
                                       1.5,
                                       std::numeric_limits<double>::quiet_NaN(),
                                       std::numeric_limits<double>::infinity(),
                                       std::numeric_limits<std::uint64_t>::max(),
                                       "",
                                       "7",
                                       "true",
                                       boost::json::string("none\0x", 6),
                                       boost::json::array{},
                                       boost::json::array{0.5, "0.5"},
                                       boost::json::array{0.5, 0.5, 0.5},
                                       boost::json::object{},
                                       boost::json::object{{"value", 7}}};
  int refused = 0;
  for (Key const& k : zero::all_keys()) {
    if (!is_leaf(k)) continue;
    for (boost::json::value const& value : values) {
      CAPTURE(k.path);
      CAPTURE(boost::json::serialize(value));
      Outcome const outcome = load(file_with(k, value));
      if (!is_of_type(value, k.type)) CHECK(outcome.names(k.path));
      if (!outcome.names(k.path)) continue;
      ++refused;
      for (zero::Problem const& p : outcome.problems) {
        CHECK(p.text().find('\n') == std::string::npos);
        CHECK(!p.found.empty());
        CHECK(!p.expected.empty());
      }
    }
  }
  CHECK(refused > 1500);
}

TEST_CASE("\"auto\" is refused under every key that has no rule, and where the rule has no value") {
  for (Key const& k : zero::all_keys()) {
    if (!is_leaf(k)) continue;
    CAPTURE(k.path);
    Outcome const outcome = load(file_with(k, "auto"));
    bool const fixed = k.automatic == zero::Auto::nothing || k.automatic == zero::Auto::no_gather;
    CHECK(outcome.names(k.path) != fixed);
    if (k.automatic == zero::Auto::none) CHECK(outcome.says("found \"auto\""));
  }
  // A text has no rule either, so that no folder is called so by mistake.
  Outcome const path = load_text(with(R"("zero_optimization": {"stage": 3,
    "offload_param": {"device": "nvme", "nvme_path": "auto"}})"));
  REQUIRE(path.problems.size() == 1);
  CHECK(path.says("nvme_path: found \"auto\"; expected text: there is no rule for \"auto\" here"));
  CHECK(load_text(with(R"("zero_optimization": {"stage": 3,
    "offload_param": {"device": "nvme", "nvme_path": "./auto"}})"))
            .config);
}

TEST_CASE("a key in another section is refused there [slow]") {
  int misplaced = 0;
  for (Key const& k : zero::all_keys()) {
    for (std::string const section : {"", "zero_optimization", "fp16", "aio", "data_types"}) {
      std::string const path =
          section.empty() ? std::string(k.name()) : section + "." + std::string(k.name());
      if (zero::find_key(path) != nullptr) continue;
      CAPTURE(path);
      boost::json::object file{{"train_micro_batch_size_per_gpu", 1}};
      put_at(file, path, 1);
      Outcome const outcome = load(file);
      REQUIRE(outcome.problems.size() == 1);
      CHECK(outcome.names(path));
      CHECK(outcome.problems[0].found == "a key that is not known");
      ++misplaced;
    }
  }
  CHECK(misplaced > 800);
}

TEST_CASE("a name that is hidden behind a byte of 0 is another name") {
  Outcome const device = load_text(
      with(R"("zero_optimization": {"stage": 3, "offload_param": {"device": "cpu\u0000x"}})"));
  CHECK(device.names("zero_optimization.offload_param.device"));
  CHECK(device.says(R"(found "cpu\u0000x")"));
  CHECK(load_text(with(R"("optimizer": {"type": "AdamW\u0000x"})")).names("optimizer.type"));
  CHECK(load_text(with(R"("fp16\u0000": {"enabled": true})")).names(R"(fp16\x00)"));
  CHECK(load_text(with(R"("zero_optimization": {"stage": 3, "offload_optimizer":
    {"device": "nvme", "nvme_path": "/a\u0000b"}})"))
            .names("zero_optimization.offload_optimizer.nvme_path"));
}

TEST_CASE(
    "a number that is another one as a float is refused: infinite, 0, or a bound that is out") {
  std::pair<char const*, char const*> const wrong[] = {
      {R"("gradient_clipping": 1e-60)", "gradient_clipping"},  // would not clip
      {R"("gradient_clipping": 1e39)", "gradient_clipping"},
      {R"("optimizer": {"type": "AdamW", "params": {"lr": 1e300}})", "optimizer.params.lr"},
      {R"("optimizer": {"type": "AdamW", "params": {"eps": 1e-50}})", "optimizer.params.eps"},
      {R"("optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.99999999999]}})",
       "optimizer.params.betas"},
      {R"("fp16": {"enabled": true, "min_loss_scale": 1e-30})", "fp16.min_loss_scale"}};
  for (auto const& [member, path] : wrong) {
    CAPTURE(member);
    Outcome const outcome = load_text(with(member));
    REQUIRE(outcome.problems.size() == 1);
    CHECK(outcome.names(path));
  }
  CHECK(load_text(with(wrong[0].first)).says("also when it is rounded to a float"));
  // The largest float, the least and 0 are right.
  for (char const* number : {"3.4028234663852886e38", "1.5e-45", "0", "0e-999"})
    CHECK(load_text(with(std::string(R"("gradient_clipping": )") + number)).config);
  // As a double it is 0 already: the text is no number that can be met.
  CHECK(load_text(with(R"("gradient_clipping": 1e-400)")).says("found 1e-400"));
}

TEST_CASE("whole numbers are compared and bounded as whole numbers") {
  // 2^53 and 2^53 + 1 are one double.
  zero::TrainingArguments const arguments{.per_device_train_batch_size = (Index{1} << 53) + 1};
  CHECK(
      load(boost::json::object{{"train_micro_batch_size_per_gpu", (Index{1} << 53) + 1}}, arguments)
          .config);
  CHECK(load(boost::json::object{{"train_micro_batch_size_per_gpu", Index{1} << 53}}, arguments)
            .names("train_micro_batch_size_per_gpu"));
  auto const window = [](std::string const& n) {
    return load_text(with(R"("fp16": {"enabled": true, "loss_scale_window": )" + n + "}"));
  };
  CHECK(window("9007199254740992").config);
  CHECK(window("9007199254740993").names("fp16.loss_scale_window"));
  CHECK(load_text(with(R"("zero_optimization": {"reduce_bucket_size": 1e19})")).says("below 2^63"));
}

TEST_CASE("what is resolved can be started: every schedule and scale at the ends of its numbers") {
  int resolved = 0;
  for (Key const& k : zero::all_keys()) {
    bool const number = k.type == KeyType::whole || k.type == KeyType::number;
    if (!is_leaf(k) || !number || k.status != KeyStatus::honoured) continue;
    if (k.parent() != "scheduler.params" && k.parent() != "fp16") continue;
    double const largest = k.type == KeyType::whole ? 0x1p62 : 3e38;
    for (double const value : {k.low, std::min(k.high, largest), 1.0, 1e-30}) {
      if (k.type == KeyType::whole && value != std::floor(value)) continue;
      for (bool const with_rate : {true, false}) {
        boost::json::object file = file_with(k, value);
        if (k.parent() == "fp16") put_at(file, "fp16.enabled", true);
        if (with_rate) put_at(file, "optimizer", boost::json::object{{"type", "AdamW"}});
        for (char const* needed : {"total_num_steps", "cycle_min_lr", "cycle_max_lr"}) {
          std::string const path = std::string("scheduler.params.") + needed;
          bool const has = zero::find_key(path, k.of.substr(0, k.of.find(' '))) != nullptr;
          if (k.parent() == "scheduler.params" && has && k.path != path) put_at(file, path, 1);
        }
        CAPTURE(boost::json::serialize(file));
        Outcome const outcome = load(file);
        if (!outcome.config) {
          CHECK(outcome.says(k.name()));
          continue;
        }
        ++resolved;
        zero::ScheduleChoice const schedule = zero::schedule_of(*outcome.config, 1e-3);
        for (Index const t : {Index{1}, Index{2}, Index{1000}, Index{1} << 60}) {
          CHECK(std::isfinite(schedule.schedule.factor(t)));
          if (schedule.momentum) CHECK(schedule.momentum->value(t) < 1);
        }
        zero::loss_scale_of(*outcome.config);
      }
    }
  }
  CHECK(resolved > 150);
}

TEST_CASE("a rate of 0 has none beside it, and an odd one is computed with a warning") {
  auto const scheduler = [](std::string const& type, std::string const& params) {
    return load_text(with(R"("optimizer": {"type": "AdamW", "params": {"lr": 0}},
      "scheduler": {"type": ")" +
                          type + R"(", "params": )" + params + "}"));
  };
  CHECK(scheduler("WarmupLR", R"({"warmup_min_lr": 0.1})").names("scheduler.params.warmup_min_lr"));
  CHECK(scheduler("OneCycle", R"({"cycle_min_lr": 0.1, "cycle_max_lr": 0})")
            .names("scheduler.params.cycle_min_lr"));
  CHECK(scheduler("WarmupLR", R"({"warmup_min_lr": 0})").config);
  CHECK(scheduler("WarmupCosineLR", R"({"total_num_steps": 9000, "warmup_min_ratio": 2,
    "cos_min_ratio": 3})")
            .warns("warmup_min_ratio: 2 is above 1; computed as DeepSpeed does"));
  zero::TrainingArguments const low{
      .learning_rate = 1e-8, .lr_scheduler_type = "polynomial", .max_steps = 3};
  CHECK(load_text(with(""), low).names("arguments.lr_scheduler_kwargs.lr_end"));
}

}  // namespace
