// SPDX-License-Identifier: Apache-2.0
#include <zero/report/progress.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using zero::Index;
using zero::Progress;
using zero::Screen;
using zero::StepRecord;

namespace {

StepRecord record(Index step) {
  StepRecord r;
  r.step = step;
  r.loss = 2.5;
  r.learning_rate = 0.001;
  r.gradient_norm = 0.5;
  r.tokens_per_s = 1000;
  return r;
}

/// What a terminal shows: the rows, the last being the one that the cursor is in. Knows what
/// Progress uses: carriage return, erase to the end of the line, end of line, colours.
struct Shown {
  std::vector<std::string> rows{""};
  std::size_t widest = 0;

  explicit Shown(std::string const& text) {
    std::size_t column = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') {
        column = 0;
      } else if (text[i] == '\n') {
        rows.emplace_back();
        column = 0;
      } else if (text.compare(i, 3, "\x1b[K") == 0) {
        rows.back().resize(column);
        i += 2;
      } else if (text[i] == '\x1b') {
        i = text.find('m', i);
      } else {
        if (rows.back().size() <= column) rows.back().resize(column + 1, ' ');
        rows.back()[column++] = text[i];
      }
      widest = std::max(widest, column);
    }
  }
};

/// A run under a clock that only the test moves.
struct Run {
  double now = 1000;
  int width = 90;
  std::ostringstream os;

  Progress::Options options() {
    return {.line_seconds = 5, .draw_seconds = 0.1, .clock = [this] { return now; }};
  }
  Screen log() { return Screen(os); }
  Screen terminal() {
    return {os, [this] { return width; }, {}};
  }
  Shown shown() const { return Shown(os.str()); }
  /// The lines of a log, the ones that are ended.
  std::vector<std::string> lines() const {
    auto rows = shown().rows;
    rows.pop_back();
    return rows;
  }
};

}  // namespace

TEST_CASE("a log has the first step, the last one and lines some time apart") {
  Run run;
  Progress progress(100, run.log(), run.options());
  for (Index step = 1; step <= 100; ++step) {
    run.now += 0.5;
    progress.show(record(step));
  }
  progress.finish();
  auto const lines = run.lines();
  REQUIRE(lines.size() == 11);
  CHECK(lines[0].starts_with("step   1/100  loss 2.5000  norm 0.500  lr 1.00e-03  1.00k tok/s"));
  CHECK(lines[0].ends_with("ETA 50 s"));
  CHECK(lines[1].starts_with("step  11/100 "));
  CHECK(lines[2].starts_with("step  21/100 "));
  CHECK(lines[9].starts_with("step  91/100 "));
  CHECK(lines[9].ends_with("ETA 4.5 s"));
  CHECK(lines[10].starts_with("step 100/100 "));
  CHECK(lines[10].ends_with("took 50 s"));
  CHECK(run.os.str().find_first_of("\r\x1b") == std::string::npos);
}

TEST_CASE("every validation is in the log, at its own step only") {
  Run run;
  Progress progress(100, run.log(), run.options());
  for (Index step = 1; step <= 30; ++step) {
    run.now += 0.01;
    StepRecord r = record(step);
    if (step % 10 == 0) r.validation_loss = 3;
    progress.show(r);
  }
  auto const lines = run.lines();
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].find("val") == std::string::npos);
  for (std::size_t i = 1; i < 4; ++i) CHECK(lines[i].find("val 3.0000") != std::string::npos);
  run.now += 10;
  progress.show(record(31));
  CHECK(run.lines().back().find("val") == std::string::npos);
}

TEST_CASE("a hundred thousand quick steps and a run of days do not flood a log") {
  Run quick;
  Progress fast(100000, quick.log(), quick.options());
  for (Index step = 1; step <= 100000; ++step) {
    quick.now += 1e-4;
    fast.show(record(step));
  }
  CHECK(quick.lines().size() == 3);  // ten seconds

  Run run;
  Progress slow(100000, run.log(), run.options());
  for (Index step = 1; step <= 100000; ++step) {
    run.now += 2;
    slow.show(record(step));
  }
  CHECK(run.lines().size() < 200000 / 60 + 60);
  CHECK(run.lines().size() > 200000 / 60 - 60);
}

TEST_CASE("line_seconds 0 is a line a step") {
  Run run;
  auto options = run.options();
  options.line_seconds = 0;
  Progress progress(100, run.log(), options);
  for (Index step = 1; step <= 100; ++step) progress.show(record(step));
  CHECK(run.lines().size() == 100);
}

TEST_CASE("a run that stops early shows the step at which it did, once") {
  Run run;
  {
    Progress progress(100, run.log(), run.options());
    for (Index step = 1; step <= 7; ++step) progress.show(record(step));
    CHECK(run.lines().size() == 1);
  }
  REQUIRE(run.lines().size() == 2);
  CHECK(run.lines().back().starts_with("step   7/100"));
}

TEST_CASE("a run without a step shows nothing") {
  Run run;
  { Progress const progress(100, run.terminal(), run.options()); }
  { Progress const progress(100, run.log(), run.options()); }
  CHECK(run.os.str().empty());
}

TEST_CASE("a terminal shows one line, drawn in place, that ends when the run does") {
  Run run;
  run.width = 140;
  Progress progress(200, run.terminal(), run.options());
  for (Index step = 1; step <= 200; ++step) {
    run.now += 0.5;
    StepRecord r = record(step);
    if (step == 60) r.validation_loss = 3;
    if (step >= 80) r.skipped_steps = 1;
    progress.show(r);
    REQUIRE(run.shown().rows.size() == 1);
    if (step == 50) CHECK(run.shown().rows[0].find("val") == std::string::npos);
  }
  CHECK(run.shown().rows[0].starts_with("100% ####"));
  CHECK(run.shown().rows[0].find("val 3.0000") != std::string::npos);
  CHECK(run.shown().rows[0].find("skipped 1") != std::string::npos);
  CHECK(run.shown().rows[0].ends_with("took 1 min 40 s"));
  progress.finish();
  CHECK(run.os.str().ends_with("\n"));
  std::size_t const size = run.os.str().size();
  progress.finish();
  CHECK(run.os.str().size() == size);
}

TEST_CASE("a terminal is drawn ten times a second at most, and at once for a validation") {
  Run run;
  auto const drawings = [&] {
    std::string const text = run.os.str();
    return std::count(text.begin(), text.end(), '\r');
  };
  Progress progress(100000, run.terminal(), run.options());
  for (Index step = 1; step <= 10000; ++step) {
    run.now += 1e-4;
    progress.show(record(step));
  }
  CHECK(drawings() >= 9);
  CHECK(drawings() <= 11);
  auto const before = drawings();
  StepRecord r = record(10001);
  r.validation_loss = 3;
  progress.show(r);
  CHECK(drawings() == before + 1);
}

TEST_CASE("a terminal that is made narrower is not written beyond its width") {
  Run run;
  Progress progress(1000, run.terminal(), run.options());
  Index step = 0;
  for (run.width = 120; run.width >= 1; --run.width) {
    std::size_t const begin = run.os.str().size();
    run.now += 1;
    progress.show(record(++step));
    auto const width = static_cast<std::size_t>(std::max(run.width - 1, 1));
    REQUIRE(Shown(run.os.str().substr(begin)).widest <= width);
  }
}

TEST_CASE("a shorter line leaves nothing of the longer one before it") {
  Run run;
  Progress progress(0, run.terminal(), run.options());
  StepRecord r = record(1);
  r.skipped_steps = 1;
  run.now += 1;
  progress.show(r);
  CHECK(run.shown().rows[0].ends_with("tok/s  skipped 1"));
  run.now += 1;
  progress.show(record(2));
  CHECK(run.shown().rows[0].ends_with("tok/s"));
}

TEST_CASE("a note stands above the bar and the bar stays") {
  Run run;
  run.width = 140;
  Progress progress(100, run.terminal(), run.options());
  progress.note("before");
  run.now += 1;
  progress.show(record(1));
  progress.note("an extra slot was made");
  auto const rows = run.shown().rows;
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == "before");
  CHECK(rows[1] == "an extra slot was made");
  CHECK(rows[2].starts_with("  1% ---"));
}

TEST_CASE("an exception's text does not start behind the bar") {
  Run run;
  try {
    Progress progress(100, run.terminal(), run.options());
    progress.show(record(1));
    throw std::runtime_error("rank 3 is gone");
  } catch (std::exception const& error) {
    run.os << error.what();
  }
  CHECK(run.shown().rows.back() == "rank 3 is gone");
}

TEST_CASE("the time left is smooth: a slow step and a pause for an evaluation do not throw it") {
  Run run;
  auto options = run.options();
  options.line_seconds = 0;
  Progress progress(1000, run.log(), options);
  auto const left = [&] {  // minutes
    std::string const line = run.lines().back();
    return std::stoi(line.substr(line.find("ETA ") + 4));
  };
  for (Index step = 1; step <= 200; ++step) {
    run.now += 1;
    progress.show(record(step));
  }
  CHECK(left() == 13);  // 800 s
  run.now += 6;
  progress.show(record(201));
  CHECK(left() >= 13);
  CHECK(left() <= 15);
}

TEST_CASE("a run that goes on from a later step estimates from its own steps") {
  Run run;
  Progress progress(1000, run.log(), run.options());
  run.now += 2;
  progress.show(record(991));
  CHECK(run.lines().back().ends_with("ETA 18 s"));
}

TEST_CASE("a step shown again with its validation counts once") {
  Run run;
  auto options = run.options();
  options.line_seconds = 0;
  Progress progress(11, run.log(), options);
  run.now += 1;
  progress.show(record(1));
  StepRecord r = record(1);
  r.validation_loss = 3;
  run.now += 1;
  progress.show(r);
  CHECK(run.lines().size() == 2);
  CHECK(run.lines().back().find("val 3.0000") != std::string::npos);
  CHECK(run.lines().back().ends_with("ETA 21 s"));  // ten steps of 2 s, and a little for the fading
}
