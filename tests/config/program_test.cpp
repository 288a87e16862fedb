// SPDX-License-Identifier: Apache-2.0
// The program zero-config from outside: what it prints, what it refuses, and with which code.
#include <config/loading.hpp>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#ifdef ZERO_CONFIG_PROGRAM

namespace {

using namespace config_test;
namespace fs = std::filesystem;

std::string read(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::vector<std::string> lines(std::string const& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}
std::vector<std::string> fields(std::string const& line) {
  std::vector<std::string> result;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) result.push_back(field);
  return result;
}

/// A folder that is the program's working directory, gone when the test ends.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("zero_config_program_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() { fs::remove_all(path); }
  void write(std::string const& name, std::string const& text) const {
    std::ofstream(path / name) << text;
  }
};

struct Result {
  int code;
  std::string out;
  std::string err;
};
Result run(Folder const& folder, std::string const& arguments, std::string const& input = "",
           std::string const& out = "out") {
  folder.write("input", input);
  std::string const command = "cd '" + folder.path.string() + "' && '" + ZERO_CONFIG_PROGRAM +
                              "' " + arguments + " <input >" + out + " 2>err";
  int const status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(folder.path / "out"),
          read(folder.path / "err")};
}
std::string case_file(std::string const& name) {
  return "'" + (cases_folder() / name).string() + "'";
}

constexpr char const* arguments_json =
    R"({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
  "learning_rate": 5e-5, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "weight_decay": 0.01,
  "max_grad_norm": 1.0, "bf16": true, "hidden_size": 1024, "warmup_steps": 100, "max_steps": 1000})";

TEST_CASE("check prints the resolved configuration as JSON, warnings on the error stream") {
  Folder const folder;
  folder.write("args.json", arguments_json);
  Result const result = run(folder, "check " + case_file("s04_seed_stage3_offload.json") +
                                        " --world 2 --arguments args.json");
  REQUIRE_MESSAGE(result.code == 0, result.err);
  boost::json::object const json = boost::json::parse(result.out).as_object();
  CHECK(json.at("world_size") == 2);
  CHECK(json.at("train_batch_size") == 16);
  CHECK(json.at("train_micro_batch_size_per_gpu") == 4);
  CHECK(json.at("gradient_accumulation_steps") == 2);
  CHECK(json.at("precision") == "bf16");
  CHECK(json.at("gradient_clipping") == 1.0);
  boost::json::object const& zero = json.at("zero_optimization").as_object();
  CHECK(zero.at("stage") == 3);
  CHECK(zero.at("offload_optimizer").at("device") == "cpu");
  CHECK(zero.at("offload_param").at("device") == "cpu");
  CHECK(zero.at("reduce_bucket_size") == 1048576);
  CHECK(zero.at("allgather_bucket_size") == 500000000);
  CHECK(zero.at("stage3_prefetch_bucket_size") == 943718);
  CHECK(zero.at("stage3_param_persistence_threshold") == 10240);
  CHECK(json.at("optimizer").at("type") == "AdamW");
  CHECK(json.at("scheduler").at("type") == "linear");
  for (std::string const& line : lines(result.err)) CHECK(line.starts_with("warning: "));
  CHECK(result.err.find("contiguous_gradients") != std::string::npos);
}

TEST_CASE("check says with --explain what each value came from") {
  Folder const folder;
  folder.write("args.json", arguments_json);
  Result const result = run(folder, "check " + case_file("s04_seed_stage3_offload.json") +
                                        " --world=2 --arguments=args.json --explain");
  REQUIRE(result.code == 0);
  boost::json::object const explain = boost::json::parse(result.out).at("explain").as_object();
  CHECK(explain.at("zero_optimization.stage") == "file");
  CHECK(explain.at("zero_optimization.sub_group_size") == "default");
  CHECK(explain.at("gradient_clipping") == "arguments: max_grad_norm");
  CHECK(explain.at("zero_optimization.reduce_bucket_size") ==
        "hidden_size^2 with hidden_size 1024");
}

TEST_CASE("check refuses with code 2 and one line a problem") {
  Folder const folder;
  Result const result =
      run(folder, "check " + case_file("w15_bf16_with_loss_scale_keys.json") + " --world 2");
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  std::vector<std::string> const said = lines(result.err);
  CHECK(said.size() == 5);
  for (std::string const& line : said) {
    CHECK(line.starts_with("bf16."));
    CHECK(line.find(": found ") != std::string::npos);
    CHECK(line.find("; expected ") != std::string::npos);
  }
}

TEST_CASE("check is strict unless it is told to be relaxed") {
  Folder const folder;
  folder.write("c.json", "{ # one\n\"train_micro_batch_size_per_gpu\": 1, // two\n}");
  Result const strict = run(folder, "check c.json");
  CHECK(strict.code == 2);
  CHECK(strict.err.starts_with("line 1, column 3: found #"));
  CHECK(run(folder, "check c.json --relaxed").code == 0);
}

TEST_CASE("problems of the arguments and of the file come together, each with its own path") {
  Folder const folder;
  folder.write("c.json", with(R"("gradient_clipping": "auto", "zero_optimization": {"stage": 9})"));
  auto const said = [&](std::string const& arguments) {
    folder.write("a.json", arguments);
    Result const result = run(folder, "check c.json --arguments a.json");
    CHECK(result.code == 2);
    return lines(result.err);
  };
  std::vector<std::string> const wrong = said(R"({"max_grad_norm": -1})");
  REQUIRE(wrong.size() == 2);
  CHECK(wrong[0].starts_with("arguments.max_grad_norm: found -1"));
  CHECK(wrong[1].starts_with("zero_optimization.stage: found 9"));
  std::vector<std::string> const broken = said("{'a': 1}");
  REQUIRE(broken.size() == 2);
  CHECK(broken[0].starts_with("arguments, line 1, column 2: found '"));
}

TEST_CASE("output that does not arrive is code 2") {
  if (!fs::exists("/dev/full")) return;
  Folder const folder;
  folder.write("c.json", with(""));
  Result const result = run(folder, "check c.json", "", "/dev/full");
  CHECK(result.code == 2);
  CHECK(result.err.find("the output is cut short") != std::string::npos);
}

TEST_CASE("keys prints the table") {
  Folder const folder;
  Result const result = run(folder, "keys");
  REQUIRE(result.code == 0);
  std::vector<std::string> const rows = lines(result.out);
  CHECK(rows.size() == zero::all_keys().size() + 1);
  for (std::string const& row : rows) CHECK(fields(row).size() == 4);
  CHECK(result.out.find("\nzero_optimization.stage\thonoured\t0\tSharded<stage>\n") !=
        std::string::npos);
  CHECK(result.out.find("\nzero_optimization.zero_quantized_weights\trefused\tfalse\t") !=
        std::string::npos);
}

TEST_CASE("schedule prints what each update uses, 17 digits") {
  Folder const folder;
  folder.write("c.json",
               with(R"("optimizer": {"type": "AdamW"}, "scheduler": {"type": "OneCycle", "params":
    {"cycle_min_lr": 0.25, "cycle_max_lr": 1, "cycle_first_step_size": 3}})"));
  Result const result = run(folder, "schedule c.json --steps 7");
  REQUIRE_MESSAGE(result.code == 0, result.err);
  std::vector<std::string> const rows = lines(result.out);
  REQUIRE(rows.size() == 8);
  CHECK(rows[0] == "step\tlr\tbeta1\tbeta2");
  double const rates[] = {0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25};
  double const momenta[] = {0.8, 0.9 - 0.1 / 3, 0.9 - 0.2 / 3, 0.8, 0.9 - 0.2 / 3, 0.9 - 0.1 / 3,
                            0.9};
  for (std::size_t t = 1; t <= 7; ++t) {
    std::vector<std::string> const row = fields(rows[t]);
    REQUIRE(row.size() == 4);
    CHECK(row[0] == std::to_string(t));
    CHECK(std::stod(row[1]) == doctest::Approx(rates[t - 1]).epsilon(1e-15));
    CHECK(std::stod(row[2]) == doctest::Approx(momenta[t - 1]).epsilon(1e-15));
    CHECK(row[3] == "0.98999999999999999");
  }
  folder.write("d.json", with(R"("optimizer": {"type": "SGD", "params": {"lr": 0.1}})"));
  CHECK(lines(run(folder, "schedule d.json --steps 1").out)[1] == "1\t0.10000000000000001\t-\t-");
  folder.write("e.json", with(""));
  CHECK(run(folder, "schedule e.json --steps 1")
            .err.starts_with("optimizer.params.lr: found nothing"));
}

TEST_CASE(
    "loss-scale prints the moves of the scale, and ends where an overflow meets the minimum") {
  Folder const folder;
  folder.write(
      "c.json",
      with(
          R"("fp16": {"enabled": true, "initial_scale_power": 1, "loss_scale_window": 1, "hysteresis": 2})"));
  Result const result = run(folder, "loss-scale c.json --overflows 0,0,1,1,1,1,0");
  CHECK(result.code == 2);
  CHECK(result.out ==
        "step\tused\taction\tafter\n"
        "0\t2\tstep\t2\n"
        "1\t2\tstep+grow\t4\n"
        "2\t4\tskip+hysteresis\t4\n"
        "3\t4\tskip+halve\t2\n"
        "4\t2\tskip+halve\t1\n"
        "5\t1\terror\t1\n");
  CHECK(result.err.starts_with("fp16.min_loss_scale: found an overflow at the scale 1 in step 5"));
  folder.write("d.json", with(R"("fp16": {"enabled": true, "loss_scale": 8})"));
  CHECK(run(folder, "loss-scale d.json --overflows 1,0").out ==
        "step\tused\taction\tafter\n0\t8\tskip\t8\n1\t8\tstep\t8\n");
  folder.write("e.json", with(""));
  CHECK(run(folder, "loss-scale e.json --overflows 1")
            .err.starts_with("precision: found fp32; expected fp16"));
  for (std::string const bad : {"", "2", "1,", "1 0", ",1"})
    CHECK(run(folder, "loss-scale c.json '--overflows=" + bad + "'").code == 2);
}

TEST_CASE("plan prints bytes by kind, and recommends the lowest stage that fits") {
  Folder const folder;
  // 512 elements a unit at 2 ranks need no padding; bucket and prefetch of one unit.
  folder.write(
      "c.json",
      with(
          R"("optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 1, "reduce_bucket_size": 512,
    "stage3_prefetch_bucket_size": 512, "stage3_param_persistence_threshold": 0})"));
  std::string const model = " --parameters 5120 --largest-unit 512 --units 10 --world 2";
  Result const result = run(folder, "plan c.json" + model);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  auto const row = [&](std::string const& kind) {
    for (std::string const& line : lines(result.out)) {
      if (fields(line)[0] == kind) return std::stoll(fields(line)[1]);
    }
    return -1LL;
  };
  CHECK(row("parameters") == 5120 * 4);
  CHECK(row("gradients") == 5120 * 4);
  CHECK(row("optimizer state") == 5120 / 2 * 2 * 4);
  CHECK(row("wire elements a step") == 2 * 5120 / 2);
  CHECK(row("total") ==
        row("parameters") + row("gradients") + row("optimizer state") + row("tables"));

  // What a device's kernels need is a table, up to a multiple of 256 bytes.
  long long const total = row("total");
  Result const spacious = run(folder, "plan c.json" + model + " --workspace 1000");
  CHECK(spacious.out.find("total\t" + std::to_string(total + 1024) + "\n") != std::string::npos);

  Result const recommended = run(folder, "plan c.json" + model + " --recommend --device-memory " +
                                             std::to_string(row("total")));
  REQUIRE(recommended.code == 0);
  std::vector<std::string> const rows = lines(recommended.out);
  REQUIRE(rows.size() == 4);
  CHECK(std::stoll(fields(rows[1])[2]) == 5120 * 4);  // stage 0 holds the whole state
  CHECK(fields(rows[2])[2] == "0");
  CHECK(rows[3] == "recommended\t1");
  CHECK(run(folder, "plan c.json" + model + " --recommend --device-memory 10").code == 2);
  CHECK(run(folder, "plan c.json" + model + " --device-memory 10").err.find("more") !=
        std::string::npos);
  CHECK(run(folder, "plan c.json --parameters 5120 --largest-unit 511 --units 10").code == 2);
  Result const below = run(folder, "plan " + case_file("s10_seed_offload_both.json") + model);
  REQUIRE_MESSAGE(below.code == 0, below.err);
  for (std::string const said : {"host gradients\t", "host optimizer state\t", "\nhost\t"})
    CHECK(below.out.find(said) != std::string::npos);
}

TEST_CASE("a command line that cannot be run is one sentence and code 2") {
  Folder const folder;
  for (std::string const line :
       {"", "chek x", "check", "check a b", "check a --wrld 2", "check a --world",
        "check a --world 0", "check a --world x", "check a --relaxed=1", "schedule a", "keys a",
        "check a --world 1 --world 2"}) {
    CAPTURE(line);
    Result const result = run(folder, line);
    CHECK(result.code == 2);
    CHECK(lines(result.err).size() == 1);
    CHECK(result.err.starts_with("zero-config"));
  }
  CHECK(run(folder, "--help").out.find("loss-scale") != std::string::npos);
}

TEST_CASE("init writes a configuration and accelerate's file, which check reads") {
  Folder const folder;
  folder.write(
      "args.json",
      R"({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_grad_norm": 1,
    "hidden_size": 64})");
  // machines, rank, processes, stage, two devices and a folder, whole weights, norm, precision
  std::string const answers = "2\n1\n8\n3\ncpu\nnvme\n/nvme\nyes\nauto\nbf16\n";
  Result const result = run(folder, "init", answers);
  REQUIRE_MESSAGE(result.code == 0, result.err);
  Result const again = run(folder, "init", answers);
  CHECK(again.code == 2);
  CHECK(again.err.find("is there already") != std::string::npos);
  CHECK(run(folder, "init --force", answers).code == 0);
  std::string const by_json = "check ds_config.json --arguments args.json --world 8";
  Result const json = run(folder, by_json);
  REQUIRE_MESSAGE(json.code == 0, json.err);
  CHECK(boost::json::parse(json.out).at("zero_optimization").at("offload_param").at("nvme_path") ==
        "/nvme");
#ifdef ZERO_CONFIG_YAML
  Result const yaml = run(folder, "check accelerate.yaml --arguments args.json");
  CHECK_MESSAGE(yaml.code == 0, yaml.err);
  CHECK(yaml.out == json.out);
#else
  CHECK(run(folder, "check accelerate.yaml").err.find("libyaml-cpp-dev") != std::string::npos);
#endif
  // Empty answers take what is proposed.
  CHECK(run(folder, "init --json a.json --yaml a.yaml", "\n\n\n\n\n\n\n\n\n").code == 0);
  CHECK(run(folder, "init --json b.json --yaml b.yaml", "x\n0\n1\n").code == 2);  // the answers end
  // Nothing is written where one of the two is there already.
  CHECK(run(folder, "init --json new.json --yaml a.yaml", answers).code == 2);
  CHECK(!fs::exists(folder.path / "new.json"));
#ifdef ZERO_CONFIG_YAML
  // A name that YAML would take for something else.
  CHECK(run(folder, "init --json \"it's: #1.json\" --yaml odd.yaml", answers).code == 0);
  Result const odd = run(folder, "check odd.yaml --arguments args.json");
  CHECK_MESSAGE(odd.code == 0, odd.err);
#endif
  for (std::string const norm : {"inf", "nan", "-1", "1x"}) {
    CAPTURE(norm);
    CHECK(run(folder, "init --force", "1\n1\n0\n" + norm + "\nno\n").code == 2);
  }
}

#ifdef ZERO_CONFIG_YAML

TEST_CASE("accelerate's files name a configuration, or hold settings, and say the world") {
  Folder const folder;
  folder.write("args.json", arguments_json);
  folder.write("ds.json",
               R"({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}})");
  std::string const head = "distributed_type: DEEPSPEED\nnum_processes: 4\n";
  auto const check = [&](std::string const& yaml,
                         std::string const& more = " --arguments args.json") {
    folder.write("a.yaml", yaml);
    return run(folder, "check a.yaml" + more);
  };
  auto const world = [](Result const& r) {
    REQUIRE_MESSAGE(r.code == 0, r.err);
    return boost::json::parse(r.out).at("world_size").as_int64();
  };
  CHECK(world(check(head + "deepspeed_config_file: ds.json\n")) == 4);
  CHECK(world(check(head + "deepspeed_config:\n  deepspeed_config_file: ds.json\n")) == 4);
  CHECK(world(check(head + "deepspeed_config_file: ds.json\n",
                    " --arguments args.json --world 4")) == 4);
  CHECK(check(head + "deepspeed_config_file: ds.json\n", " --arguments args.json --world 2")
            .err.starts_with("num_processes: found 4"));
  CHECK(check(head + "deepspeed_config_file: none.json\n").err.find("none.json: found no file") !=
        std::string::npos);

  folder.write("batch.json", R"({"per_device_train_batch_size": 4})");
  Result const precision = check(head + "mixed_precision: bf16\ndeepspeed_config_file: ds.json\n",
                                 " --arguments batch.json");
  CHECK(boost::json::parse(precision.out).at("precision") == "bf16");
  CHECK(boost::json::parse(check(head + "mixed_precision: no\ndeepspeed_config_file: ds.json\n",
                                 " --arguments batch.json")
                               .out)
            .at("precision") == "fp32");

  Result const held = check(
      head +
      "mixed_precision: 'bf16'\ndeepspeed_config:\n  zero_stage: 3\n  gradient_accumulation_steps: "
      "2\n"
      "  gradient_clipping: 1.0\n  offload_optimizer_device: cpu\n  offload_param_device: none\n"
      "  zero3_init_flag: true\n  zero3_save_16bit_model: true\n");
  REQUIRE_MESSAGE(held.code == 0, held.err);
  boost::json::object const json = boost::json::parse(held.out).as_object();
  CHECK(json.at("train_batch_size") == 32);
  CHECK(json.at("zero_optimization").at("stage") == 3);
  CHECK(json.at("zero_optimization").at("offload_optimizer").at("device") == "cpu");
  CHECK(json.at("zero_optimization").at("stage3_gather_16bit_weights_on_model_save") == true);

  // The arguments' own file does not count, which one warning says with both names.
  folder.write("own.json",
               R"({"per_device_train_batch_size": 4, "bf16": true, "deepspeed": "mine.json"})");
  Result const both = check(head + "deepspeed_config_file: ds.json\n", " --arguments own.json");
  CHECK(both.code == 0);
  CHECK(both.err.find("mine.json does not count beside accelerate's file; read is ds.json") !=
        std::string::npos);
}

TEST_CASE("accelerate's files are judged as strictly") {
  Folder const folder;
  folder.write("ds.json", with(""));
  auto const refused = [&](std::string const& yaml, std::string const& says) {
    folder.write("a.yaml", yaml);
    Result const result = run(folder, "check a.yaml");
    CHECK(result.code == 2);
    CHECK_MESSAGE(result.err.find(says) != std::string::npos, result.err);
  };
  std::string const file = "deepspeed_config_file: ds.json\n";
  refused(file, "distributed_type: found nothing; expected DEEPSPEED");
  refused("distributed_type: FSDP\n" + file, "distributed_type: found FSDP");
  std::string const head = "distributed_type: DEEPSPEED\n";
  refused(head + file + "num_procesess: 2\n", "nearest is num_processes");
  refused(head + file + "num_processes: -1\n", "num_processes: found -1");
  refused(head + file + "num_processes: 3\nnum_machines: 2\n", "a multiple of num_machines");
  refused(head + file + "machine_rank: 1\n", "below num_machines");
  refused(head + file + "mixed_precision: fp8\n", "one of no, fp16, bf16");
  refused(head + file + "deepspeed_config:\n  zero_stage: 2\n",
          "deepspeed_config.zero_stage: found 2 beside the file ds.json");
  refused(head + file + "deepspeed_config:\n  deepspeed_config_file: other.json\n", "one file");
  refused(head + file + file, "twice");
  refused(head + "a: [1, 2\n", "line ");
  refused("", "found nothing");
  refused(head + file + "---\n" + head, "a.yaml: found more behind the first document");
  refused("  ,\n", "a.yaml: found more behind the first document");  // endless to YAML::LoadAll
  refused(head + file + "]\n", "a.yaml");
  refused(head + "num_processes: !!str 4\n" + file, "num_processes: found \"4\"");
  refused("[" + std::string(100'000, '['), "a.yaml, line 1");
  refused(std::string(2'000'000, 'a'), "a.yaml: found 2000000 bytes");
  refused(head + "deepspeed_config_file: \"ds.json\\0x\"\n", "deepspeed_config_file: found");
  // The problems of both files at once; without a world the batch is not judged.
  folder.write("bad.json", R"({"zero_optimization": {"stage": 9}})");
  folder.write("a.yaml", head + "num_processes: none\ndeepspeed_config_file: bad.json\n");
  Result const both = run(folder, "check a.yaml");
  REQUIRE(lines(both.err).size() == 2);
  CHECK(lines(both.err)[0].starts_with("num_processes: found \"none\""));
  CHECK(lines(both.err)[1].starts_with("zero_optimization.stage: found 9"));
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    std::string const n = std::to_string(i);
    std::string const p = "*a" + std::to_string(i - 1);
    bomb += "a" + n + ": &a" + n + " [" + p;
    for (int k = 0; k < 8; ++k) bomb += ", " + p;
    bomb += "]\n";
  }
  refused(bomb, "at most 10000");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "{a: ";
  refused(deep + "1" + std::string(100, '}'), "16 deep");
}

#endif

}  // namespace

#endif
