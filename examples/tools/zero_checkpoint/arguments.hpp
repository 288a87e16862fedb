// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of zero-checkpoint: folders and options. What is wrong with it is one sentence
// and exit code 2.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zero_checkpoint {

using zero::Index;

/// A command line that cannot be run.
struct WrongCommand : zero::InvalidArgument {
  using zero::InvalidArgument::InvalidArgument;
};

/// What stands after a command's name.
class Arguments {
 public:
  /// @param folders how many are wanted
  /// @param options names of those that are taken, each with a value
  /// @throws WrongCommand for what the command does not take
  Arguments(std::string command, std::span<char const* const> arguments, std::size_t folders,
            std::vector<std::string_view> const& options)
      : command_(std::move(command)) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      std::string_view const argument = arguments[i];
      if (!argument.starts_with("--")) {
        folders_.emplace_back(argument);
        continue;
      }
      std::size_t const equals = argument.find('=');
      std::string_view const name = argument.substr(0, equals);
      if (std::ranges::find(options, name) == options.end())
        refuse("has no option " + std::string(name) + ", see zero-checkpoint --help");
      std::string value;
      if (equals != std::string_view::npos) {
        value = argument.substr(equals + 1);
      } else if (i + 1 < arguments.size()) {
        value = arguments[++i];
      } else {
        refuse(std::string(name) + " wants a value");
      }
      if (!values_.emplace(name, value).second) refuse(std::string(name) + " is given twice");
    }
    if (folders_.size() != folders)
      refuse("wants " + std::to_string(folders) + (folders == 1 ? " folder" : " folders") +
             ", and was given " + std::to_string(folders_.size()));
  }

  std::string const& folder(std::size_t i) const { return folders_[i]; }
  /// Empty where it is not given.
  std::string text(std::string_view name) const {
    auto const i = values_.find(name);
    return i == values_.end() ? std::string() : i->second;
  }
  /// A whole number in [low, high], which must be given.
  Index number(std::string_view name, Index low, Index high) const {
    std::string const value = text(name);
    Index n = 0;
    auto const [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    if (error != std::errc() || end != value.data() + value.size() || n < low || n > high)
      refuse("wants " + std::string(name) + " N, a whole number from " + std::to_string(low) +
             " to " + std::to_string(high) + (value.empty() ? "" : ", not '" + value + "'"));
    return n;
  }
  [[noreturn]] void refuse(std::string const& sentence) const {
    throw WrongCommand("zero-checkpoint " + command_ + " " + sentence);
  }

 private:
  std::string command_;
  std::vector<std::string> folders_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace zero_checkpoint
