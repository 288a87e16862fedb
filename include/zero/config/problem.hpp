// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is wrong with a configuration: every fault of one reading, told in one error.

#include <zero/core/error.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero {

/// One fault: where, what was found there, and what would be right.
struct Problem {
  std::string
      path;  ///< "zero_optimization.stage", or "line 8, column 16" of a text that is no JSON
  std::string found;     ///< as it stands there
  std::string expected;  ///< what would be right

  /// "path: found ...; expected ...", on one line.
  std::string text() const { return path + ": found " + found + "; expected " + expected; }
  /// Equal in all three.
  friend bool operator==(Problem const&, Problem const&) = default;
};

/// A configuration that cannot be met. what() has one line a problem, in the order in which they
/// were found: file order for what one key says, then what keys say together.
struct ConfigError : InvalidArgument {
  /// @param all at least one
  explicit ConfigError(std::vector<Problem> all)
      : InvalidArgument(lines(all)), problems(std::move(all)) {}

  std::vector<Problem> problems;  ///< one at least

 private:
  static std::string lines(std::vector<Problem> const& all) {
    std::string text;
    for (Problem const& p : all) text += (text.empty() ? "" : "\n") + p.text();
    return text;
  }
};

/// What a reading has to say: problems, which refuse the configuration, and warnings, which do not.
class Findings {
 public:
  /// Keeps a problem; as a message it is one line.
  /// @param path where
  /// @param found what stands there
  /// @param expected what would be right
  void refuse(std::string const& path, std::string const& found, std::string const& expected) {
    if (full()) return;
    problems_.push_back(
        {path.empty() ? "\"\"" : one_line(path), one_line(found), one_line(expected)});
    if (full())
      problems_.push_back({"the configuration", "more problems", "fewer; what is above is enough"});
  }
  /// Each text is kept once.
  void warn(std::string const& warning) {
    std::string text = one_line(warning);
    for (std::string const& known : warnings_) {
      if (known == text) return;
    }
    warnings_.push_back(std::move(text));
  }
  /// So many problems that further ones are not kept: no file that people write has them.
  bool full() const { return problems_.size() >= 1000; }
  /// In the order in which they were found.
  std::vector<Problem> const& problems() const { return problems_; }
  /// Likewise.
  std::vector<std::string> const& warnings() const { return warnings_; }

  /// @throws ConfigError with all problems so far, where there are any
  void raise() const {
    if (!problems_.empty()) throw ConfigError(problems_);
  }

 private:
  /// Keys and files may be called anything; a message is one line, and not a long one.
  static std::string one_line(std::string const& text) {
    constexpr std::size_t longest = 1000;
    if (text.size() > longest) return one_line(text.substr(0, longest)) + "...";
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    for (char c : text) {
      auto const byte = static_cast<unsigned char>(c);
      if (byte >= 0x20 && byte != 0x7f) {
        out += c;
      } else {
        (out += "\\x") += digits[byte >> 4];
        out += digits[byte & 15u];
      }
    }
    return out;
  }

  std::vector<Problem> problems_;
  std::vector<std::string> warnings_;
};

}  // namespace zero
