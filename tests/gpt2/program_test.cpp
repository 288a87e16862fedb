// SPDX-License-Identifier: Apache-2.0
// The program gpt2 from outside: what it refuses, what it prints, and that its runs are the same at
// every stage.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#ifdef ZERO_GPT2_PROGRAM

namespace {

namespace fs = std::filesystem;

std::string read(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> lines(std::string const& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

/// A folder with a text to train on, gone when the test ends.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("gpt2_program_test_" + std::to_string(::getpid()));
  Folder() {
    fs::create_directories(path);
    std::ofstream text(path / "text");
    for (int i = 0; i < 400; ++i) text << "the " << i % 7 << " cats sat on mat " << i % 13 << ".\n";
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() { fs::remove_all(path); }
};

struct Result {
  int status;
  std::string out;
  std::string err;
  std::string last_line() const { return lines(out).empty() ? "" : lines(out).back(); }
  /// The text after "key": in the last line.
  std::string json(std::string const& key) const {
    std::string const line = last_line();
    std::size_t const begin = line.find("\"" + key + "\":");
    REQUIRE(begin != std::string::npos);
    std::size_t const value = begin + key.size() + 3;
    return line.substr(value, line.find_first_of(",}", value) - value);
  }
};

Result run(Folder const& folder, std::string const& flags) {
  std::string const out = (folder.path / "out").string();
  std::string const err = (folder.path / "err").string();
  std::string const command =
      std::string("'") + ZERO_GPT2_PROGRAM + "' " + flags + " >'" + out + "' 2>'" + err + "'";
  int const status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), read(out), read(err)};
}

/// A small model on the folder's text.
std::string small(Folder const& folder) {
  return "--text '" + (folder.path / "text").string() +
         "' --layers 6 --width 16 --heads 2 --context 16 --batch 2 --seed 3 --lr 0.01 --json ";
}

TEST_CASE("every optimizer trains, in fp16 too, to the same bits at stages 0 and 3") {
  Folder const folder;
  std::string const model = "--text '" + (folder.path / "text").string() +
                            "' --layers 2 --width 32 --heads 2 --context 16 --batch 4 --ranks 2 "
                            "--steps 60 --json ";
  std::vector<std::string> hashes;
  for (std::string const optimizer : {"adamw", "adam", "lamb", "lion", "adagrad", "sgd"}) {
    for (std::string const precision : {"fp32", "fp16"}) {
      CAPTURE(optimizer);
      CAPTURE(precision);
      std::string const flags =
          model + "--optimizer " + optimizer + " --precision " + precision + " --stage ";
      Result const sharded = run(folder, flags + "3");
      Result const whole = run(folder, flags + "0");
      REQUIRE(sharded.status == 0);
      REQUIRE(whole.status == 0);
      CHECK(sharded.json("parameters_hash") == whole.json("parameters_hash"));
      // Sixty steps of any of them take off a fifth.
      CHECK(std::stod(sharded.json("last_loss")) < 0.8 * std::stod(sharded.json("first_loss")));
      // The first scale, 65536, is more than these gradients bear.
      CHECK((std::stoi(sharded.json("skipped_steps")) > 0) == (precision == "fp16"));
      for (std::string const& other : hashes) CHECK(other != sharded.json("parameters_hash"));
      hashes.push_back(sharded.json("parameters_hash"));
    }
  }
}

TEST_CASE("what cannot be run is one sentence on stderr and status 2") {
  Folder const folder;
  std::string const short_text = (folder.path / "short").string();
  std::ofstream(short_text) << "too short";
  for (std::string const& flags : std::vector<std::string>{
           "--stage 4", "--nonsense", "--steps", "--width 10 --heads 3", "--metrics run.txt",
           "--text /nowhere/text", "--text '" + folder.path.string() + "'",
           "--text '" + short_text + "'", "--width 65536 --heads 1 --layers 1000",
           small(folder) + "--metrics /nowhere/rows.csv",
           small(folder) + "--ranks 1024 --steps 2"}) {
    INFO(flags);
    Result const result = run(folder, flags);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(lines(result.err).size() == 1);
  }
}

TEST_CASE("--help lists the flags and runs nothing") {
  Folder const folder;
  Result const result = run(folder, "--help");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(result.out.find("--accumulation N") != std::string::npos);
}

TEST_CASE("a run learns, is the same at stages 0 to 3, and its memory is what was planned") {
  Folder const folder;
  for (std::string const precision : {"fp32", "bf16"}) {
    std::vector<Result> stages;
    for (int stage = 0; stage < 4; ++stage) {
      stages.push_back(
          run(folder, small(folder) + "--ranks 2 --steps 12 --accumulation 2 --reduce boundary" +
                          " --precision " + precision + " --stage " + std::to_string(stage)));
      Result const& r = stages.back();
      INFO(r.err << r.last_line());
      REQUIRE(r.status == 0);
      CHECK(r.json("stage") == std::to_string(stage));
      CHECK(r.json("world") == "2");
      CHECK(r.json("steps") == "12");
      CHECK(r.json("skipped_steps") == "0");
      CHECK(r.json("planned_bytes") == r.json("measured_bytes"));
      std::string wire = r.out.substr(r.out.find("planned to send: ") + 17);
      wire.resize(wire.find(' '));
      std::erase(wire, ',');
      CHECK(r.json("wire_elements_per_step") == wire);
      CHECK(std::stod(r.json("last_loss")) < std::stod(r.json("first_loss")) - 1);
      CHECK(std::stod(r.json("validation_loss")) < std::stod(r.json("first_loss")) - 1);
      CHECK(r.out.find("memory plan, a rank") < r.out.find("a sample of what it writes now"));
      for (std::string const key :
           {"first_loss", "last_loss", "validation_loss", "parameters_hash"}) {
        CHECK(r.json(key) == stages[0].json(key));
      }
    }
    CHECK(stages[1].json("wire_elements_per_step") == stages[0].json("wire_elements_per_step"));
    CHECK(stages[2].json("wire_elements_per_step") == stages[0].json("wire_elements_per_step"));
    CHECK(std::stoll(stages[3].json("wire_elements_per_step")) >
          std::stoll(stages[0].json("wire_elements_per_step")));
  }
}

TEST_CASE(
    "offloaded state learns the same: hashes of every tier, bytes as planned in each memory") {
  Folder const folder;
  std::string const flags = small(folder) + "--ranks 2 --steps 6 --stage 3 ";
  Result const whole = run(folder, flags);
  REQUIRE(whole.status == 0);
  CHECK(whole.json("host_bytes") == "0");
  CHECK(whole.json("nvme_bytes") == "0");
  std::string const nvme = "--nvme-path '" + folder.path.string() + "' ";
  for (std::string const tiers :
       {"--offload-optimizer host", "--offload-optimizer host --offload-parameters host",
        "--offload-optimizer nvme --offload-parameters nvme --tile 3000",
        "--offload-optimizer nvme --tile 3000 --files-by threads", "--offload-parameters host",
        "--offload-optimizer nvme --offload-parameters host"}) {
    Result const r = run(folder, flags + nvme + tiers);
    INFO(tiers << r.err << r.last_line());
    REQUIRE(r.status == 0);
    CHECK(r.json("parameters_hash") == whole.json("parameters_hash"));
    CHECK(r.json("validation_loss") == whole.json("validation_loss"));
    CHECK(r.json("planned_bytes") == r.json("measured_bytes"));
    CHECK(std::stoll(r.json("planned_bytes")) < std::stoll(whole.json("planned_bytes")));
    CHECK(std::stoll(r.json("host_bytes")) > 0);
    CHECK((r.json("nvme_bytes") != "0") == (tiers.find("nvme") != std::string::npos));
  }
  Result const second = run(folder, small(folder) + "--ranks 2 --steps 6 --stage 2 ");
  Result const below =
      run(folder, small(folder) + "--ranks 2 --steps 6 --stage 2 --offload-optimizer host");
  CHECK(below.json("parameters_hash") == second.json("parameters_hash"));
  for (auto const& [wrong, said] :
       {std::pair("--stage 0 --offload-optimizer host", "need --stage 1, 2 or 3"),
        std::pair("--stage 2 --offload-parameters host", "needs --stage 3"),
        std::pair("--offload-optimizer nvme", "wants --nvme-path"),
        std::pair("--offload-optimizer host --files-by threads", "is for state on NVMe"),
        std::pair("--offload-optimizer host --optimizer lion", "AdamW and Adam alone")}) {
    Result const r = run(folder, small(folder) + wrong);
    CHECK(r.status == 2);
    CHECK(r.err.find(said) != std::string::npos);
  }
}

TEST_CASE(
    "fp16 learns under a loss scale that overflows, falls and grows, the same at every stage") {
  Folder const folder;
  std::string const rows = (folder.path / "rows.jsonl").string();
  std::string const flags =
      small(folder) + "--ranks 2 --steps 16 --precision fp16 --scheduler warmup-cosine --shifted " +
      "--loss-scale dynamic --loss-scale-power 24 --loss-scale-window 4 --hysteresis 1 --metrics "
      "'" +
      rows + "' --stage ";
  std::vector<Result> stages;
  for (int stage = 0; stage < 4; ++stage) {
    stages.push_back(run(folder, flags + std::to_string(stage)));
    Result const& r = stages.back();
    INFO(r.err << r.last_line());
    REQUIRE(r.status == 0);
    CHECK(r.json("planned_bytes") == r.json("measured_bytes"));
    CHECK(std::stod(r.json("last_loss")) < std::stod(r.json("first_loss")) - 0.5);
    CHECK(r.out.find(", fp16, ") != std::string::npos);
    for (std::string const key :
         {"first_loss", "last_loss", "validation_loss", "parameters_hash", "skipped_steps"}) {
      CHECK(r.json(key) == stages[0].json(key));
    }
    // 2^24 is beyond what these gradients bear: it falls by halves, each a skipped step, and grows.
    int const skipped = std::stoi(r.json("skipped_steps"));
    CHECK(skipped > 0);
    std::vector<double> scales;
    for (std::string const& row : lines(read(rows))) {
      std::size_t const at = row.find("\"loss_scale\":");
      REQUIRE(at != std::string::npos);
      scales.push_back(std::stod(row.substr(at + 13)));
    }
    CHECK(scales.front() == 0x1p24);
    int halved = 0;
    int doubled = 0;
    for (std::size_t i = 1; i < scales.size(); ++i) {
      halved += scales[i] == scales[i - 1] / 2 ? 1 : 0;
      doubled += scales[i] == scales[i - 1] * 2 ? 1 : 0;
    }
    CHECK(halved >= skipped - 1);  // the last step's is not seen any more
    CHECK(doubled > 0);
    CHECK(r.err.find("scale 16777216") != std::string::npos);
  }
}

TEST_CASE("an fp16 run whose scale is at its minimum ends with a sentence that says where") {
  Folder const folder;
  // A rate that throws the weights so far that gradients leave fp16 at any scale.
  std::string flags = small(folder) + "--ranks 2 --steps 60 --precision fp16 --scheduler constant";
  flags.replace(flags.find("--lr 0.01"), 9, "--lr 1000");
  Result const result = run(folder, flags);
  CHECK(result.status == 1);
  CHECK(result.err.find("gpt2: step ") != std::string::npos);
  CHECK(result.err.find("a gradient is not finite at a loss scale of 1, its minimum") !=
        std::string::npos);
}

TEST_CASE("the default GPT's measured peak falls strictly from stage 0 to 3") {
  Folder const folder;
  std::string const flags =
      "--text '" + (folder.path / "text").string() + "' --ranks 2 --stop-after 1 --json --stage ";
  std::vector<long long> peaks;
  for (int stage = 0; stage < 4; ++stage) {
    Result const result = run(folder, flags + std::to_string(stage));
    REQUIRE(result.status == 0);
    CHECK(result.json("planned_bytes") == result.json("measured_bytes"));
    peaks.push_back(std::stoll(result.json("measured_bytes")));
  }
  CHECK(peaks[0] > peaks[1]);
  CHECK(peaks[1] > peaks[2]);
  CHECK(peaks[2] > peaks[3]);
}

TEST_CASE("equal runs are equal, others are not, and prefetch and buckets change nothing") {
  Folder const folder;
  std::string const flags = small(folder) + "--ranks 3 --steps 6 ";
  auto const hash = [&](std::string const& more) {
    return run(folder, flags + more).json("parameters_hash");
  };
  std::string const first = hash("");
  CHECK(hash("") == first);
  CHECK(hash("--prefetch 3 --bucket 5000") == first);
  CHECK(run(folder, small(folder) + "--ranks 3 --steps 7").json("parameters_hash") != first);
  std::string other_seed = flags;
  other_seed.replace(other_seed.find("--seed 3"), 8, "--seed 4");
  CHECK(run(folder, other_seed).json("parameters_hash") != first);
}

TEST_CASE("a run that stops early has made the first steps of the whole run") {
  Folder const folder;
  std::string const rows = (folder.path / "rows.jsonl").string();
  std::string const stopped = (folder.path / "stopped.csv").string();
  Result const whole = run(folder, small(folder) + "--ranks 2 --steps 8 --metrics '" + rows + "'");
  Result const part =
      run(folder, small(folder) + "--ranks 2 --steps 8 --stop-after 3 --metrics '" + stopped + "'");
  REQUIRE(whole.status == 0);
  REQUIRE(part.status == 0);
  CHECK(part.json("steps") == "3");
  CHECK(part.json("first_loss") == whole.json("first_loss"));

  auto const json_rows = lines(read(rows));
  REQUIRE(json_rows.size() == 8);
  CHECK(json_rows[2].find("{\"step\":3,\"loss\":" + part.json("last_loss") + ",") == 0);
  for (std::string const key : {"validation_loss",       "lr",
                                "gradient_norm",         "loss_scale",
                                "skipped_steps",         "tokens_per_s",
                                "model_seconds",         "gather_seconds",
                                "reduce_seconds",        "clip_seconds",
                                "update_seconds",        "publish_seconds",
                                "wire_elements",         "parameters_bytes",
                                "gradients_bytes",       "accumulators_bytes",
                                "optimizer_state_bytes", "gather_slots_bytes",
                                "gradient_slots_bytes",  "tables_bytes",
                                "extra_slots_bytes"}) {
    INFO(key);
    CHECK(json_rows[0].find("\"" + key + "\":") != std::string::npos);
  }
  auto const csv_rows = lines(read(stopped));
  REQUIRE(csv_rows.size() == 4);
  CHECK(csv_rows[0].find("step,loss,validation_loss,lr,") == 0);
  CHECK(csv_rows[3].find("3," + part.json("last_loss") + ",") == 0);
}

TEST_CASE("the last line has exactly the keys that programs read") {
  Folder const folder;
  std::string const line = run(folder, small(folder) + "--ranks 1 --steps 2").last_line();
  std::vector<std::string> keys;
  for (std::size_t at = 0; (at = line.find('"', at)) != std::string::npos;) {
    std::size_t const end = line.find('"', at + 1);
    if (line[end + 1] == ':') keys.push_back(line.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  CHECK(keys == std::vector<std::string>{
                    "stage", "world", "steps", "first_loss", "last_loss", "validation_loss",
                    "tokens_per_s", "planned_bytes", "measured_bytes", "host_bytes", "nvme_bytes",
                    "wire_elements_per_step", "skipped_steps", "parameters_hash"});
}

}  // namespace

#endif
