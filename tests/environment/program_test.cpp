// SPDX-License-Identifier: Apache-2.0
// The program zero-environment from outside: the form of both outputs, codes, and faults that the
// environment plants. What is not planted is the machine's, whatever it is.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#ifdef ZERO_ENVIRONMENT_PROGRAM

namespace {

namespace fs = std::filesystem;

/// A socket of this process's that listens at a port of the system's choice.
class Listener {
 public:
  Listener() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    REQUIRE(bind(socket_, where, size) == 0);
    REQUIRE(listen(socket_, 1) == 0);
    REQUIRE(getsockname(socket_, where, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  Listener(Listener const&) = delete;
  Listener& operator=(Listener const&) = delete;
  ~Listener() { end(); }
  /// Nobody listens any more.
  void end() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }
  int port() const { return port_; }

 private:
  int socket_;
  int port_ = 0;
};

/// A folder for what a run writes and reads; gone at the end.
struct Folder {
  static inline int number = 0;
  fs::path path = fs::temp_directory_path() / ("zero_environment_" + std::to_string(::getpid()) +
                                               "_" + std::to_string(number++));
  Folder() {
    fs::remove_all(path);
    fs::create_directories(path / "root");
    fs::create_directories(path / "bin");
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() { fs::remove_all(path); }
};

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

using Variables = std::map<std::string, std::string>;

struct Result {
  int code;
  std::string out;
  std::string err;

  std::string fact(std::string const& name) const {
    for (std::string const& line : lines(out)) {
      if (line.starts_with(name + "\t")) return line.substr(name.size() + 1);
    }
    return "no such fact";
  }
  std::vector<std::string> wrong() const {
    std::vector<std::string> result;
    for (std::string const& line : lines(out)) {
      if (line.starts_with("wrong\t")) result.push_back(line.substr(6));
    }
    return result;
  }
};

/// Runs it where nothing is wrong but what `variables` and `before` plant: the libraries of
/// NVIDIA's are fakes that say what the build expects, PATH has what the folder's bin has, and
/// /proc and /sys lie in the folder's root.
Result run(Folder const& folder, Variables const& variables, std::string const& arguments = "",
           std::string const& before = "") {
  static std::map<std::string, std::string> const versions = [] {
    std::map<std::string, std::string> result;
    Folder const first;
    std::string const command = std::string("env -i '") + ZERO_ENVIRONMENT_PROGRAM + "' >'" +
                                (first.path / "out").string() + "' 2>&1";
    REQUIRE(std::system(command.c_str()) != -1);
    for (std::string const& line : lines(read(first.path / "out")))
      result.emplace(line.substr(0, line.find('\t')), line.substr(line.find('\t') + 1));
    return result;
  }();
  Listener free_port;  // nobody listens there once it has ended
  free_port.end();
  int const port = free_port.port();
  Variables all{{"PATH", (folder.path / "bin").string()},
                {"LD_LIBRARY_PATH", ZERO_ENVIRONMENT_FAKES},
                {"MASTER_ADDR", "localhost"},
                {"MASTER_PORT", std::to_string(port)},
                {"ZERO_NCCL_PORT", std::to_string(port)}};
  if (std::string const& cuda = versions.at("cuda.built"); cuda != "not built with") {
    int const major = std::stoi(cuda);
    int const minor = std::stoi(cuda.substr(cuda.find('.') + 1));
    all["PLANTED_RUNTIME"] = std::to_string(1000 * major + 10 * minor);
    std::istringstream nccl(versions.at("nccl.built"));
    int a = 0;
    int b = 0;
    int c = 0;
    char dot = 0;
    nccl >> a >> dot >> b >> dot >> c;
    all["PLANTED_NCCL"] = std::to_string(10000 * a + 100 * b + c);
  }
  for (auto const& [name, value] : variables) all[name] = value;
  std::string command = "cd '" + folder.path.string() + "' && " + before + " exec env -i";
  for (auto const& [name, value] : all) command += " '" + name + "=" + value + "'";
  command += std::string(" '") + ZERO_ENVIRONMENT_PROGRAM + "' --root root " + arguments +
             " >out 2>err </dev/null";
  int const status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(folder.path / "out"),
          read(folder.path / "err")};
}

/// A driver with two GPUs, as new as the fakes' runtime.
Variables const two_gpus{
    {"PLANTED_DRIVER", "99010"}, {"PLANTED_GPUS", "2"}, {"PLANTED_CAPABILITY", "90"}};
Variables with(Variables variables, Variables const& others) {
  for (auto const& [name, value] : others) variables[name] = value;
  return variables;
}

/// Exactly one thing is wrong, and begins so; the code says it.
void check_wrong(Result const& result, std::string const& beginning) {
  CHECK(result.code == 1);
  std::vector<std::string> const wrong = result.wrong();
  REQUIRE_MESSAGE(wrong.size() == 1, result.out);
  CHECK_MESSAGE(wrong[0].starts_with(beginning), wrong[0]);
  for (char const* part : {": found ", "; expected ", "; do: "})
    CHECK(wrong[0].find(part) != std::string::npos);
}

/// What the JSON must be, by the text: numbers, yes and no, and texts, in the same order.
std::string json_of(std::string const& text) {
  std::string facts;
  std::string wrong;
  for (std::string const& line : lines(text)) {
    std::size_t const tab = line.find('\t');
    if (tab == std::string::npos) continue;
    std::string const name = line.substr(0, tab);
    std::string value = line.substr(tab + 1);
    if (name == "wrong") {
      std::size_t const found = value.find(": found ");
      std::size_t const expected = value.find("; expected ");
      std::size_t const remedy = value.find("; do: ");
      wrong += (wrong.empty() ? "" : ",") + ("{\"what\":\"" + value.substr(0, found)) +
               "\",\"found\":\"" + value.substr(found + 8, expected - found - 8) +
               "\",\"expected\":\"" + value.substr(expected + 11, remedy - expected - 11) +
               "\",\"do\":\"" + value.substr(remedy + 6) + "\"}";
      continue;
    }
    bool const digits = value[0] >= '0' && value[0] <= '9';  // else it is without limit
    bool const bytes = name.ends_with("_bytes") && digits;
    if (bytes) value = value.substr(0, value.find(" ("));
    if (name == "infiniband") {
      value = value == "yes" ? "true" : "false";
    } else if (!bytes && name != "gpus" && name != "cores" && name != "numa_nodes") {
      value = "\"" + value + "\"";
    }
    facts += (facts.empty() ? "" : ",") + ("\"" + name + "\":") + value;
  }
  return "{\"facts\":{" + facts + "},\"wrong\":[" + wrong + "]}\n";
}

}  // namespace

TEST_CASE("text has a fact a line, and every fact always, whatever the build and the machine") {
  Folder const folder;
  Result const result = run(folder, {});
  CHECK_MESSAGE(result.code == 0, result.out);
  CHECK(result.err.empty());
  CHECK(result.out.ends_with("\nnothing is wrong\n"));
  for (char const* name : {"zero",
                           "compiler",
                           "nvcc.built",
                           "nvcc.found",
                           "cuda.built",
                           "cuda.runtime",
                           "cuda.driver",
                           "cuda.visible_devices",
                           "nccl.built",
                           "nccl.loaded",
                           "gpus",
                           "mpi.built",
                           "mpi.loaded",
                           "mpi.mpirun",
                           "launcher",
                           "io_uring.built",
                           "io_uring.kernel",
                           "memlock.limit_bytes",
                           "memlock.most_bytes",
                           "memlock.need_bytes",
                           "infiniband",
                           "cores",
                           "numa_nodes",
                           "memory_bytes",
                           "openblas.built",
                           "openblas.loaded",
                           "boost.built",
                           "xxhash.built",
                           "xxhash.loaded",
                           "yaml_cpp.built"}) {
    INFO(name);
    CHECK(result.fact(name) != "no such fact");
    CHECK_FALSE(result.fact(name).empty());
  }
  CHECK(result.fact("cuda.driver") == "not found");
  CHECK(result.fact("gpus") == "0");
  CHECK(std::stoi(result.fact("cores")) >= 1);
}

TEST_CASE("the JSON says what the text says") {
  Folder const folder;
  Variables const hidden = with(two_gpus, {{"CUDA_VISIBLE_DEVICES", "-1"}});
  for (Variables const& variables : {Variables{}, two_gpus, hidden}) {
    Variables const fixed = with(variables, {{"MASTER_PORT", "1"}, {"ZERO_NCCL_PORT", "1"}});
    Result const text = run(folder, fixed);
    Result const json = run(folder, fixed, "--json");
    CHECK(json.code == text.code);
    CHECK(json.out == json_of(text.out));
  }
}

TEST_CASE("GPUs are listed with their memory, capability and the peers they reach") {
  Folder const folder;
  Result const result = run(folder, with(two_gpus, {{"PLANTED_GPUS", "3"}}));
  CHECK_MESSAGE(result.code == 0, result.out);
  CHECK(result.fact("cuda.driver") == "99.1");
  CHECK(result.fact("gpus") == "3");
  CHECK(result.fact("gpu.1.name") == "Planted 1");
  CHECK(result.fact("gpu.1.memory_bytes") == "85899345920 (80.0 GiB)");
  CHECK(result.fact("gpu.1.capability") == "9.0");
  CHECK(result.fact("gpu.1.peers") == "0");
  CHECK(result.fact("gpu.2.peers") == "none");
}

TEST_CASE("planted faults of the driver and of GPUs are found, each with the code 1") {
  Folder const folder;
  check_wrong(run(folder, with(two_gpus, {{"PLANTED_GPUS", "0"}})),
              "GPUs: found none, though there is a driver for CUDA 99.1; expected at least one");
  check_wrong(run(folder, with(two_gpus, {{"PLANTED_DRIVER_FAILURE", "100"}})),
              "GPUs: found none, though there is a driver");
  check_wrong(run(folder, with(two_gpus, {{"PLANTED_DRIVER_FAILURE", "803"}})),
              "NVIDIA driver: found CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
  check_wrong(run(folder, with(two_gpus, {{"PLANTED_DRIVER_FAILURE", "1"}})),
              "NVIDIA driver: found error 1");
  check_wrong(run(folder, with(two_gpus, {{"CUDA_VISIBLE_DEVICES", ""}})),
              "CUDA_VISIBLE_DEVICES: found '', which hides every GPU");
  check_wrong(run(folder, {{"CUDA_VISIBLE_DEVICES", "-1"}}),
              "CUDA_VISIBLE_DEVICES: found '-1', which hides every GPU");
  check_wrong(run(folder, with(two_gpus, {{"PLANTED_CAPABILITY", "75"}, {"PLANTED_GPUS", "1"}})),
              "GPU 0: found compute capability 7.5 (Planted 0)");
  check_wrong(
      run(folder, with(two_gpus, {{"PLANTED_DRIVER", "5000"}, {"PLANTED_RUNTIME", "13000"}})),
      "NVIDIA driver: found one for CUDA 5.0");
  fs::create_directories(folder.path / "root/proc/driver/nvidia");
  std::ofstream(folder.path / "root/proc/driver/nvidia/version") << "planted\n";
  check_wrong(run(folder, {}), "NVIDIA driver: found the kernel's module, and no libcuda.so.1");
}

TEST_CASE("an NCCL that is too old, or not the headers', is found") {
  Folder const folder;
  bool const built = run(folder, {}).fact("nccl.built") != "not built with";
  Result const old = run(folder, {{"PLANTED_NCCL", "22005"}});
  CHECK(old.fact("nccl.loaded") == "2.20.5");
  CHECK(old.code == 1);
  REQUIRE(old.wrong().size() == (built ? 2 : 1));
  if (built) CHECK(old.wrong()[0].starts_with("NCCL: found the library of 2.20.5; expected 2."));
  CHECK(old.wrong().back().starts_with("NCCL: found version 2.20.5; expected 2.28.0 or later"));
}

TEST_CASE("ports that others hold, and files of an earlier run, are found") {
  Folder const folder;
  Listener const taken;
  std::string const port = std::to_string(taken.port());
  check_wrong(run(folder, {{"MASTER_PORT", port}}),
              "port " + port +
                  ": found a process that listens there; expected a free one, at "
                  "which torchrun's agent listens");
  check_wrong(run(folder, {{"ZERO_NCCL_PORT", port}}),
              "port " + port +
                  ": found a process that listens there; expected a free one, at "
                  "which rank 0 of NCCL listens");
  // Under torchrun its own agent listens there; a rank that is not 0 listens nowhere.
  Variables const rank{{"RANK", "1"},           {"WORLD_SIZE", "2"},
                       {"LOCAL_RANK", "1"},     {"TORCHELASTIC_RUN_ID", "none"},
                       {"MASTER_PORT", port},   {"MASTER_ADDR", "localhost"},
                       {"ZERO_NCCL_PORT", port}};
  Result const under = run(folder, rank);
  CHECK_MESSAGE(under.code == 0, under.out);
  CHECK(under.fact("launcher") == "torchrun");

  CHECK(run(folder, {{"ZERO_NCCL_ID_FILE", "id"}}).code == 0);
  std::ofstream(folder.path / "id.2") << "planted";
  std::ofstream(folder.path / "id.other") << "no rank's";
  check_wrong(run(folder, {{"ZERO_NCCL_ID_FILE", "id"}}),
              "ZERO_NCCL_ID_FILE: found files of an earlier run: ./id.2; expected none");
  check_wrong(run(folder, {{"ZERO_NCCL_ID_FILE", "nowhere/id"}}),
              "ZERO_NCCL_ID_FILE: found 'nowhere/id', whose folder cannot be written to");
}

TEST_CASE("launchers that contradict each other, and those of another MPI, are found") {
  Folder const folder;
  check_wrong(run(folder, {{"RANK", "0"}}), "launcher: found environment: ");
  std::string const built = run(folder, {}).fact("mpi.built");
  if (built == "not built with") return;
  bool const open = built.starts_with("Open MPI");
  Variables const other = open ? Variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}
                               : Variables{{"OMPI_COMM_WORLD_RANK", "0"},
                                           {"OMPI_COMM_WORLD_SIZE", "1"},
                                           {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  check_wrong(run(folder, other), std::string("MPI: found a process that a launcher of ") +
                                      (open ? "MPICH" : "Open MPI") + " has started");
  fs::path const mpirun = folder.path / "bin/mpirun";
  std::ofstream(mpirun) << "#!/bin/sh\necho '"
                        << (open ? "HYDRA build details: Version: 4.0.2"
                                 : "mpirun (Open MPI) 4.1.4")
                        << "'\n";
  fs::permissions(mpirun, fs::perms::owner_all);
  check_wrong(run(folder, {}),
              std::string("mpirun: found that of ") + (open ? "MPICH 4.0.2" : "Open MPI 4.1.4"));
}

TEST_CASE("memory that cannot be locked is found, by the flag and by the cards") {
  Folder const folder;
  std::string const limit = "ulimit -l 64 &&";
  CHECK(run(folder, {}, "--lock 65536", limit).code == 0);
  check_wrong(run(folder, {}, "--lock 65537", limit),
              "RLIMIT_MEMLOCK: found 65536 bytes; expected at least the 65537 bytes");
  fs::create_directories(folder.path / "root/sys/class/infiniband/mlx5_0");
  Result const cards = run(folder, {}, "", limit);
  CHECK(cards.fact("infiniband") == "yes");
  check_wrong(cards, "RLIMIT_MEMLOCK: found 65536 bytes; expected no limit");
}

TEST_CASE("a flag that there is not, or that lacks its value, has the code 2") {
  Folder const folder;
  for (auto const& [flags, said] : std::vector<std::pair<std::string, std::string>>{
           {"--planted",
            "zero-environment: has no option --planted, see zero-environment --help\n"},
           {"--json=1", "zero-environment: --json takes no value\n"},
           {"--lock", "zero-environment: --lock wants a value: BYTES\n"},
           {"--lock -1", "zero-environment: --lock wants a whole number from 0, not '-1'\n"},
           {"file", "zero-environment: takes no file, and was given file\n"}}) {
    Result const result = run(folder, {}, flags);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(result.err == said);
  }
  Result const help = run(folder, {}, "--help");
  CHECK(help.code == 0);
  CHECK(help.out.starts_with("zero-environment [--json] [--lock BYTES] [--root DIR]\n"));
}

#endif
