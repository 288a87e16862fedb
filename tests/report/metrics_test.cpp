// SPDX-License-Identifier: Apache-2.0
#include <zero/report/metrics.hpp>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

using zero::Metrics;
using zero::StepRecord;
namespace fs = std::filesystem;

namespace {

/// A folder that goes with the test.
struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "zero_metrics_XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string operator/(char const* name) const { return (path / name).string(); }
  fs::path path;
};

std::string content(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines(std::string const& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

StepRecord record(zero::Index step) {
  StepRecord r{.step = step,
               .loss = 2.5,
               .validation_loss = {},
               .learning_rate = 0.001,
               .gradient_norm = 0.75,
               .loss_scale = 65536,
               .skipped_steps = 0,
               .tokens_per_s = 12345.5,
               .wire_elements = 640,
               .phase_seconds = {{"gather", 0.125}, {"compute", 1}},
               .memory_bytes = {{"parameters", 4096}, {"extra slots", 0}}};
  return r;
}

}  // namespace

TEST_CASE("a row of JSON has every value under its name") {
  Folder folder;
  Metrics metrics(folder / "run.jsonl");
  StepRecord r = record(7);
  r.validation_loss = 2.75;
  r.skipped_steps = 2;
  metrics.write(r);
  CHECK(
      content(folder / "run.jsonl") ==
      R"({"step":7,"loss":2.5,"validation_loss":2.75,"lr":0.001,"gradient_norm":0.75,)"
      R"("loss_scale":65536.0,"skipped_steps":2,"tokens_per_s":12345.5,"gather_seconds":0.125,)"
      R"("compute_seconds":1.0,"wire_elements":640,"parameters_bytes":4096,"extra_slots_bytes":0})"
      "\n");
}

TEST_CASE("CSV has one line of names and then the same values") {
  Folder folder;
  Metrics metrics(folder / "run.csv");
  metrics.write(record(1));
  StepRecord r = record(2);
  r.validation_loss = 3;
  metrics.write(r);
  CHECK(content(folder / "run.csv") ==
        "step,loss,validation_loss,lr,gradient_norm,loss_scale,skipped_steps,tokens_per_s,gather_"
        "seconds,"
        "compute_seconds,wire_elements,parameters_bytes,extra_slots_bytes\n"
        "1,2.5,,0.001,0.75,65536.0,0,12345.5,0.125,1.0,640,4096,0\n"
        "2,2.5,3.0,0.001,0.75,65536.0,0,12345.5,0.125,1.0,640,4096,0\n");
}

TEST_CASE("absent and not finite are told apart in both formats") {
  Folder folder;
  StepRecord r = record(1);
  r.loss = std::numeric_limits<double>::quiet_NaN();
  r.gradient_norm = std::numeric_limits<double>::infinity();
  Metrics(folder / "run.jsonl").write(r);
  Metrics(folder / "run.csv").write(r);
  CHECK(content(folder / "run.jsonl")
            .starts_with(R"({"step":1,"loss":"NaN","validation_loss":null,"lr":0.001,)"
                         R"("gradient_norm":"Infinity",)"));
  CHECK(lines(content(folder / "run.csv"))[1].starts_with("1,nan,,0.001,inf,65536.0,0,"));
}

TEST_CASE("numbers read back as the same bits") {
  Folder folder;
  Metrics metrics(folder / "run.csv");
  std::vector<double> const losses{0.1,    1.0 / 3, 2.302585092994046, 5e-324,
                                   1e-300, 1.7e308, 6.02214076e23,     0.0};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    StepRecord r = record(static_cast<zero::Index>(i));
    r.loss = losses[i];
    metrics.write(r);
  }
  auto const rows = lines(content(folder / "run.csv"));
  REQUIRE(rows.size() == losses.size() + 1);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CHECK(std::strtod(rows[i + 1].c_str() + rows[i + 1].find(',') + 1, nullptr) == losses[i]);
  }
}

TEST_CASE("a later row may lack a column and stand in another order, but adds none") {
  Folder folder;
  for (char const* file : {"run.jsonl", "run.csv"}) {
    Metrics metrics(folder / file);
    metrics.write(record(1));
    StepRecord r = record(2);
    r.memory_bytes = {{"extra slots", 5}};
    r.phase_seconds = {{"compute", 2}, {"gather", 3}};
    metrics.write(r);
    r.memory_bytes = {{"tables", 5}};
    CHECK_THROWS_WITH_AS(
        metrics.write(r),
        ("metrics: the first row of '" + folder / file + "' has no column 'tables_bytes'").c_str(),
        zero::InvalidArgument);
  }
  auto const json = lines(content(folder / "run.jsonl"));
  REQUIRE(json.size() == 2);
  CHECK(json[1].ends_with(R"("gather_seconds":3.0,"compute_seconds":2.0,"wire_elements":640,)"
                          R"("parameters_bytes":null,"extra_slots_bytes":5})"));
  auto const csv = lines(content(folder / "run.csv"));
  REQUIRE(csv.size() == 3);
  CHECK(csv[2] == "2,2.5,,0.001,0.75,65536.0,0,12345.5,3.0,2.0,640,,5");
}

TEST_CASE("two columns of one name are refused") {
  Folder folder;
  Metrics metrics(folder / "run.csv");
  StepRecord r = record(1);
  r.memory_bytes = {{"extra slots", 1}, {"extra_slots", 2}};
  CHECK_THROWS_WITH_AS(metrics.write(r), "metrics: two columns are named 'extra_slots_bytes'",
                       zero::InvalidArgument);
  CHECK(content(folder / "run.csv").empty());
}

TEST_CASE("a file that exists is emptied") {
  Folder folder;
  std::ofstream(folder / "run.csv") << "an older and much longer run\n1,2,3\n";
  Metrics metrics(folder / "run.csv");
  CHECK(content(folder / "run.csv").empty());
}

TEST_CASE("another ending is refused in one sentence and no file is touched") {
  Folder folder;
  for (char const* name : {"run.txt", "run", "run.csv.gz", "run.JSONL", "csv"}) {
    std::string const path = folder / name;
    CHECK_THROWS_WITH_AS(
        Metrics{path}, ("metrics: the file '" + path + "' ends in neither .jsonl nor .csv").c_str(),
        zero::InvalidArgument);
    CHECK(!fs::exists(path));
  }
  CHECK_THROWS_AS(Metrics::format(""), zero::InvalidArgument);
  CHECK(Metrics::format("a/b.jsonl") == Metrics::Format::json_lines);
}

TEST_CASE("a file that cannot be opened is named with the system's reason") {
  Folder folder;
  std::string const path = folder / "no/such/run.csv";
  CHECK_THROWS_WITH_AS(Metrics{path},
                       ("metrics: cannot open '" + path + "': No such file or directory").c_str(),
                       zero::Error);
}

TEST_CASE("a full disk is an error that names the file and the reason") {
  Folder folder;
  std::string const path = folder / "full.jsonl";
  fs::create_symlink("/dev/full", path);
  Metrics metrics(path);
  for (int row = 0; row < 2; ++row) {
    CHECK_THROWS_WITH_AS(metrics.write(record(1)),
                         ("metrics: cannot write '" + path + "': No space left on device").c_str(),
                         zero::Error);
  }
}

TEST_CASE("a disk that fills in the middle of a row leaves whole rows, and later rows fit again") {
  Folder folder;
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  for (char const* file : {"run.jsonl", "run.csv"}) {
    Metrics metrics(folder / file);
    metrics.write(record(1));
    std::string const first = content(folder / file);
    ::rlimit const limit{first.size() + 10, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    std::string said;
    try {
      metrics.write(record(2));
    } catch (zero::Error const& error) {
      said = error.what();
    }
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(said == "metrics: cannot write '" + folder / file + "': File too large");
    CHECK(content(folder / file) == first);
    metrics.write(record(3));
    CHECK(lines(content(folder / file)).back().find('3') != std::string::npos);
    CHECK(content(folder / file).starts_with(first));
    CHECK(lines(content(folder / file)).size() == lines(first).size() + 1);
  }
  ::signal(SIGXFSZ, handler);
}

TEST_CASE("a killed run keeps the rows it wrote") {
  Folder folder;
  std::string const path = folder / "run.csv";
  ::pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Metrics metrics(path);
    for (int step = 1; step <= 3; ++step) metrics.write(record(step));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(lines(content(path)).size() == 4);
  CHECK(content(path).ends_with("\n"));
}
