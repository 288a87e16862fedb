// SPDX-License-Identifier: Apache-2.0
// zero-environment: what programs of this library find on this machine, and what is wrong with it.
// Its output is a contract: facts and faults on the standard output, exit code 0 where nothing is
// wrong, 1 where something is, 2 for a command line that cannot be.

#include <shared/command_line.hpp>
#include <zero_environment/build.hpp>
#include <zero_environment/gpus.hpp>
#include <zero_environment/machine.hpp>
#include <zero_environment/ranks.hpp>
#include <zero_environment/report.hpp>

#include <exception>
#include <iostream>

namespace zero_environment {

namespace {

constexpr std::string_view help =
    "zero-environment [--json] [--lock BYTES] [--root DIR]\n\n"
    "  Prints what this build was made with and what this machine has, a fact a line with a tab\n"
    "  between: compilers, CUDA, driver, NCCL, GPUs, MPI, io_uring, locked memory, cores,\n"
    "  libraries. Then, behind \"wrong\", a sentence for each thing that is wrong among them.\n\n"
    "  --json         the same as one JSON object: facts, and a list of what is wrong\n"
    "  --lock BYTES   host memory that all ranks of a process are to lock: plan().tiers says it\n"
    "  --root DIR     reads /proc and /sys below DIR, as where a host's are mounted\n\n"
    "Exit code 0: nothing is wrong; 1: something is; 2: no such flag.\n";

#ifdef ZERO_ENVIRONMENT_MPI
constexpr char const* mpi_library = ZERO_ENVIRONMENT_MPI;
#else
constexpr char const* mpi_library = "";
#endif

int run(std::span<char const* const> arguments) {
  if (std::ranges::find(arguments, std::string_view("--help")) != arguments.end()) {
    std::cout << help;
    return 0;
  }
  zero_tools::CommandLine const line("zero-environment", "", arguments, false,
                                     {{"json", ""}, {"lock", "BYTES"}, {"root", "DIR"}});
  zero::Environment const environment = zero::Environment::of_process();
  Facts facts;
  facts.memlock_need_bytes = line.number("lock", 0);
  add_build(facts);
  add_nvcc(facts);
  add_gpus(facts, environment, line.text("root"));
  add_mpi(facts, environment, mpi_library);
  add_rendezvous(facts, environment);
  add_machine(facts, line.text("root"));
  add_libraries(facts);
  std::vector<Fault> const faults = judge(facts);
  std::cout << (line.has("json") ? report_json(facts, faults) : report_text(facts, faults));
  zero_tools::require_printed(std::cout, "zero-environment");
  return faults.empty() ? 0 : 1;
}

}  // namespace

}  // namespace zero_environment

int main(int count, char** arguments) {
  try {
    return zero_environment::run(
        {arguments + 1, static_cast<std::size_t>(count > 0 ? count - 1 : 0)});
  } catch (std::exception const& e) {
    std::cerr << e.what() << "\n";
  }
  return 2;
}
