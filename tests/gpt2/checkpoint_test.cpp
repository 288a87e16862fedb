// SPDX-License-Identifier: Apache-2.0
// Runs of the program gpt2 that are stopped and go on: the bits of the run that never stopped, and
// the same run at another world and stage.
#include <doctest/doctest.h>
#include <gpt2/program.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>

#if defined(ZERO_GPT2_PROGRAM) && ZERO_GPT2_CHECKPOINTS

namespace {

namespace fs = std::filesystem;
using gpt2_program::Folder;
using gpt2_program::read;

struct Result {
  int status;
  std::string out;
  std::string err;
  std::string json(std::string const& key) const {
    std::size_t const line = out.rfind("{\"stage\"");
    REQUIRE(line != std::string::npos);
    std::size_t const value = out.find("\"" + key + "\":", line) + key.size() + 3;
    return out.substr(value, out.find_first_of(",}", value) - value);
  }
};

std::string command_of(std::string const& flags) {
  return std::string("'") + ZERO_GPT2_PROGRAM + "' --text text --layers 2 --width 16 --heads 2 " +
         "--context 16 --seed 3 --json " + flags;
}

Result run_inside(Folder const& folder, std::string const& flags) {
  std::string const command =
      "cd '" + folder.path.string() + "' && " + command_of(flags) + " >out 2>err";
  int const status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), read(folder.path / "out"), read(folder.path / "err")};
}

std::string latest(Folder const& folder, std::string const& dir) {
  std::string text = read(folder.path / dir / "latest");
  text.resize(text.find('\n'));
  return text;
}

/// A run that gets SIGTERM after its first steps, of so many that it would not end by itself.
Result terminated(Folder const& folder, std::string const& flags) {
  std::string const command = "cd '" + folder.path.string() + "' && exec " +
                              command_of("--ranks 2 --batch 2 --steps 100000 " + flags) +
                              " >out 2>err";
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  while (read(folder.path / "err").find("step") == std::string::npos) ::usleep(10000);
  ::kill(child, SIGTERM);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), read(folder.path / "out"), read(folder.path / "err")};
}

}  // namespace

TEST_CASE("a run that stops and goes on ends with the bits of the run that never stopped") {
  Folder const folder;
  for (std::string const precision : {"fp32", "bf16", "fp16"}) {
    for (std::string const stage : {"0", "1", "2", "3"}) {
      std::string const flags =
          "--ranks 2 --batch 2 --steps 9 --precision " + precision + " --stage " + stage + " ";
      Result const whole = run_inside(folder, flags);
      fs::remove_all(folder.path / "run");
      Result const first = run_inside(folder, flags + "--stop-after 4 --save run");
      Result const rest = run_inside(folder, flags + "--resume run");
      REQUIRE(whole.status == 0);
      REQUIRE(first.status == 0);
      INFO(rest.err);
      REQUIRE(rest.status == 0);
      CHECK(rest.json("parameters_hash") == whole.json("parameters_hash"));
      CHECK(rest.json("last_loss") == whole.json("last_loss"));
      CHECK(rest.json("skipped_steps") == whole.json("skipped_steps"));
      CHECK(first.json("parameters_hash") != whole.json("parameters_hash"));
    }
  }
}

TEST_CASE("resumed where it was stopped, a run trains nothing and says what was loaded") {
  Folder const folder;
  std::string const flags = "--ranks 2 --batch 2 --steps 9 --stop-after 4 ";
  Result const first = run_inside(folder, flags + "--save run");
  for (std::string const other :
       {"--stage 3 --ranks 2", "--stage 1 --ranks 4", "--stage 0 --ranks 1"}) {
    Result const again =
        run_inside(folder, "--batch 2 --steps 9 --stop-after 4 --resume run " + other);
    INFO(again.err);
    REQUIRE(again.status == 0);
    CHECK(again.json("parameters_hash") == first.json("parameters_hash"));
    CHECK(again.json("first_loss") == "null");
    CHECK(again.json("last_loss") == "null");
    CHECK(again.json("steps") == "4");
    std::string const says =
        "nothing was trained: the checkpoint is at step 4, and this run ends there";
    CHECK(again.out.find(says) != again.out.npos);
    CHECK(first.out.find("nothing was trained") == first.out.npos);
  }
}

TEST_CASE(
    "another world and stage go on with the samples that come next, in the middle of an epoch") {
  // Two ranks of two samples and four ranks of one take the same samples a step; 9 steps of 4
  // samples of 16 bytes go through several epochs of the text of the test only with a large batch.
  Folder const folder;
  std::string const flags = "--steps 40 --precision fp32 ";
  Result const whole = run_inside(folder, "--ranks 2 --batch 16 --stage 1 " + flags);
  Result const first =
      run_inside(folder, "--ranks 2 --batch 16 --stage 1 --stop-after 17 --save run " + flags);
  Result const rest = run_inside(folder, "--ranks 4 --batch 8 --stage 3 --resume run " + flags);
  REQUIRE(whole.status == 0);
  REQUIRE(first.status == 0);
  INFO(rest.err);
  REQUIRE(rest.status == 0);
  // The same sums in another order: a few roundings of a loss of some units, grown over 23 steps.
  CHECK(std::abs(std::stod(rest.json("last_loss")) - std::stod(whole.json("last_loss"))) < 1e-3);
}

TEST_CASE("save-every and save-total-limit: what stays, and what latest names") {
  Folder const folder;
  Result const result = run_inside(
      folder, "--ranks 2 --batch 2 --steps 7 --save run --save-every 2 --save-total-limit 2");
  REQUIRE(result.status == 0);
  CHECK(latest(folder, "run") == "step-00000007");
  CHECK(fs::exists(folder.path / "run/step-00000006/manifest.json"));
  CHECK(!fs::exists(folder.path / "run/step-00000004"));
}

TEST_CASE("SIGTERM saves, then ends") {
  Folder const folder;
  Result const ended = terminated(folder, "--save run");
  CHECK(ended.status == 0);
  Result const again = run_inside(folder, "--ranks 2 --batch 2 --steps 100000 --stop-after " +
                                              ended.json("steps") + " --resume run");
  REQUIRE(again.status == 0);
  CHECK(again.json("parameters_hash") == ended.json("parameters_hash"));
}

TEST_CASE("SIGTERM before the first evaluation saves what the run keeps, and ends it well") {
  Folder const folder;
  Result const full = terminated(folder, "--save run --eval-steps 100000 --load-best-model-at-end");
  INFO(full.err);
  CHECK(full.status == 0);
  CHECK(fs::exists(folder.path / "run" / latest(folder, "run") / "manifest.json"));
  fs::remove(folder.path / "err");
  Result const models = terminated(folder, "--save models --eval-steps 100000 --save-only-model");
  INFO(models.err);
  REQUIRE(models.status == 0);
  std::string best = read(folder.path / "models/best");
  best.resize(best.find('\n'));
  CHECK(std::stoi(best.substr(5)) == std::stoi(models.json("steps")));
  CHECK(fs::exists(folder.path / "models" / best / "model.safetensors"));
}

TEST_CASE("evaluations keep the best checkpoint and end with it") {
  Folder const folder;
  std::string const flags = "--ranks 2 --batch 2 --steps 12 ";
  Result const best = run_inside(folder, flags +
                                             "--save run --eval-steps 3 --save-total-limit 1 "
                                             "--load-best-model-at-end");
  INFO(best.err);
  REQUIRE(best.status == 0);
  std::string name = read(folder.path / "run/best");
  name.resize(name.find('\n'));
  Result const loaded =
      run_inside(folder, "--ranks 2 --batch 2 --steps 12 --stop-after " +
                             std::to_string(std::stoi(name.substr(5))) + " --resume run/" + name);
  REQUIRE(loaded.status == 0);
  CHECK(loaded.json("parameters_hash") == best.json("parameters_hash"));

  Result const models =
      run_inside(folder, flags + "--save models --eval-steps 6 --save-only-model");
  REQUIRE(models.status == 0);
  CHECK(fs::exists(folder.path / "models/step-00000012/model.safetensors"));
  CHECK(fs::exists(folder.path / "models/step-00000012/config.json"));
  CHECK(!fs::exists(folder.path / "models/step-00000012/manifest.json"));
  // The last step is kept, whether an evaluation was due there or not.
  REQUIRE(run_inside(folder, flags + "--save last --eval-steps 8 --save-only-model").status == 0);
  CHECK(fs::exists(folder.path / "last/step-00000008/model.safetensors"));
  CHECK(fs::exists(folder.path / "last/step-00000012/model.safetensors"));
}

TEST_CASE("a model is exported, and a run begins with it") {
  Folder const folder;
  Result const first =
      run_inside(folder, "--ranks 2 --batch 2 --steps 3 --precision fp32 --stage 3 --export model");
  REQUIRE(first.status == 0);
  Result const imported =
      run_inside(folder,
                 "--ranks 3 --batch 2 --steps 3 --stop-after 1 --precision fp32 "
                 "--stage 2 --import model --optimizer sgd --lr 0");
  INFO(imported.err);
  REQUIRE(imported.status == 0);
  CHECK(imported.json("parameters_hash") == first.json("parameters_hash"));
}

TEST_CASE("what cannot be resumed ends with a sentence, never with a fresh start") {
  Folder const folder;
  std::string const flags = "--ranks 2 --batch 2 --steps 4 ";
  REQUIRE(run_inside(folder, flags + "--save run").status == 0);
  // What a trainer has to be built for is found when the plan is out.
  for (auto const& [more, part, status] :
       {std::tuple<std::string, std::string, int>{
            "--resume nowhere", "looking for a checkpoint in 'nowhere' failed", 2},
        {"--resume run --stop-after 2", "is at step 4, and this run ends after step 2", 2},
        {"--resume run --optimizer lion", "the checkpoint has AdamW, the trainer Lion", 1},
        {"--import run", "has neither model.safetensors nor", 2},
        {"--save run/" + latest(folder, "run"), "is a checkpoint itself", 2},
        {"--export run/" + latest(folder, "run"), "is a checkpoint itself", 2},
        {"--save new --export new/step-00000004", "keeps 'step-00000004' for a checkpoint", 2}}) {
    Result const result = run_inside(folder, flags + more);
    INFO(result.err);
    CHECK(result.status == status);
    CHECK(result.err.find(part) != std::string::npos);
    CHECK(result.out.empty() == (status == 2));
    CHECK((result.out.find("memory plan, a rank") != std::string::npos) == (status == 1));
  }
  for (std::string const wrong :
       {"--save-every 2", "--save run --save-only-model", "--resume run --import run",
        "--save run --eval-steps 2 --save-only-model --load-best-model-at-end",
        "--save run --save-every 2 --eval-steps 2", "--save-total-limit 0"}) {
    Result const result = run_inside(folder, flags + wrong);
    INFO(wrong);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
  }
}

#endif
