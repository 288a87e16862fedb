// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of a tool: at most a command, at most one file, and options. What is wrong with
// it is one sentence and exit code 2.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace zero_tools {

using zero::Index;

/// A command line that cannot be run.
struct WrongCommand : zero::InvalidArgument {
  using zero::InvalidArgument::InvalidArgument;
};

/// A script must not take a part of the output for all of it.
/// @throws WrongCommand where not everything that the program has printed has arrived
inline void require_printed(std::ostream& out, std::string const& program) {
  if (!out.flush()) throw WrongCommand(program + ": the output is cut short");
}

/// An option of a command: `--name VALUE`, or `--name` alone.
struct Option {
  std::string_view name;
  std::string_view value;  ///< how the help calls it; empty: the option stands alone
};

/// What stands after a program's name, or after its command's.
class CommandLine {
 public:
  /// @param program as it is called
  /// @param command its name, empty where the program has none
  /// @param takes_file whether one argument without dashes is wanted
  /// @throws WrongCommand for what the command does not take
  CommandLine(std::string_view program, std::string_view command,
              std::span<char const* const> arguments, bool takes_file,
              std::vector<Option> const& options)
      : program_(program), command_(command) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      std::string_view const argument = arguments[i];
      if (!argument.starts_with("--")) {
        if (!takes_file) refuse("takes no file, and was given " + std::string(argument));
        if (!file_.empty())
          refuse("takes one file, and was given " + file_ + " and " + std::string(argument));
        file_ = argument;
        continue;
      }
      std::size_t const equals = argument.find('=');
      std::string_view const name =
          argument.substr(2, equals == std::string_view::npos ? equals : equals - 2);
      auto const option = std::ranges::find(options, name, &Option::name);
      if (option == options.end())
        refuse("has no option --" + std::string(name) + ", see " + program_ + " --help");
      std::string value;
      if (option->value.empty()) {
        if (equals != std::string_view::npos) refuse("--" + std::string(name) + " takes no value");
      } else if (equals != std::string_view::npos) {
        value = argument.substr(equals + 1);
      } else if (i + 1 < arguments.size()) {
        value = arguments[++i];
      } else {
        refuse("--" + std::string(name) + " wants a value: " + std::string(option->value));
      }
      if (!values_.emplace(name, value).second)
        refuse("--" + std::string(name) + " is given twice");
    }
    if (takes_file && file_.empty()) refuse("wants a file");
  }

  std::string const& file() const { return file_; }
  bool has(std::string_view name) const { return values_.contains(name); }
  std::string text(std::string_view name) const {
    auto const i = values_.find(name);
    return i == values_.end() ? std::string() : i->second;
  }
  /// A whole number in [low, high]; nothing where the option is not given.
  std::optional<Index> number(std::string_view name, Index low,
                              Index high = std::numeric_limits<Index>::max()) const {
    auto const i = values_.find(name);
    if (i == values_.end()) return std::nullopt;
    std::string const& text = i->second;
    Index value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
      refuse("--" + std::string(name) + " wants a whole number from " + std::to_string(low) +
             (high == std::numeric_limits<Index>::max() ? "" : " to " + std::to_string(high)) +
             ", not '" + text + "'");
    }
    return value;
  }
  /// A number that the command cannot do without.
  Index required(std::string_view name, Index low,
                 Index high = std::numeric_limits<Index>::max()) const {
    std::optional<Index> const value = number(name, low, high);
    if (!value) refuse("wants --" + std::string(name));
    return *value;
  }

  [[noreturn]] void refuse(std::string const& sentence) const {
    throw WrongCommand(program_ + (command_.empty() ? "" : " " + command_) + ": " + sentence);
  }

 private:
  std::string program_;
  std::string command_;
  std::string file_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace zero_tools
