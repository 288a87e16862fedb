// SPDX-License-Identifier: Apache-2.0
// What a configuration resolves to: defaults, "auto", arguments, other spellings, what is refused.
#include <config/loading.hpp>
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>

namespace {

using namespace config_test;
using zero::KeyStatus;
using zero::TrainingArguments;

std::string zero_section(std::string const& members) {
  return with(R"("zero_optimization": {)" + members + "}");
}
std::string menu(std::string const& optimizer, std::string const& scheduler) {
  return with(R"("optimizer": )" + optimizer + R"(, "scheduler": )" + scheduler);
}

TEST_CASE("defaults are those of the golden file") {
  std::ifstream in(std::filesystem::path(ZERO_CONFIG_CASES) / "defaults.json");
  std::string const golden{std::istreambuf_iterator<char>(in), {}};
  CHECK(zero::json_text(load_text(with("")).config->json) + "\n" == golden);
}

TEST_CASE("every key stands once in the table, with a status that its text explains") {
  std::set<std::string> seen;
  for (zero::Key const& k : zero::all_keys()) {
    CAPTURE(k.path);
    CHECK(seen.insert(std::string(k.path) + "/" + std::string(k.of)).second);
    CHECK(!k.what.empty());
    if (!k.fallback.empty()) CHECK_NOTHROW(boost::json::parse(k.fallback));
    if (!k.translated.empty()) CHECK(zero::find_key(k.translated) != nullptr);
    // A section comes before what it holds.
    if (!k.parent().empty()) CHECK(zero::find_key(k.parent()) != nullptr);
    // A default that is written out says nothing new.
    bool const has_default =
        !k.fallback.empty() && k.fallback != "null" && k.type != zero::KeyType::section;
    if (has_default && k.of.empty() && k.path != "optimizer.legacy_fusion") {
      boost::json::object file{{"train_micro_batch_size_per_gpu", 1}};
      put_at(file, k.path, boost::json::parse(k.fallback));
      Outcome const outcome = load(file);
      CHECK_MESSAGE(outcome.config, outcome.text);
    }
  }
  CHECK(seen.size() > 200);
}

TEST_CASE("docs/configuration.md has a row for each key and each argument") {
  std::ifstream in(std::filesystem::path(ZERO_CONFIG_CASES).parent_path().parent_path() / "docs" /
                   "configuration.md");
  std::string const page{std::istreambuf_iterator<char>(in), {}};
  for (zero::Key const& k : zero::all_keys()) {
    char const* const status = k.status == KeyStatus::honoured   ? "honoured"
                               : k.status == KeyStatus::accepted ? "accepted"
                                                                 : "refused";
    std::string row = "| `" + std::string(k.path) + "` | " + status + " | ";
    if (!k.fallback.empty()) row += "`" + std::string(k.fallback) + "`";
    CHECK_MESSAGE(page.find("\n" + row + " | ") != std::string::npos, row);
  }
  TrainingArguments all = table_arguments();
  all.fp16 = all.fp16_full_eval = all.bf16_full_eval = false;
  all.optim = all.lr_scheduler_type = all.deepspeed = "";
  all.lr_scheduler_kwargs.emplace();
  all.warmup_ratio = all.num_train_epochs = 1;
  all.num_train_samples = 1;
  all.seed = 1;
  all.save_only_model = all.load_best_model_at_end = all.save_on_each_node = false;
  boost::json::object const arguments = zero::arguments_json(all);
  CHECK(arguments.size() == 26);  // every member
  for (auto const& argument : arguments)
    CHECK_MESSAGE(page.find("`" + std::string(argument.key()) + "`") != std::string::npos,
                  argument.key());
}

TEST_CASE(
    "accepted keys warn once and say why, refused ones are refused by name, at their neutral value "
    "neither") {
  int accepted = 0;
  int refused = 0;
  for (zero::Key const& k : zero::all_keys()) {
    if (k.switched || k.type == zero::KeyType::section || !k.of.empty() || !k.translated.empty())
      continue;
    if (std::string(k.parent()) == "flops_profiler" || std::string(k.parent()) == "comms_logger")
      continue;
    CAPTURE(k.path);
    boost::json::object file{{"train_micro_batch_size_per_gpu", 1}};
    boost::json::value const neutral = boost::json::parse(k.fallback.empty() ? "null" : k.fallback);
    if (k.status == KeyStatus::accepted && !neutral.is_null()) {
      ++accepted;
      if (k.path == "optimizer.legacy_fusion") put_at(file, "optimizer.type", "AdamW");
      put_at(file, k.path, neutral);
      Outcome const outcome = load(file);
      CHECK_MESSAGE(outcome.warns(std::string(k.path) + ": accepted without effect: "),
                    outcome.text);
    } else if (k.status == KeyStatus::refused) {
      ++refused;
      if (!neutral.is_null()) {
        put_at(file, k.path, neutral);
        CHECK_MESSAGE(load(file).config, load(file).text);
      }
      boost::json::value other = 7;
      if (neutral.is_bool()) other = !neutral.get_bool();
      if (k.type == zero::KeyType::choice) other = "sum";
      put_at(file, k.path, other);
      Outcome const outcome = load(file);
      CHECK(outcome.names(k.path));
      CHECK(outcome.says(k.what));
    }
  }
  CHECK(accepted > 30);
  CHECK(refused > 30);
}

TEST_CASE(
    "another system's section that is off is not judged, one that is on is refused or accepted by "
    "name") {
  for (char const* section :
       {"amp", "elasticity", "wandb", "curriculum_learning", "autotuning", "nebula"}) {
    CAPTURE(section);
    std::string const name = std::string("\"") + section + "\": ";
    CHECK(load_text(with(name + R"({"enabled": false, "no such key": [1, "auto"]})")).config);
    CHECK(load_text(with(name + R"({"anything": 1})")).config);  // off unless it says on
    CHECK(load_text(with(name + R"({"enabled": true})")).names(std::string(section) + ".enabled"));
    CHECK(
        load_text(with(name + R"({"enabled": "true"})")).names(std::string(section) + ".enabled"));
    CHECK(load_text(with(name + "true")).names(section));
  }
  CHECK(load_text(with(R"("flops_profiler": {"enabled": true, "profile_step": 1})"))
            .warns("flops_profiler: accepted"));
  CHECK(load_text(with(R"("flops_profiler": {"enabled": true, "profile_stp": 1})"))
            .names("flops_profiler.profile_stp"));
  CHECK(load_text(with(R"("compile": {"deepcompile": true})")).names("compile.deepcompile"));
  CHECK(
      load_text(with(R"("tensor_parallel": {"tp": {"tp_size": 2}})")).names("tensor_parallel.tp"));
}

TEST_CASE("null means not given where the default is none, else it is refused") {
  CHECK(
      load_text(
          with(
              R"("train_batch_size": null, "optimizer": null, "scheduler": null, "communication_data_type": null,
    "zero_optimization": {"overlap_comm": null, "offload_optimizer": null, "offload_param": {"nvme_path": null}})"))
          .config);
  for (char const* path : {"gradient_clipping", "zero_optimization", "zero_optimization.stage",
                           "fp16.enabled", "zero_optimization.offload_param.device", "fp16"}) {
    CAPTURE(path);
    boost::json::object file{{"train_micro_batch_size_per_gpu", 1}};
    put_at(file, path, nullptr);
    CHECK(load(file).names(path));
  }
}

TEST_CASE("sizes are whole numbers of elements in range, whatever they are written as") {
  for (std::string const size : {"5e8", "500000000", "500000000.0", "5.0E+8"})
    CHECK(load_text(zero_section(R"("reduce_bucket_size": )" + size)).config->reduce_bucket_size ==
          500'000'000);
  for (std::string const size : {"1.5", "-1", "1e19", "9223372036854775808", "18446744073709551615",
                                 "1e300", "true", "\"5e8\"", "[1]", "{}"}) {
    CAPTURE(size);
    CHECK(load_text(zero_section(R"("reduce_bucket_size": )" + size))
              .names("zero_optimization.reduce_bucket_size"));
  }
  CHECK(load_text(zero_section(R"("reduce_bucket_size": 9223372036854775807)"))
            .config->reduce_bucket_size == std::numeric_limits<Index>::max());
  CHECK(load(boost::json::object{{"train_micro_batch_size_per_gpu", Index{1} << 62},
                                 {"gradient_accumulation_steps", 4}})
            .says("below 2^63"));
  for (char const* number : {"1", "0", "\"true\"", "null"})
    CHECK(load_text(with(std::string(R"("fp16": {"enabled": )") + number + "}"))
              .names("fp16.enabled"));
}

TEST_CASE("all problems of a file and its arguments come in one error") {
  TrainingArguments arguments = table_arguments();
  arguments.weight_decay = -1;
  Outcome const outcome = load_text(R"({"train_micro_batch_size_per_gpu": 0, "gradient_cliping": 1,
    "zero_optimization": {"stage": 5, "reduce_bucket_size": "1"}, "fp16": {"loss_scale": -2, "enabled": null},
    "optimizer": {"type": "Adamw8", "params": {}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "cos"}}})",
                                    arguments);
  for (char const* path :
       {"arguments.weight_decay", "train_micro_batch_size_per_gpu", "gradient_cliping",
        "zero_optimization.stage", "zero_optimization.reduce_bucket_size", "fp16.loss_scale",
        "fp16.enabled", "optimizer.type", "scheduler.params.warmup_type"})
    CHECK_MESSAGE(outcome.names(path), path);
  CHECK(outcome.problems.size() == 9);
}

TEST_CASE("an unknown key is told the nearest one, or the section where it belongs") {
  std::pair<char const*, char const*> const keys[] = {
      {R"("gradient_clip": 1)", "nearest is gradient_clipping"},
      {R"("zero_optimisation": {})", "nearest is zero_optimization"},
      {R"("stage": 1)", "stage belongs to section zero_optimization"},
      {R"("zero_optimization": {"gradient_clipping": 1})", "gradient_clipping at the top level"},
      {R"("zero_optimization": {"stge": 1})", "nearest is zero_optimization.stage"},
      {R"("zero_optimization": {"device": "cpu"})",
       "device belongs to section zero_optimization.offload_optimizer"},
      {R"("optimizer": {"type": "Lion", "params": {"eps": 1}})",
       "it belongs to Adam AdamW Lamb Adagrad"},
      {R"("optimizer": {"type": "AdamW", "params": {"max_grad_norm": 1}})",
       "gradient_clipping, at the top level"},
      {R"("zero_optimization.stage": 1)", "nearest is"},
      {R"("qqqqqqqqqqqq": 1)", "a key of the top level"}};
  for (auto const& [member, says] : keys) {
    CAPTURE(member);
    Outcome const outcome = load_text(with(member));
    CHECK_MESSAGE(outcome.says(says), outcome.text);
    CHECK(outcome.problems.size() == 1);
  }
}

TEST_CASE("deprecated and short spellings lead to their key, and never stand beside it") {
  Outcome const offload =
      load_text(zero_section(R"("stage": 3, "cpu_offload": true, "cpu_offload_param": true)"));
  CHECK(offload.config->offload_optimizer.tier == zero::Tier::host);
  CHECK(offload.config->offload_param.tier == zero::Tier::host);
  CHECK(offload.warns("cpu_offload: deprecated"));
  CHECK(load_text(zero_section(R"("stage": 2, "cpu_offload": false)"))
            .config->offload_optimizer.tier == zero::Tier::device);
  CHECK(load_text(zero_section(
                      R"("stage": 2, "cpu_offload": true, "offload_optimizer": {"device": "cpu"})"))
            .names("zero_optimization.cpu_offload"));
  Outcome const short_name =
      load_text(zero_section(R"("stage": 3, "prefetch_bucket_size": 7, "max_live_parameters": 8)"));
  CHECK(short_name.config->stage3_prefetch_bucket_size == 7);
  CHECK(short_name.config->stage3_max_live_parameters == 8);
  CHECK(short_name.config->warnings.empty());
  CHECK(load_text(zero_section(
                      R"("stage": 3, "prefetch_bucket_size": 7, "stage3_prefetch_bucket_size": 7)"))
            .problems.size() == 1);
  Outcome const bfloat = load_text(with(R"("bfloat16": {"enabled": true})"));
  CHECK(bfloat.config->precision == zero::PrecisionChoice::bf16);
  CHECK(bfloat.warns("bfloat16: deprecated"));
  CHECK(load_text(with(R"("bfloat16": {"enabled": true}, "bf16": {"enabled": true})"))
            .problems.size() == 1);
}

TEST_CASE("values that differ from the arguments are refused, all pairs at once") {
  std::string const text =
      R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3, "train_batch_size": 12,
    "gradient_clipping": 0.5, "bf16": {"enabled": false}, "fp16": {"enabled": true},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_max_lr": 1e-3, "warmup_num_steps": 7, "total_num_steps": 70}}})";
  CHECK(load_text(text, {}, 2).config);
  Outcome const outcome = load_text(text, table_arguments(), 2);
  for (char const* path : {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps",
                           "train_batch_size", "gradient_clipping", "bf16.enabled", "fp16.enabled",
                           "optimizer.params.lr", "optimizer.params.betas", "optimizer.params.eps",
                           "optimizer.params.weight_decay", "scheduler.params.warmup_max_lr",
                           "scheduler.params.warmup_num_steps", "scheduler.params.total_num_steps"})
    CHECK_MESSAGE(outcome.names(path), path);
  CHECK(outcome.problems.size() == 13);
  CHECK(outcome.says("learning_rate"));
  // Sizes that "auto" fills by a rule may say what they like.
  TrainingArguments const hidden{.hidden_size = 1024};
  CHECK(load_text(zero_section(R"("stage": 3, "reduce_bucket_size": 5)"), hidden).config);
}

TEST_CASE("a key that the file leaves out keeps its default, and a warning names the argument") {
  Outcome const outcome = load_text(with(R"("optimizer": {"type": "AdamW"})"),
                                    TrainingArguments{.gradient_accumulation_steps = 2,
                                                      .weight_decay = 0.1,
                                                      .max_grad_norm = 0.5,
                                                      .bf16 = true});
  REQUIRE(outcome.config);
  CHECK(outcome.config->gradient_accumulation_steps == 1);
  CHECK(outcome.config->gradient_clipping == 1);
  CHECK(outcome.config->precision == zero::PrecisionChoice::fp32);
  CHECK(outcome.config->optimizer->number("weight_decay") == 0);
  for (char const* name :
       {"gradient_accumulation_steps 2", "max_grad_norm 0.5", "bf16 true", "weight_decay 0.1"})
    CHECK_MESSAGE(outcome.warns(name), name);
  CHECK(outcome.config->warnings.size() == 4);
  // One micro-batch that follows from the others.
  Outcome const micro = load_text(R"({"train_batch_size": 8})",
                                  TrainingArguments{.per_device_train_batch_size = 4}, 4);
  CHECK(micro.config->train_micro_batch_size_per_gpu == 2);
  CHECK(micro.warns("per_device_train_batch_size 4"));
}

TEST_CASE(
    "without sections the arguments decide on optimizer and schedule, without arguments the "
    "program") {
  Outcome const none = load_text(with(""));
  CHECK(!none.config->optimizer);
  CHECK(!none.config->scheduler);
  CHECK(none.config->json.at("optimizer").is_null());

  Outcome const told = load_text(
      with(R"("gradient_accumulation_steps": 2, "bf16": {"enabled": true})"),
      TrainingArguments{
          .learning_rate = 3e-4, .adam_beta2 = 0.95, .warmup_ratio = 0.03, .max_steps = 250});
  REQUIRE(told.config);
  CHECK(told.config->optimizer->type == "AdamW");
  CHECK(told.config->optimizer->number("lr") == 3e-4);
  CHECK(told.config->optimizer->params.at("betas") == boost::json::value{0.9, 0.95});
  CHECK(told.config->optimizer->number("weight_decay") == 0);
  CHECK(told.config->scheduler->type == "linear");
  CHECK(told.config->scheduler->whole("num_warmup_steps") == 8);  // ceil(7.5)
  CHECK(told.config->scheduler->whole("num_training_steps") == 250);
  CHECK(told.config->num_updates == 250);

  TrainingArguments const cosine{.optim = "sgd",
                                 .lr_scheduler_type = "cosine",
                                 .lr_scheduler_kwargs = boost::json::object{{"num_cycles", 2}},
                                 .warmup_steps = 0,
                                 .max_steps = 9};
  Outcome const other = load_text(with(""), cosine);
  CHECK(other.config->optimizer->type == "SGD");
  CHECK(other.config->optimizer->number("lr") == 5e-5);
  CHECK(other.config->scheduler->number("num_cycles") == 2);
  CHECK(other.config->scheduler->whole("num_warmup_steps") == 0);
}

TEST_CASE("updates are counted from epochs and samples as transformers counts them") {
  // 101 samples in micro-batches of 4 are 26, on 2 ranks 13 each, of which 3 make an update: 5 an
  // epoch.
  TrainingArguments arguments{
      .warmup_ratio = 0.5, .num_train_epochs = 2.5, .num_train_samples = 101};
  std::string const text =
      R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3})";
  Outcome const outcome = load_text(text, arguments, 2);
  REQUIRE(outcome.config);
  CHECK(outcome.config->scheduler->whole("num_training_steps") == 13);  // ceil(12.5)
  CHECK(outcome.config->scheduler->whole("num_warmup_steps") == 7);     // ceil(6.5)
  arguments.max_steps = 4;                                              // wins
  CHECK(load_text(text, arguments, 2).config->num_updates == 4);
  arguments.max_steps = -1;
  CHECK(load_text(text, arguments, 2).config->num_updates == 13);
  arguments.num_train_samples.reset();
  CHECK(load_text(text, arguments, 2).names("arguments.num_train_epochs"));
}

TEST_CASE("arguments are judged like a file, by whatever entrance they come") {
  zero::Findings findings;
  zero::read_arguments(
      boost::json::parse(R"({"learning_rat": 1, "bf16": "yes", "max_steps": 1.5, "seed": -1,
    "lr_scheduler_type": "cosin", "label_smoothing_factor": 0.1, "fsdp": "", "logging_steps": 10, "optim": null})")
          .as_object(),
      findings);
  std::set<std::string> paths;
  for (zero::Problem const& p : findings.problems()) paths.insert(p.path);
  CHECK(paths == std::set<std::string>{"arguments.learning_rat", "arguments.bf16",
                                       "arguments.max_steps", "arguments.seed",
                                       "arguments.lr_scheduler_type",
                                       "arguments.label_smoothing_factor"});
  CHECK(findings.warnings().size() == 1);
  CHECK(findings.warnings()[0].find("logging_steps") != std::string::npos);

  TrainingArguments wrong{.learning_rate = std::nan("")};
  CHECK(load_text(with(""), wrong).names("arguments.learning_rate"));
  wrong = {.optim = "adafactor"};
  CHECK(load_text(with(""), wrong).names("arguments.optim"));
  wrong = {.save_only_model = true, .load_best_model_at_end = true};
  CHECK(load_text(with(""), wrong).names("arguments.save_only_model"));
  wrong = {.warmup_steps = 3};
  CHECK(load_text(with(""), wrong).names("arguments.max_steps"));
  wrong = {.optim = "sgd"};
  CHECK(load_text(with(R"("optimizer": {"type": "AdamW"})"), wrong).names("optimizer.type"));
  wrong = {.lr_scheduler_type = "cosine"};
  CHECK(load_text(menu(R"({"type": "AdamW"})", R"({"type": "WarmupLR"})"), wrong)
            .names("scheduler.type"));
  wrong = {.lr_scheduler_type = "linear",
           .lr_scheduler_kwargs = boost::json::object{{"power", 2}},
           .max_steps = 3};
  CHECK(load_text(with(""), wrong).names("arguments.lr_scheduler_kwargs.power"));
}

TEST_CASE("every entrance behaves alike") {
  std::string const text = zero_section(R"("stage": 7, "reduce_bucket_size": "5e8", "aio": {})");
  Outcome const by_text = load_text(text);
  Outcome const by_object = load(boost::json::parse(text).as_object());
  std::filesystem::path const path =
      std::filesystem::temp_directory_path() / "zero_config_entrance.json";
  std::ofstream(path) << text;
  Outcome const by_file = load(zero::ConfigFile{path});
  std::filesystem::remove(path);
  CHECK(by_text.problems.size() == 3);
  CHECK(by_text.problems == by_object.problems);
  CHECK(by_text.problems == by_file.problems);
  CHECK(load(zero::ConfigFile{"no_such_file.json"}).names("no_such_file.json"));
  CHECK(load(zero::ConfigFile{std::filesystem::temp_directory_path()}).says("a folder"));
  CHECK(load(zero::ConfigFile{"/dev/zero"}).says("more than"));
  CHECK(load_text(with(""), {}, 0).names("world"));
}

TEST_CASE("what keys mean together") {
  auto const refused = [](std::string const& text, char const* path) {
    Outcome const outcome = load_text(text);
    CHECK_MESSAGE(outcome.names(path), text);
    CHECK(outcome.problems.size() == 1);
  };
  refused(zero_section(R"("stage": 0, "offload_optimizer": {"device": "cpu"})"),
          "zero_optimization.offload_optimizer.device");
  refused(zero_section(R"("stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5})"),
          "zero_optimization.offload_optimizer.ratio");
  refused(with(R"("communication_data_type": "fp16")"), "communication_data_type");
  refused(with(R"("data_types": {"grad_accum_dtype": "bf16"})"), "data_types.grad_accum_dtype");
  refused(with(R"("bf16": {"enabled": true}, "data_types": {"param_dtype": "fp16"})"),
          "data_types.param_dtype");
  refused(with(R"("optimizer": {"type": "AdamW", "params": {"adam_w_mode": false}})"),
          "optimizer.params.adam_w_mode");
  refused(with(R"("optimizer": {"type": "SGD", "params": {"nesterov": true}})"),
          "optimizer.params.nesterov");
  refused(with(R"("optimizer": {"type": "AdamW", "params": {"betas": [0.9, 1.0]}})"),
          "optimizer.params.betas");
  refused(with(R"("optimizer": {"params": {"lr": 1}})"), "optimizer.type");
  refused(with(R"("optimizer": {"type": "Muon", "params": {"lr": 1}})"), "optimizer.type");
  refused(menu(R"({"type": "AdamW"})", R"({"type": "WarmupDecayLR", "params": {}})"),
          "scheduler.params.total_num_steps");
  refused(menu(R"({"type": "AdamW"})", R"({"type": "CosineAnnealingLR"})"), "scheduler.type");
  refused(with(R"("fp16": {"enabled": true, "initial_scale_power": 3, "min_loss_scale": 9})"),
          "fp16.min_loss_scale");
  CHECK(load_text(with(R"("optimizer": {"type": "adamw"})")).config->optimizer->type == "AdamW");
  CHECK(load_text(with(R"("optimizer": {"type": "Adam"})")).warns("Adam means AdamW"));
  Outcome const odd = load_text(menu(R"({"type": "AdamW"})", R"({"type": "WarmupDecayLR",
    "params": {"warmup_num_steps": 20, "total_num_steps": 10, "warmup_min_lr": 0.5, "warmup_max_lr": 0.1}})"));
  CHECK(odd.warns("warmup_num_steps: 20 is above total_num_steps 10"));
  CHECK(odd.warns("warmup_min_lr: 0.5 is above warmup_max_lr 0.1"));
  // A peak that is not given is the optimizer's rate.
  CHECK(load_text(menu(R"({"type": "AdamW", "params": {"lr": 0.25}})", R"({"type": "WarmupLR"})"))
            .config->scheduler->number("warmup_max_lr") == 0.25);
}

}  // namespace
