// SPDX-License-Identifier: Apache-2.0
// How zero-checkpoint tells how far long work has come: a bar on a terminal, lines in a log, on the
// error stream alone.
#include <checkpoint/trainers.hpp>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zero_checkpoint/bar.hpp>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace {

using namespace checkpoints;
using zero_checkpoint::Bar;

/// The texts that are drawn over one another, without escape sequences.
std::vector<std::string> drawings(std::string const& text) {
  std::vector<std::string> all(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      all.emplace_back();
    } else if (text[i] == '\x1b') {
      i = text.find_first_of("mK", i);
      REQUIRE(i != std::string::npos);
    } else {
      all.back() += text[i];
    }
  }
  all.erase(all.begin());  // nothing stands before the first
  return all;
}

}  // namespace

TEST_CASE("in a log, long work has a line now and then and one at its end, and short work none") {
  double now = 100;
  Bar::Options const options{.line_seconds = 5, .clock = [&] { return now; }};
  std::ostringstream log;
  {
    Bar bar("verifying", zero::Screen(log), options);
    auto const add = bar.progress();
    for (int second = 1; second <= 20; ++second) {
      now += 1;
      add(1 << 20, 20 << 20);
    }
  }
  CHECK(log.str() ==
        "verifying 5.00 MiB of 20.0 MiB, 15 s left\nverifying 10.0 MiB of 20.0 MiB, 10 s left\n"
        "verifying 15.0 MiB of 20.0 MiB, 5.0 s left\nverifying 20.0 MiB of 20.0 MiB, took 20 s\n");
  log.str("");
  {
    Bar bar("verifying", zero::Screen(log), options);
    auto const add = bar.progress();
    now += 4;
    for (int i = 0; i < 10; ++i) add(1 << 20, 10 << 20);
  }
  CHECK(log.str().empty());
  {  // hours: a line a minute
    Bar bar("importing", zero::Screen(log), options);
    auto const add = bar.progress();
    for (int i = 0; i < 2 * 3600; ++i) {
      now += 1;
      add(1, 4 * 3600);
    }
  }
  std::string const lines = log.str();
  auto const count = std::count(lines.begin(), lines.end(), '\n');
  // 5 s apart at first, a twentieth of the time so far, 60 s apart after twenty minutes.
  CHECK(count >= 120 - 20);
  CHECK(count <= 120 + 20 + 20 * 6);
}

TEST_CASE("on a terminal the bar stays within the width, ten drawings a second, and goes") {
  for (int columns : {1, 5, 20, 60, 200}) {
    CAPTURE(columns);
    double now = 0;
    std::ostringstream terminal;
    {
      Bar bar("comparing",
              zero::Screen(terminal, [&] { return columns; }, {.colours = true, .line_art = false}),
              {.clock = [&] { return now; }});
      auto const add = bar.progress();
      for (int i = 0; i < 1000; ++i) {
        add(1 << 20, 1000 << 20);
        now += 0.01;
      }
    }
    std::vector<std::string> const all = drawings(terminal.str());
    CHECK(all.size() >= 90);
    CHECK(all.size() <= 102);
    for (std::string const& text : all) CHECK(std::ssize(text) <= std::max(columns - 1, 1));
    CHECK(all.back().empty());
    CHECK(terminal.str().ends_with("\r\x1b[K"));
    if (columns < 60) continue;
    CHECK(all[0].find("-- comparing 1.00 MiB of 1000 MiB") != std::string::npos);
    CHECK(all[50].find("##") != std::string::npos);
  }
}

TEST_CASE("a bar that was never told of anything leaves nothing") {
  std::ostringstream terminal;
  {
    Bar bar("exporting", zero::Screen(terminal, [] { return 80; }, {}), {});
  }
  CHECK(terminal.str().empty());
}

#ifdef ZERO_CHECKPOINT_PROGRAM

namespace {

std::string read_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Result {
  int code = -1;
  std::string out{};
  std::string err{};
};

/// Runs the program with its error stream on a terminal of so many columns, or in a file.
Result run(Folder const& folder, std::vector<std::string> const& arguments, bool on_terminal) {
  int const terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  std::string const name = ::ptsname(terminal);
  int const inner = ::open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(inner >= 0);
  ::winsize const size{.ws_row = 24, .ws_col = 70, .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(::ioctl(inner, TIOCSWINSZ, &size) == 0);
  std::vector<char*> command{const_cast<char*>(ZERO_CHECKPOINT_PROGRAM)};
  for (std::string const& argument : arguments)
    command.push_back(const_cast<char*>(argument.data()));
  command.push_back(nullptr);
  std::string const out = folder / "out";
  std::string const err = folder / "err";
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setenv("TERM", "xterm", 1);
    int const to = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int const log = on_terminal ? inner : ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (::chdir(folder.path().c_str()) != 0 || ::dup2(to, 1) < 0 || ::dup2(log, 2) < 0) ::_exit(99);
    ::execv(command[0], command.data());
    ::_exit(99);
  }
  ::close(inner);
  Result result;
  char buffer[4096];
  // Ends with EIO when the program, the last that has the other end, is gone.
  for (ssize_t n = 0; (n = ::read(terminal, buffer, sizeof buffer)) > 0;)
    result.err.append(buffer, at(n));
  ::close(terminal);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = read_file(out);
  if (!on_terminal) result.err = read_file(err);
  // A terminal ends a line with both.
  for (std::size_t i = 0; (i = result.err.find("\r\n", i)) != std::string::npos;)
    result.err.erase(i, 1);
  return result;
}

}  // namespace

TEST_CASE("verify, export, import, reshard and diff draw a bar on a terminal, and print the same") {
  Folder const folder;
  on_ranks({.stage = 3, .world = 2}, [&](AnyTrainer& trainer) {
    trainer.step(0);
    trainer.save(folder / "run", {});
  });
  struct Case {
    std::string bar;
    std::vector<std::string> arguments;
  };
  for (Case const& c : std::vector<Case>{{"verifying", {"verify", "run"}},
                                         {"exporting", {"export", "run", "model"}},
                                         {"importing", {"import", "model", "back"}},
                                         {"writing", {"reshard", "run", "cut", "--world", "3"}},
                                         {"comparing", {"diff", "run", "cut"}}}) {
    CAPTURE(c.bar);
    Result const seen = run(folder, c.arguments, true);
    CHECK(seen.code == 0);
    CHECK(seen.err.find(c.bar + " ") != std::string::npos);
    CHECK(seen.err.find(" of ") != std::string::npos);
    CHECK(seen.err.ends_with("\r\x1b[K"));
    CHECK(seen.err.find('\n') == std::string::npos);
    CHECK(seen.out.find(c.bar) == std::string::npos);
    CHECK(seen.out.find('\r') == std::string::npos);
    if (c.arguments[0] == "import" || c.arguments[0] == "reshard") continue;  // a second one is .1
    Result const logged = run(folder, c.arguments, false);
    CHECK(logged.code == 0);
    CHECK(logged.out == seen.out);
    CHECK(logged.err.empty());
  }
  // What is wrong stands on a line of its own.
  std::ofstream(folder / "run/step-00000001/rank-1-of-2.safetensors", std::ios::app) << "x";
  Result const wrong = run(folder, {"verify", "run"}, true);
  CHECK(wrong.code == 2);
  CHECK(drawings("\r" + wrong.err).back().find("rank-1-of-2.safetensors") != std::string::npos);
}

TEST_CASE("results that cannot be written are an error, not a success") {
  if (::access("/dev/full", W_OK) != 0) {
    MESSAGE("skipped: this system has no /dev/full");
    return;
  }
  Folder const folder;
  on_ranks({}, [&](AnyTrainer& trainer) { trainer.save(folder / "run", {}); });
  std::string const command = std::string("'") + ZERO_CHECKPOINT_PROGRAM + "' inspect '" +
                              folder / "run" + "' >/dev/full 2>'" + folder / "err" + "'";
  int const status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(read_file(folder / "err").find("cannot write the standard output") != std::string::npos);
}

#endif
