// SPDX-License-Identifier: Apache-2.0
// The program gpt2 from outside: what it prints, and that its runs are the same at every stage.
#include <doctest/doctest.h>
#include <gpt2/program.hpp>

#include <chrono>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#ifdef ZERO_GPT2_PROGRAM

namespace {

using gpt2_program::Folder;
using gpt2_program::lines;
using gpt2_program::read;
using gpt2_program::Result;
using gpt2_program::run;
using gpt2_program::small;
using gpt2_program::value_of;

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
      CHECK(r.json("wire_elements_per_step") == r.planned_wire());
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
  CHECK(result.out.find("memory plan, a rank") != std::string::npos);  // before anything failed
  CHECK(result.out.find("optimizer state") != std::string::npos);
  CHECK(result.out.find("a sample of what it writes now") == std::string::npos);
}

TEST_CASE("what is for GPUs alone is refused on the host, before the plan") {
  Folder const folder;
  Result const result = run(folder, small(folder) + "--ranks 2 --steps 2 --recompute block");
  CHECK(result.status == 2);
  CHECK(result.err == "gpt2: --recompute is for GPUs, with --device cuda\n");
  CHECK(result.out.empty());
}

TEST_CASE("the default GPT's plan is printed, and its measured peak falls strictly by stage") {
  Folder const folder;
  std::string const flags =
      "--text '" + (folder.path / "text").string() + "' --ranks 2 --stop-after 1 --json --stage ";
  std::vector<long long> peaks;
  std::vector<std::string> printed_plan;  // the last run's, blanks aside
  for (int stage = 0; stage < 4; ++stage) {
    Result const result = run(folder, flags + std::to_string(stage));
    REQUIRE(result.status == 0);
    CHECK(result.json("planned_bytes") == result.json("measured_bytes"));
    peaks.push_back(std::stoll(result.json("measured_bytes")));
    printed_plan.clear();
    for (std::string const& line : lines(result.out)) {
      std::string words;
      std::istringstream in(line);
      for (std::string word; in >> word;) words += (words.empty() ? "" : " ") + word;
      bool const begins = words.find("memory plan") == 0;
      bool const ruler = words.find_first_not_of('-') == std::string::npos;
      if ((begins || !printed_plan.empty()) && !ruler && printed_plan.size() < 6)
        printed_plan.push_back(words);
    }
  }
  CHECK(printed_plan == std::vector<std::string>{
                            "memory plan, a rank stage 0 stage 1 stage 2 > stage 3",
                            // 1,239,040 elements of 2 bytes; two ranks share them at stage 3
                            "parameters 2.36 MiB 2.36 MiB 2.36 MiB 1.18 MiB",
                            "gradients 2.36 MiB 2.36 MiB 1.18 MiB 1.18 MiB", "accumulators - - - -",
                            // of 12 bytes: master weights and two states; shared from stage 1
                            "optimizer state 14.2 MiB 7.09 MiB 7.09 MiB 7.09 MiB",
                            // two blocks of 198,272 elements and the last norm's 256, of 2 bytes
                            "gather slots - - - 775 KiB"});
  CHECK(peaks[0] > peaks[1]);
  CHECK(peaks[1] > peaks[2]);
  CHECK(peaks[2] > peaks[3]);
}

TEST_CASE("a rank's products run on one thread, however many OpenBLAS would take") {
  Folder const folder;
  std::string const seen = (folder.path / "threads").string();
  Result const r =
      run(folder, small(folder) + "--ranks 2 --steps 2",
          "OPENBLAS_NUM_THREADS=4 BLAS_PROBE='" + seen + "' LD_PRELOAD='" ZERO_GPT2_BLAS_PROBE "'");
  INFO(r.err);
  REQUIRE(r.status == 0);
  CHECK(read(seen) == "1\n");  // of the first product, and of none another
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

TEST_CASE("a row of --metrics is what its step did: rate, time by phase, wire, memory by kind") {
  Folder const folder;
  std::string const path = (folder.path / "rows.jsonl").string();
  for (int stage = 0; stage < 4; ++stage) {
    auto const start = std::chrono::steady_clock::now();
    Result const r = run(folder, small(folder) + "--ranks 2 --steps 20 --stage " +
                                     std::to_string(stage) + " --metrics '" + path + "'");
    std::chrono::duration<double> const wall = std::chrono::steady_clock::now() - start;
    REQUIRE(r.status == 0);
    auto const rows = lines(read(path));
    REQUIRE(rows.size() == 20);
    double seconds_of_all = 0;
    for (int step = 1; step <= 20; ++step) {
      std::string const& row = rows[static_cast<std::size_t>(step - 1)];
      INFO(row);
      auto const number = [&](std::string const& key) { return std::stod(value_of(row, key)); };
      CHECK(number("step") == step);
      CHECK(number("gradient_norm") > 0);
      CHECK(number("loss_scale") == 1);
      CHECK(number("skipped_steps") == 0);
      // Two steps of warm-up from 0, then down over eighteen, in float: two roundings of 2^-24.
      double const factor = step <= 2 ? (step - 1) / 2.0 : (21 - step) / 18.0;
      CHECK(number("lr") == doctest::Approx(0.01 * factor).epsilon(0x1p-22));

      CHECK(value_of(row, "wire_elements") == r.planned_wire());
      CHECK(value_of(row, "wire_elements") == r.json("wire_elements_per_step"));
      long long bytes = 0;
      for (std::string const kind : {"parameters", "gradients", "accumulators", "optimizer_state",
                                     "gather_slots", "gradient_slots", "tables", "extra_slots"}) {
        long long const own = std::stoll(value_of(row, kind + "_bytes"));
        bool const sharded_only = kind == "gather_slots" || kind == "gradient_slots";
        bool const none = kind == "accumulators" || kind == "extra_slots" ||
                          (sharded_only && stage < (kind == "gather_slots" ? 3 : 2));
        CHECK((own == 0) == none);
        bytes += own;
      }
      // Nothing comes or goes after the first step: what is there now is the peak.
      CHECK(std::to_string(bytes) == r.json("measured_bytes"));

      double const seconds = 2 * 2 * 16 / number("tokens_per_s");  // two ranks of two samples
      double sum = 0;
      for (std::string const phase : {"model", "gather", "reduce", "clip", "update", "publish"}) {
        double const own = number(phase + "_seconds");
        INFO(phase);
        if (phase == "gather") {
          CHECK((own > 0) == (stage == 3));
        } else if (phase == "publish") {  // at stage 3 its call has nothing to do
          CHECK(own >= 0);
          CHECK((own > 0 || stage == 0 || stage == 3));
        } else {
          CHECK(own > 0);
        }
        sum += own;
      }
      CHECK(sum <= seconds * (1 + 1e-9));  // a dozen roundings of doubles
      CHECK(sum > seconds / 2);
      seconds_of_all += seconds;
    }
    CHECK(seconds_of_all < wall.count());
  }
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

TEST_CASE("memory that is to be locked if it can be, and cannot, is told") {
  Folder const folder;
  std::string const flags =
      "--text " + (folder.path / "text").string() +
      " --layers 2 --width 32 --heads 2 --context 16 --steps 2 --ranks 2 --batch 2 --stage 3 "
      "--offload-optimizer host --json --pin-memory ";
  std::string const warning = "warning: --pin-memory try: ";
  Result const may = run(folder, flags + "try");
  REQUIRE_MESSAGE(may.status == 0, may.err);
  // Root locks what it likes, unless that is taken from it.
  std::string const bound = "ulimit -l 64; setpriv --bounding-set -ipc_lock";
  if (std::system((bound + " true >/dev/null 2>&1").c_str()) != 0) {
    MESSAGE("skipped: there is no setpriv, or it may take nothing away");
    return;
  }
  Result const told = run(folder, flags + "try", bound);
  REQUIRE_MESSAGE(told.status == 0, told.err);
  CHECK_MESSAGE(told.err.find(warning) != told.err.npos, told.err);
  CHECK(told.err.find("bytes of host memory a rank are locked; the system's limit (ulimit -l) "
                      "allows no more\n") != told.err.npos);
  CHECK(told.json("parameters_hash") == may.json("parameters_hash"));
  Result const not_asked = run(folder, flags + "no", bound);
  CHECK(not_asked.status == 0);
  CHECK(not_asked.err.find(warning) == not_asked.err.npos);
  Result const demanded = run(folder, flags + "yes", bound);
  CHECK(demanded.status == 1);
  CHECK_MESSAGE(demanded.err.find("RLIMIT_MEMLOCK") != demanded.err.npos, demanded.err);
}

}  // namespace

#endif
