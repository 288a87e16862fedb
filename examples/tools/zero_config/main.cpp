// SPDX-License-Identifier: Apache-2.0
// zero-config: judges, resolves and explains DeepSpeed configurations. Its output is a contract:
// results on the standard output, warnings and problems on the error stream, exit code 2 where
// something is refused.

#include <zero_config/check.hpp>
#include <zero_config/init.hpp>
#include <zero_config/plan.hpp>
#include <zero_config/schedule.hpp>

#include <exception>

namespace zero_config {

namespace {

constexpr std::string_view help =
    "zero-config COMMAND ...\n\n"
    "  check FILE [--explain]            the resolved configuration as JSON\n"
    "  schedule FILE --steps N           TSV: what rate and betas each update uses\n"
    "  loss-scale FILE --overflows 0,1,..\n"
    "                                    TSV: how the loss scale of fp16 moves\n"
    "  plan FILE --parameters P --largest-unit L --units U [--workspace B] [--device-memory B]\n"
    "       [--host-memory B] [--recommend]  TSV: bytes a rank by kind, elements sent a step\n"
    "  keys                              every key: status, default, what it drives\n"
    "  init [--json FILE] [--yaml FILE] [--force]\n"
    "                                    asks, and writes a configuration and accelerate's file\n\n"
    "Commands that read a FILE (JSON, or YAML of accelerate) take\n"
    "  --world N              ranks; 1 where it is not given\n"
    "  --arguments ARGS.json  training arguments, which fill \"auto\"\n"
    "  --relaxed              comments, trailing commas and a byte-order mark are taken\n";

int run(std::span<char const* const> arguments) {
  std::string_view const command = arguments.empty() ? std::string_view() : arguments[0];
  if (command == "--help" || command == "help") {
    std::cout << help;
    return 0;
  }
  if (command.empty()) throw WrongCommand("zero-config wants a command, see zero-config --help");
  std::span<char const* const> const rest = arguments.subspan(1);
  if (command == "check") return check(rest);
  if (command == "schedule") return schedule(rest);
  if (command == "loss-scale") return loss_scale(rest);
  if (command == "plan") return plan(rest);
  if (command == "keys") return keys(rest);
  if (command == "init") return init(rest);
  throw WrongCommand("zero-config has no command '" + std::string(command) +
                     "', see zero-config --help");
}

}  // namespace

}  // namespace zero_config

int main(int count, char** arguments) {
  try {
    int const code = zero_config::run({arguments + 1, static_cast<std::size_t>(count - 1)});
    zero_config::require_printed(std::cout, "zero-config");
    return code;
  } catch (zero::ConfigError const& e) {  // one line a problem
    std::cerr << e.what() << "\n";
  } catch (std::exception const& e) {
    std::cerr << e.what() << "\n";
  }
  return 2;
}
