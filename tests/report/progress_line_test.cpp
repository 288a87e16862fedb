// SPDX-License-Identifier: Apache-2.0
#include <zero/report/progress_line.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>

using zero::ProgressLine;
using zero::Screen;
using zero::StepRecord;

namespace {

StepRecord record() {
  StepRecord r;
  r.step = 12;
  r.loss = 2.34567;
  r.validation_loss = 2.5;
  r.learning_rate = 0.0012;
  r.gradient_norm = 0.8312;
  r.skipped_steps = 1;
  return r;
}

ProgressLine line(Screen::Look look = {}) { return {record(), 320, 12345, 80, look}; }

/// Columns that a text takes: escape sequences take none, a UTF-8 character one.
int columns(std::string const& text) {
  int count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      count += (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("a plain line has every part") {
  CHECK(line().plain() ==
        "step  12/320  loss 2.3457  val 2.5000  norm 0.831  lr 1.20e-03  12.3k tok/s  skipped 1  "
        "ETA 1 min 20 s");
}

TEST_CASE("a loss scale is shown where there is one") {
  StepRecord r = record();
  r.loss_scale = 32768;
  CHECK(ProgressLine(r, 320, 12345, 80, {}).plain() ==
        "step  12/320  loss 2.3457  val 2.5000  norm 0.831  lr 1.20e-03  scale 32768  12.3k tok/s  "
        "skipped 1  ETA 1 min 20 s");
}

TEST_CASE("what is not known is left out") {
  StepRecord r = record();
  r.validation_loss = {};
  r.skipped_steps = 0;
  double const unknown = std::numeric_limits<double>::quiet_NaN();
  CHECK(ProgressLine(r, 0, unknown, unknown, {}).plain() ==
        "step 12  loss 2.3457  norm 0.831  lr 1.20e-03");
  CHECK(ProgressLine(r, 0, unknown, unknown, {}).fitted(79) ==
        "step 12  loss 2.3457  norm 0.831  lr 1.20e-03");
}

TEST_CASE("the last step tells what the run took") {
  StepRecord r = record();
  r.step = 320;
  CHECK(ProgressLine(r, 320, 100, 125, {}).plain().ends_with("  took 2 min 05 s"));
}

TEST_CASE("numbers that are not finite or out of all bounds keep the line readable") {
  StepRecord r = record();
  r.loss = std::numeric_limits<double>::quiet_NaN();
  r.validation_loss = 1e30;
  r.gradient_norm = std::numeric_limits<double>::infinity();
  CHECK(ProgressLine(r, 320, 0, 80, {})
            .plain()
            .starts_with("step  12/320  loss nan  val 1.000e+30  norm inf"));
  r.gradient_norm = 1e-5;
  CHECK(ProgressLine(r, 320, 0, 80, {}).plain().find("norm 1.00e-05") != std::string::npos);
}

TEST_CASE("a wide terminal has every part in full and the bar takes the rest") {
  CHECK(line().fitted(200) ==
        "  3% #-----------------------------  step  12/320  loss 2.3457  val 2.5000  norm 0.831  "
        "lr 1.20e-03  12.3k tok/s  skipped 1  ETA 1 min 20 s");
  CHECK(line().fitted(120) ==
        "  3% -----------  step  12/320  loss 2.3457  val 2.5000  norm 0.831  lr 1.20e-03  "
        "12.3k tok/s  skipped 1  ETA 1 min 20 s");
}

TEST_CASE("80 columns have every part of a healthy run, in brief") {
  StepRecord r = record();
  r.skipped_steps = 0;
  CHECK(ProgressLine(r, 320, 12345, 80, {}).fitted(79) ==
        "-------  12/320 loss 2.346 val 2.500 norm 0.83 lr 1.2e-03 12.3k tok/s ETA 1m20s");
}

TEST_CASE("where room is short the parts go one by one and the step stays") {
  CHECK(line().fitted(79) ==
        "--------  12/320 loss 2.346 val 2.500 norm 0.83 12.3k tok/s skipped 1 ETA 1m20s");
  CHECK(line().fitted(70) ==
        "---------  12/320 loss 2.346 val 2.500 12.3k tok/s skipped 1 ETA 1m20s");
  CHECK(line().fitted(60) == "---------  12/320 loss 2.346 12.3k tok/s skipped 1 ETA 1m20s");
  CHECK(line().fitted(48) == "---------  12/320 loss 2.346 skipped 1 ETA 1m20s");
  CHECK(line().fitted(40) == "-----------  12/320 loss 2.346 ETA 1m20s");
  CHECK(line().fitted(30) == "-----------  12/320 loss 2.346");
  CHECK(line().fitted(20) == " 12/320 loss 2.346");
  CHECK(line().fitted(10) == " 12/320");
  CHECK(line().fitted(4) == " 12/");
}

TEST_CASE("no width is ever exceeded, with and without colours and line art") {
  for (bool colours : {false, true}) {
    for (bool line_art : {false, true}) {
      for (int width = 1; width <= 200; ++width) {
        REQUIRE(columns(line({colours, line_art}).fitted(width)) <= width);
      }
    }
  }
}

TEST_CASE("colours and line art change nothing but the look") {
  std::string const art = line({.colours = false, .line_art = true}).fitted(90);
  std::string const plain = line().fitted(90);
  CHECK(art.find("\u2500") != std::string::npos);
  CHECK(columns(art) == columns(plain));
  CHECK(columns(line({.colours = true, .line_art = true}).fitted(90)) == columns(plain));
  std::string const coloured = line({.colours = true, .line_art = false}).fitted(120);
  CHECK(coloured.find("\x1b[33mskipped 1\x1b[0m") != std::string::npos);
  CHECK(plain.find('\x1b') == std::string::npos);
}

TEST_CASE("the bar is empty at the start, full at the end and never before") {
  StepRecord r = record();
  auto const bar = [&](zero::Index step, zero::Index total) {
    r.step = step;
    std::string const text = ProgressLine(r, total, 0, 0, {}).fitted(200);
    return text.substr(0, text.find("  step"));
  };
  CHECK(bar(0, 1000) == "  0% " + std::string(30, '-'));
  CHECK(bar(500, 1000) == " 50% " + std::string(15, '#') + std::string(15, '-'));
  CHECK(bar(999, 1000) == " 99% " + std::string(29, '#') + "-");
  CHECK(bar(1000, 1000) == "100% " + std::string(30, '#'));
  CHECK(bar(1001, 1000) == "100% " + std::string(30, '#'));
}
