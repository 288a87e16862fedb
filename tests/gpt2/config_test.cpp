// SPDX-License-Identifier: Apache-2.0
// The program gpt2 under a DeepSpeed configuration: the files of the cases train, and a file says
// what flags would.
#include <doctest/doctest.h>
#include <gpt2/program.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#ifdef ZERO_GPT2_CONFIG_CASES

namespace {

namespace fs = std::filesystem;
using gpt2_program::Folder;
using gpt2_program::read;

struct Result {
  int code;
  std::string out;
  std::string err;
  /// The text after "key": in the last line.
  std::string json(std::string const& key) const {
    std::size_t const begin = out.rfind("\"" + key + "\":");
    REQUIRE_MESSAGE(begin != std::string::npos, err);
    std::size_t const value = begin + key.size() + 3;
    return out.substr(value, out.find_first_of(",}", value) - value);
  }
};

/// Runs a small model in the folder. @param environment NAME=value, with a blank behind
Result run_inside(Folder const& folder, std::string const& flags,
                  std::string const& environment = "") {
  std::string const command =
      "cd '" + folder.path.string() + "' && " + environment + "'" + ZERO_GPT2_PROGRAM +
      "' --text text --layers 2 --width 16 --heads 2 --context 16 --json " + flags + " >out 2>err";
  int const status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(folder.path / "out"),
          read(folder.path / "err")};
}
std::string case_file(std::string const& name) {
  return "--config '" ZERO_GPT2_CONFIG_CASES "/" + name + "' ";
}

constexpr char const* arguments =
    R"({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
  "learning_rate": 0.01, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "weight_decay": 0.01,
  "max_grad_norm": 1.0, "bf16": true, "warmup_steps": 1, "max_steps": 8})";

TEST_CASE("the guide's configurations train with arguments, and are refused without") {
  Folder const folder;
  folder.write("args.json", arguments);
  std::string hashes[4];
  std::pair<char const*, char const*> const cases[] = {{"s01_seed_quick_auto.json", "0"},
                                                       {"s02_seed_stage1.json", "1"},
                                                       {"s03_seed_stage2.json", "2"},
                                                       {"s06_seed_batch_auto.json", "0"}};
  std::size_t i = 0;
  for (auto const& [file, stage] : cases) {
    CAPTURE(file);
    Result const result =
        run_inside(folder, case_file(file) + "--arguments args.json --ranks 2 --reduce boundary");
    REQUIRE_MESSAGE(result.code == 0, result.err);
    CHECK(result.json("stage") == stage);
    CHECK(result.json("steps") == "8");
    CHECK(std::stod(result.json("last_loss")) < std::stod(result.json("first_loss")));
    CHECK(result.json("planned_bytes") == result.json("measured_bytes"));
    hashes[i++] = result.json("parameters_hash");
    CHECK(run_inside(folder, case_file(file) + "--ranks 2").code == 2);
  }
  CHECK(hashes[1] == hashes[2]);  // bf16 at stages 1 and 2, reduced at one moment
  CHECK(hashes[0] != hashes[3]);  // with and without weight decay
}

TEST_CASE("bare fragments are refused, and s04 trains with both kinds of state in host memory") {
  Folder const folder;
  folder.write("args.json", arguments);
  for (auto const& entry : fs::directory_iterator(ZERO_GPT2_CONFIG_CASES "/fragments")) {
    CAPTURE(entry.path().string());
    Result const result = run_inside(folder, "--config '" + entry.path().string() + "' --ranks 2");
    CHECK(result.code == 2);
    CHECK(result.err.find("train_micro_batch_size_per_gpu") != std::string::npos);
  }
  Result const offload = run_inside(
      folder, case_file("s04_seed_stage3_offload.json") + "--arguments args.json --ranks 2");
  INFO(offload.err);
  REQUIRE(offload.code == 0);
  CHECK(offload.json("planned_bytes") == offload.json("measured_bytes"));
  CHECK(offload.json("host_bytes") != "0");
}

TEST_CASE("a configuration that offloads to files trains to the bits of one that does not") {
  Folder const folder;
  auto const configuration = [&](std::string const& offload) {
    return R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true},
      "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
      "aio": {"block_size": 4096, "queue_depth": 2, "intra_op_parallelism": 2},
      "zero_optimization": {"stage": 3, "sub_group_size": 3000)" +
           offload + "}}";
  };
  std::string const files =
      R"("device": "nvme", "pin_memory": false, "nvme_path": ")" + folder.path.string() + "\"";
  folder.write("device.json", configuration(""));
  folder.write("files.json",
               configuration(R"(, "offload_optimizer": {)" + files +
                             R"(, "buffer_count": 3, "ratio": 0.5, "pipeline_read": true},
                             "offload_param": {)" +
                             files + R"(, "buffer_size": 10, "max_in_cpu": 0})"));
  std::string const flags = " --steps 4 --seed 3 --ranks 2";
  Result const device = run_inside(folder, "--config device.json" + flags);
  REQUIRE_MESSAGE(device.code == 0, device.err);
  Result const below = run_inside(folder, "--config files.json" + flags);
  REQUIRE_MESSAGE(below.code == 0, below.err);
  CHECK(below.json("parameters_hash") == device.json("parameters_hash"));
  CHECK(device.json("nvme_bytes") == "0");
  CHECK(below.json("nvme_bytes") != "0");
  CHECK(std::stoll(below.json("planned_bytes")) < std::stoll(device.json("planned_bytes")));
}

TEST_CASE("a configuration gives the bits of the flags that say the same") {
  Folder const folder;
  folder.write(
      "c.json",
      R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "bf16": {"enabled": true},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.99], "weight_decay": 0.1}},
    "zero_optimization": {"stage": 3}})");
  folder.write("args.json",
               R"({"warmup_steps": 1, "max_steps": 10, "seed": 3, "lr_scheduler_type": "linear"})");
  Result const file = run_inside(folder, "--config c.json --arguments args.json --ranks 2");
  REQUIRE_MESSAGE(file.code == 0, file.err);
  Result const flags = run_inside(folder,
                                  "--stage 3 --batch 2 --accumulation 2 --precision bf16 --lr 0.01 "
                                  "--steps 10 --seed 3 --ranks 2");
  REQUIRE(flags.code == 0);
  CHECK(file.json("parameters_hash") == flags.json("parameters_hash"));
  CHECK(file.json("last_loss") == flags.json("last_loss"));
  // Without an optimizer in it, and no arguments, optimizer and schedule are the program's own.
  folder.write(
      "d.json",
      R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 3}})");
  Result const own = run_inside(folder, "--config d.json --lr 0.01 --steps 10 --seed 3 --ranks 2");
  REQUIRE_MESSAGE(own.code == 0, own.err);
  CHECK(own.json("parameters_hash") == flags.json("parameters_hash"));
}

TEST_CASE(
    "a configuration that accelerate names in the environment wins, with a warning that names "
    "both") {
  Folder const folder;
  folder.write("c.json",
               R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}})");
  folder.write("d.json",
               R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}})");
  std::string const environment = "ACCELERATE_DEEPSPEED_CONFIG_FILE=d.json ";
  CHECK(run_inside(folder, "--ranks 2 --steps 1", environment).json("stage") == "2");
  Result const both = run_inside(folder, "--config c.json --ranks 2 --steps 1", environment);
  CHECK(both.json("stage") == "2");
  CHECK(both.err.find("c.json does not count beside what accelerate names in "
                      "ACCELERATE_DEEPSPEED_CONFIG_FILE, d.json") != std::string::npos);
}

TEST_CASE("OneCycle trains where its momentum stays, and says so where it would cycle") {
  Folder const folder;
  auto const cycle = [&](std::string const& more, std::string const& optimizer) {
    folder.write(
        "c.json",
        R"({"train_micro_batch_size_per_gpu": 2, "scheduler": {"type": "OneCycle", "params":
      {"cycle_min_lr": 0.001, "cycle_max_lr": 0.01, "cycle_first_step_size": 4)" +
            more + "}}" + optimizer + "}");
    return run_inside(folder, "--config c.json --ranks 2 --steps 8");
  };
  for (std::string const optimizer : {"", R"(, "optimizer": {"type": "AdamW"})"}) {
    Result const still = cycle(R"(, "cycle_momentum": false)", optimizer);
    REQUIRE_MESSAGE(still.code == 0, still.err);
    CHECK(std::stod(still.json("last_loss")) < std::stod(still.json("first_loss")));
    Result const moves = cycle("", optimizer);
    CHECK(moves.code == 2);
    CHECK_MESSAGE(
        moves.err.find("scheduler.params.cycle_momentum: found true") != std::string::npos,
        moves.err);
    CHECK(moves.err.find("false: this program compiles no momentum that cycles") !=
          std::string::npos);
  }
  // There is no beta1 to move in SGD.
  CHECK(cycle("", R"(, "optimizer": {"type": "SGD"})").code == 0);
}

TEST_CASE("a folder for state that a configuration names is refused by its key") {
  Folder const folder;
  for (std::string const section : {"offload_optimizer", "offload_param"}) {
    folder.write("c.json",
                 R"({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW"},
      "zero_optimization": {"stage": 3, ")" +
                     section + R"(": {"device": "nvme", "nvme_path": "/nowhere"}}})");
    Result const refused = run_inside(folder, "--config c.json --ranks 2 --steps 1");
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(refused.out.empty());
    CHECK(refused.err.find("gpt2: zero_optimization." + section + ".nvme_path '/nowhere': ") !=
          std::string::npos);
    CHECK(refused.err.find("--nvme-path") == std::string::npos);
  }
}

#if ZERO_GPT2_CHECKPOINTS
TEST_CASE("a model that stage 3 may not gather is refused by the key before a run trains for it") {
  Folder const folder;
  std::string const key = "stage3_gather_16bit_weights_on_model_save";
  auto const run_at = [&](std::string const& zero_optimization, std::string const& flags) {
    folder.write("c.json", R"({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {)" +
                               zero_optimization + "}}");
    return run_inside(folder, "--config c.json --ranks 2 --steps 2 " + flags);
  };
  std::string const models = "--save models --eval-steps 1 --save-only-model";
  for (std::string const& section :
       {std::string(R"("stage": 3)"), R"("stage": 3, ")" + key + R"(": false)"}) {
    for (auto const& [flag, flags] :
         {std::pair<std::string, std::string>{"--export", "--export model"},
          {"--save-only-model", models},
          {"--export", "--export model " + models}}) {
      INFO(section << " " << flags);
      Result const refused = run_at(section, flags);
      INFO(refused.err);
      CHECK(refused.code == 2);
      CHECK(refused.out.empty());
      CHECK(refused.err.find("gpt2: " + flag + " at stage 3: zero_optimization." + key +
                             " is false") != std::string::npos);
      CHECK(!fs::exists(folder.path / "model"));
      CHECK(!fs::exists(folder.path / "models"));
    }
  }
  // Checkpoints need no whole tensors, stage 2 has them, and the key lets stage 3 gather them.
  CHECK(run_at(R"("stage": 3)", "--save run").code == 0);
  for (std::string const& good :
       {std::string(R"("stage": 2)"), R"("stage": 3, ")" + key + R"(": true)"}) {
    INFO(good);
    Result const made = run_at(good, "--export model " + models);
    INFO(made.err);
    CHECK(made.code == 0);
    CHECK(fs::exists(folder.path / "model/model.safetensors"));
    CHECK(fs::exists(folder.path / "models/step-00000002/model.safetensors"));
    fs::remove_all(folder.path / "model");
    fs::remove_all(folder.path / "models");
  }
}
#endif

TEST_CASE("flags beside what a configuration decides are refused") {
  Folder const folder;
  folder.write("c.json",
               R"({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW"}})");
  folder.write("args.json", R"({"max_steps": 10, "seed": 3})");
  for (std::string const flag :
       {"--stage 1", "--batch 2", "--precision fp32", "--lr 1", "--bucket 1", "--optimizer lion"}) {
    CAPTURE(flag);
    Result const result = run_inside(folder, "--config c.json " + flag);
    CHECK(result.code == 2);
    CHECK(result.err.find(flag.substr(0, flag.find(' ')) + " beside a configuration") !=
          std::string::npos);
  }
  CHECK(run_inside(folder, "--config c.json --arguments args.json --seed 4")
            .err.find("the arguments say seed 3") != std::string::npos);
  CHECK(run_inside(folder, "--config c.json --arguments args.json --steps 4")
            .err.find("max_steps 10") != std::string::npos);
  CHECK(run_inside(folder, "--arguments args.json").err.find("wants --config") !=
        std::string::npos);
  CHECK(run_inside(folder, "--config none.json").code == 2);
}

}  // namespace

#endif
