// SPDX-License-Identifier: Apache-2.0
#include <zero/report/screen.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <sstream>
#include <string>

using zero::Screen;

namespace {

/// Sets a variable of the environment, or takes it away, until the end of the scope.
class Variable {
 public:
  Variable(char const* name, char const* value) : name_(name) {
    if (char const* before = ::getenv(name)) before_ = before;
    set(value);
  }
  Variable(Variable const&) = delete;
  Variable& operator=(Variable const&) = delete;
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }

 private:
  void set(char const* value) {
    if (value != nullptr) {
      ::setenv(name_, value, 1);
    } else {
      ::unsetenv(name_);
    }
  }
  char const* name_;
  std::optional<std::string> before_;
};

/// A terminal of a given width; what the program writes to `file` is read back with text().
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(master_ >= 0);
    REQUIRE(::grantpt(master_) == 0);
    REQUIRE(::unlockpt(master_) == 0);
    file = std::fopen(::ptsname(master_), "r+");
    REQUIRE(file != nullptr);
    resize(columns);
  }
  PseudoTerminal(PseudoTerminal const&) = delete;
  PseudoTerminal& operator=(PseudoTerminal const&) = delete;
  ~PseudoTerminal() {
    std::fclose(file);
    ::close(master_);
  }
  void resize(unsigned short columns) {
    ::winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    REQUIRE(::ioctl(master_, TIOCSWINSZ, &size) == 0);
  }
  std::string text() {
    std::string buffer(256, '\0');
    ssize_t const count = ::read(master_, buffer.data(), buffer.size());
    return count > 0 ? buffer.substr(0, static_cast<std::size_t>(count)) : "";
  }
  std::FILE* file = nullptr;

 private:
  int master_;
};

}  // namespace

TEST_CASE("a terminal is drawn on in place, at the width it has at that moment") {
  Variable const term("TERM", "xterm-256color"), no_color("NO_COLOR", nullptr);
  Variable const locale("LC_ALL", "en_US.UTF-8");
  PseudoTerminal pty(91);
  Screen const screen(pty.file);
  CHECK(screen.terminal());
  CHECK(screen.columns() == 91);
  pty.resize(40);
  CHECK(screen.columns() == 40);
  CHECK(screen.look().colours);
  CHECK(screen.look().line_art);
  screen.write("abc");
  CHECK(pty.text() == "abc");
}

TEST_CASE("NO_COLOR takes the colours, a locale without UTF-8 the line art") {
  PseudoTerminal pty(80);
  Variable const term("TERM", "xterm");
  {
    Variable const no_color("NO_COLOR", "1"), locale("LC_ALL", "C.utf8");
    CHECK(!Screen(pty.file).look().colours);
    CHECK(Screen(pty.file).look().line_art);
  }
  {
    Variable const no_color("NO_COLOR", ""), locale("LC_ALL", "C"), lang("LANG", "de_DE.UTF-8");
    CHECK(Screen(pty.file).look().colours);
    CHECK(!Screen(pty.file).look().line_art);
  }
  {
    Variable const all("LC_ALL", nullptr), type("LC_CTYPE", ""), lang("LANG", "de_DE.UTF-8");
    CHECK(Screen(pty.file).look().line_art);
  }
}

TEST_CASE("a dumb terminal and one without a name are logs") {
  PseudoTerminal pty(80);
  for (char const* name : {"dumb", "", static_cast<char const*>(nullptr)}) {
    Variable const term("TERM", name);
    CHECK(!Screen(pty.file).terminal());
  }
}

TEST_CASE("a terminal that does not tell its width is as wide as COLUMNS says, else 80") {
  PseudoTerminal pty(0);
  Variable const term("TERM", "xterm");
  Screen const screen(pty.file);
  Variable const columns("COLUMNS", "53");
  CHECK(screen.columns() == 53);
  Variable const nonsense("COLUMNS", "many");
  CHECK(screen.columns() == 80);
}

TEST_CASE("a file is a log, and each text is in it at once") {
  Variable const term("TERM", "xterm");
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  Screen const screen(file);
  CHECK(!screen.terminal());
  CHECK(!screen.look().colours);
  screen.write("line\n");
  CHECK(::lseek(::fileno(file), 0, SEEK_END) == 5);
  std::fclose(file);
}

TEST_CASE("a stream is a log unless a width is given") {
  std::ostringstream os;
  CHECK(!Screen(os).terminal());
  Screen const screen(os, [] { return 33; }, {.colours = true, .line_art = false});
  CHECK(screen.terminal());
  CHECK(screen.columns() == 33);
  CHECK(screen.look().colours);
  screen.write("x");
  CHECK(os.str() == "x");
}
