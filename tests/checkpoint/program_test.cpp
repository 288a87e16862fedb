// SPDX-License-Identifier: Apache-2.0
// The program zero-checkpoint from outside: what it prints, what it refuses, and with which code.
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#ifdef ZERO_CHECKPOINT_PROGRAM

namespace {

using namespace checkpoints;
namespace fs = std::filesystem;

std::string read(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Result {
  int code;
  std::string out;
  std::string err;
};
Result run(Folder const& folder, std::string const& arguments) {
  std::string const command = "cd '" + folder.path() + "' && '" + ZERO_CHECKPOINT_PROGRAM + "' " +
                              arguments + " >out 2>err";
  int const status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(folder / "out"), read(folder / "err")};
}

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// Two checkpoints in "run": after one step and after two.
void save_two(Folder const& folder, Setup const& setup) {
  on_ranks(setup, [&](AnyTrainer& trainer) {
    for (int s = 0; s < 2; ++s) {
      trainer.step(s);
      trainer.save(folder / "run", {.data = {1, 20}, .user = {{"note", "mine"}}});
    }
  });
}

Setup const setup{
    .stage = 3, .world = 2, .storage = Storage::mixed, .units = zero_test::frozen_parts().units};

}  // namespace

TEST_CASE("inspect says what a checkpoint says of itself") {
  Folder const folder;
  save_two(folder, setup);
  Result const result = run(folder, "inspect run");
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  for (std::string const line :
       {"folder\trun/step-00000002", "step\t2", "world\t2", "stage\t3", "precision\tbf16",
        "optimizer\tAdamW", "optimizer.lr\t0.03", "data.epoch\t1", "data.samples\t20",
        "user\t{\"note\":\"mine\"}", "tensor\tb.w\t19\ttrained", "tensor\tb.f\t71\tfrozen"})
    CHECK(has("\n" + result.out, "\n" + line + "\n"));
  CHECK(has(run(folder, "inspect run/step-00000001").out, "\nstep\t1\n"));
}

TEST_CASE(
    "verify is 0, or 2 with file and reason, and leftovers of a save that was killed are ignored") {
  Folder const folder;
  save_two(folder, setup);
  fs::create_directories(folder / "run/.saving-step-00000003");
  std::ofstream(folder / "run/.saving-step-00000003/rank-0-of-2.safetensors") << "half";
  std::ofstream(folder / "run/.latest.saving") << "step-000";
  Result result = run(folder, "verify run");
  CHECK(result.code == 0);
  CHECK(result.out == "run/step-00000002\tok\nrun/step-00000001\tok\n");
  CHECK(run(folder, "verify run/step-00000001").code == 0);

  std::string const file = folder / "run/step-00000001/rank-1-of-2.safetensors";
  std::string text = read(file);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 16);
  std::ofstream(file, std::ios::binary) << text;
  for (std::string const dir : {"run", "run/step-00000001"}) {
    result = run(folder, "verify " + dir);
    CHECK(result.code == 2);
    CHECK(has(result.err, "'run/step-00000001/rank-1-of-2.safetensors' is damaged"));
  }
  CHECK(run(folder, "verify run/step-00000002").code == 0);
  CHECK(run(folder, "verify nowhere").code == 2);
  fs::remove(file);
  CHECK(run(folder, "verify run").code == 2);
}

TEST_CASE("diff: 0 for the same bits at any world, 1 with what differs") {
  Folder const folder;
  save_two(folder, setup);
  Setup other = setup;
  other.stage = 1;
  other.world = 4;
  on_ranks(other, [&](AnyTrainer& trainer) {
    trainer.load(folder / "run", {});
    trainer.save(folder / "other", {});
  });
  Result result = run(folder, "diff run other");
  CHECK(result.out.empty());
  CHECK(result.code == 0);
  result = run(folder, "diff run run/step-00000001");
  CHECK(result.code == 1);
  CHECK(has(result.out, "step\t2\t1\n"));
  CHECK(has(result.out, "master of b.w\t19 elements\t19 of them differ\n"));
  CHECK(!has(result.out, "parameter of b.f"));
  CHECK(run(folder, "diff run nowhere").code == 2);
}

TEST_CASE("reshard: the same bits in other files, which every world loads") {
  Folder const folder;
  save_two(folder, setup);
  for (int world : {1, 3, 8}) {
    std::string const out = "out" + std::to_string(world);
    Result const result = run(folder, "reshard run " + out + " --world " + std::to_string(world));
    CHECK(result.code == 0);
    CHECK(result.out == out + "/step-00000002\n");
    CHECK(run(folder, "verify " + out).code == 0);
    CHECK(run(folder, "diff run " + out).code == 0);
    CHECK(has(run(folder, "inspect " + out).out, "\nworld\t" + std::to_string(world) + "\n"));
    CHECK(std::distance(fs::directory_iterator(folder / (out + "/step-00000002")), {}) ==
          world + 1);
  }
  CHECK(run(folder, "reshard run out --world 0").code == 2);
}

TEST_CASE("export and import: the weights go out and come back") {
  Folder const folder;
  save_two(folder, setup);
  CHECK(run(folder, "export run model --dtype fp32").code == 0);
  CHECK(run(folder, "import model back").code == 0);
  CHECK(run(folder, "verify back").code == 0);
  CHECK(has(run(folder, "inspect back").out, "\noptimizer\tnone\n"));
  Canonical const saved = state_after(setup, [&](AnyTrainer& t) { t.load(folder / "run", {}); });
  Canonical const found = state_after(setup, [&](AnyTrainer& t) {
    t.load(folder / "back", {.parts = zero::LoadedParts::weights});
  });
  for (auto const& [key, bits] : saved)
    if (!key.starts_with("state.")) CHECK(found.at(key) == bits);
  CHECK(run(folder, "export run short").code == 0);  // bf16, as the parameters are
  CHECK(fs::file_size(folder / "short/model.safetensors") <
        fs::file_size(folder / "model/model.safetensors"));
  CHECK(run(folder, "export run model --dtype int8").code == 2);
}

TEST_CASE("a command that cannot be is one sentence and 2") {
  Folder const folder;
  for (std::string const arguments :
       {"", "destroy x", "verify", "verify a b", "diff a", "verify run --fast 1", "reshard a b",
        "reshard a b --world x", "export a b --dtype"}) {
    CAPTURE(arguments);
    Result const result = run(folder, arguments);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
  CHECK(run(folder, "--help").code == 0);
  CHECK(has(run(folder, "--help").out, "reshard DIR OUT --world N"));
}

#endif
