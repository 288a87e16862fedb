// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of zero-config: a command, at most one file, and options.

#include <shared/command_line.hpp>

#include <string_view>

namespace zero_config {

using zero::Index;
using zero_tools::Option;
using zero_tools::require_printed;
using zero_tools::WrongCommand;

/// What stands after a command's name.
class CommandLine : public zero_tools::CommandLine {
 public:
  /// As zero_tools::CommandLine of this program.
  CommandLine(std::string_view command, std::span<char const* const> arguments, bool takes_file,
              std::vector<Option> const& options)
      : zero_tools::CommandLine("zero-config", command, arguments, takes_file, options) {}
};

}  // namespace zero_config
