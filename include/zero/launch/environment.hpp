// SPDX-License-Identifier: Apache-2.0
#pragma once
// Environment variables as a value: what a launcher has told this process, read once, and in tests
// written down.

#include <zero/core/size.hpp>

#include <unistd.h>

#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace zero {

/// A snapshot of environment variables.
class Environment {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;  ///< name to text

  /// Exactly these variables.
  explicit Environment(Variables variables) : variables_(std::move(variables)) {}

  /// The variables that this process has now.
  static Environment of_process() {
    Variables variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      std::string_view const text = *entry;
      std::size_t const equals = text.find('=');
      if (equals == std::string_view::npos || equals == 0) continue;
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return Environment(std::move(variables));
  }

  /// The variable's text; nothing when it is not set. A variable that is set to nothing has a text
  /// of no characters.
  std::optional<std::string_view> find(std::string_view name) const {
    auto const i = variables_.find(name);
    if (i == variables_.end()) return std::nullopt;
    return i->second;
  }
  /// Set, also to nothing.
  bool has(std::string_view name) const { return variables_.contains(name); }

  /// `NAME="text"`, for messages; "no NAME" when it is not set.
  std::string quote(std::string_view name) const {
    auto const text = find(name);
    if (!text) return "no " + std::string(name);
    return std::string(name) + "=\"" + std::string(*text) + '"';
  }

  /// The variable as a whole number in [low, high]; nothing when it is not set.
  /// @throws InvalidArgument, with the variable and its text, for everything else: digits alone
  /// count
  std::optional<int> number(std::string_view name, int low, int high) const {
    auto const text = find(name);
    if (!text) return std::nullopt;
    Index value = -1;
    bool digits = !text->empty();
    for (char c : *text) digits = digits && c >= '0' && c <= '9';
    auto const [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (!digits || failure != std::errc{} || value < low || value > high) {
      throw InvalidArgument("environment: " + quote(name) + " is not a whole number from " +
                            std::to_string(low) + " to " + std::to_string(high));
    }
    return static_cast<int>(value);
  }

 private:
  Variables variables_;
};

}  // namespace zero
