// SPDX-License-Identifier: Apache-2.0
// zero-checkpoint: looks into checkpoints, verifies, converts and compares them. Its output is a
// contract: results on the standard output, what is wrong on the error stream, exit code 2 for a
// checkpoint or a command that cannot be, 1 where diff finds a difference.

#include <zero_checkpoint/commands.hpp>

#include <exception>

namespace zero_checkpoint {

namespace {

constexpr std::string_view help =
    "zero-checkpoint COMMAND ...\n\n"
    "  inspect DIR                 what a checkpoint says of itself, a fact a line\n"
    "  verify DIR                  every checksum; exit code 2 with file and reason where one is "
    "wrong\n"
    "  export DIR OUT [--dtype fp32|bf16|fp16]\n"
    "                              the weights as a model of transformers\n"
    "  import DIR OUT              a model of transformers as a checkpoint of weights\n"
    "  reshard DIR OUT --world N   the same checkpoint, one file for each of N ranks\n"
    "  diff A B                    bit by bit; exit code 1 where they differ\n\n"
    "DIR is a checkpoint, or the folder that holds `latest`, which names one. Any world loads a\n"
    "checkpoint of any other without reshard.\n";

int run(std::span<char const* const> arguments) {
  std::string_view const command = arguments.empty() ? std::string_view() : arguments[0];
  if (command == "--help" || command == "help") {
    std::cout << help;
    return 0;
  }
  if (command.empty())
    throw WrongCommand("zero-checkpoint wants a command, see zero-checkpoint --help");
  Strings const rest = arguments.subspan(1);
  if (command == "inspect") return inspect(rest);
  if (command == "verify") return verify(rest);
  if (command == "export") return export_model(rest);
  if (command == "import") return import_model(rest);
  if (command == "reshard") return reshard(rest);
  if (command == "diff") return diff(rest);
  throw WrongCommand("zero-checkpoint has no command '" + std::string(command) +
                     "', see zero-checkpoint --help");
}

}  // namespace

}  // namespace zero_checkpoint

int main(int count, char** arguments) {
  try {
    int const code =
        zero_checkpoint::run({arguments + 1, static_cast<std::size_t>(count > 0 ? count - 1 : 0)});
    zero_checkpoint::require_output();
    return code;
  } catch (std::exception const& e) {
    std::cerr << e.what() << "\n";
  }
  return 2;
}
