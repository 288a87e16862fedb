// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where text for people goes: a terminal, on which a line can be drawn again, or a log, where it
// cannot. A failure to write is not reported: nobody's training should end because a window closed.

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace zero {

/// A stream of text and what its reader can show. Refers to the file or stream it was made from.
class Screen {
 public:
  /// What a terminal can show.
  struct Look {
    bool colours = false;   ///< by escape sequences
    bool line_art = false;  ///< characters beyond ASCII, in UTF-8
  };

  /// A file, such as stderr. A terminal is found by isatty; TERM=dumb or no TERM makes it a log,
  /// NO_COLOR (not empty) takes the colours, a locale without UTF-8 the line art.
  explicit Screen(std::FILE* file)
      : write_([file](std::string_view text) {
          (void)std::fwrite(text.data(), 1, text.size(), file);
          (void)std::fflush(file);
        }) {
    int const descriptor = ::fileno(file);
    std::string const term = environment("TERM");
    if (descriptor < 0 || ::isatty(descriptor) == 0 || term.empty() || term == "dumb") return;
    columns_ = [descriptor] { return width_of(descriptor); };
    look_ = {.colours = environment("NO_COLOR").empty(), .line_art = utf8_locale()};
  }

  /// A log of plain lines.
  explicit Screen(std::ostream& stream)
      : write_([&stream](std::string_view text) { stream << text << std::flush; }) {}

  /// A terminal behind a stream, whose width in columns is asked for at each drawing.
  Screen(std::ostream& stream, std::function<int()> columns, Look look) : Screen(stream) {
    columns_ = std::move(columns);
    look_ = look;
  }

  /// Whether a line can be drawn again in place.
  bool terminal() const { return static_cast<bool>(columns_); }

  /// Width of the terminal now; 80 for a log.
  int columns() const { return columns_ ? columns_() : 80; }

  Look look() const { return look_; }  ///< what its reader can show

  /// Writes the text and flushes it.
  void write(std::string_view text) const { write_(text); }

 private:
  static std::string environment(char const* name) {
    char const* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    return value == nullptr ? "" : value;
  }

  /// The first of these that is set decides (POSIX, Base Definitions 8.2). setlocale would tell as
  /// well, but only where the host program has called it, and calling it is not ours.
  static bool utf8_locale() {
    for (char const* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
      std::string locale = environment(name);
      if (locale.empty()) continue;
      for (char& c : locale) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
    }
    return false;
  }

  static int width_of(int descriptor) {
    ::winsize size{};
    if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    std::string const text = environment("COLUMNS");
    int columns = 0;
    (void)std::from_chars(text.data(), text.data() + text.size(), columns);
    return columns > 0 ? columns : 80;
  }

  std::function<void(std::string_view)> write_;
  std::function<int()> columns_;
  Look look_;
};

}  // namespace zero
