// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a run is doing, for the person who waits: on a terminal one line with a bar, drawn again in
// place; in a log, plain lines now and then. One rank holds it; the others have none.

#include <zero/report/pace.hpp>
#include <zero/report/progress_line.hpp>
#include <zero/report/screen.hpp>
#include <zero/report/step_record.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace zero {

/// Shows steps as they are made.
///
/// - Terminal: one line, drawn at most ten times a second and for every validation, with the last
///   validation loss that is known; always within the terminal's width of that moment.
/// - Log: the first step, the last one, every validation, and between them a line whenever
///   `line_seconds` have passed; a long run slows down to one a minute.
///
/// Time starts with construction, so it belongs right before the first step.
class Progress {
 public:
  /// How often it is drawn.
  struct Options {
    double line_seconds = 5;    ///< shortest time between two lines of a log; 0: a line a step
    double draw_seconds = 0.1;  ///< shortest time between two drawings on a terminal
    /// Seconds from any fixed moment on, never going back.
    std::function<double()> clock = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
    };
  };

  /// @param total_steps the step that ends the run; 0 when it is not known (no bar, no ETA)
  /// @param screen where to
  /// @param options how often
  Progress(Index total_steps, Screen screen, Options options)
      : total_(total_steps), screen_(std::move(screen)), options_(std::move(options)) {
    start_ = seen_ = shown_ = options_.clock();
  }
  /// With the default options.
  Progress(Index total_steps, Screen screen) : Progress(total_steps, std::move(screen), {}) {}
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  ~Progress() {
    try {
      finish();
    } catch (...) {  // a stream that throws must not end a program that unwinds
    }
  }

  /// Takes in a step; with a validation that was made after it was shown, the same step again.
  void show(StepRecord const& record) {
    double const now = options_.clock();
    bool const first = !record_;
    Index const before = first ? record.step - 1 : record_->step;
    auto const steps = static_cast<double>(std::max<Index>(record.step - before, 0));
    pace_.add(now - seen_, steps, record.tokens_per_s);
    seen_ = now;
    record_ = record;
    if (record.validation_loss) validation_ = record.validation_loss;
    pending_ = true;
    bool const due = first || record.step == total_ || record.validation_loss.has_value();
    if (due || now - shown_ >= interval()) draw();
  }

  /// Writes a line of text without disturbing the bar.
  void note(std::string_view text) {
    std::string const line = std::string(text) + "\n";
    screen_.write(open_ ? erase() + line : line);
    if (open_) draw();
  }

  /// Shows the last step if it was not, and ends the line of a terminal. The destructor does the
  /// same, so that what an exception prints starts on a line of its own.
  void finish() {
    if (pending_) draw();
    if (open_) screen_.write("\n");
    open_ = false;
  }

 private:
  static std::string erase() { return "\r\x1b[K"; }

  double interval() const {
    if (screen_.terminal()) return options_.draw_seconds;
    if (options_.line_seconds <= 0) return 0;
    return std::max(options_.line_seconds, std::min((seen_ - start_) / 20, 60.0));
  }

  void draw() {
    shown_ = seen_;
    pending_ = false;
    bool const terminal = screen_.terminal();
    StepRecord record = *record_;
    if (terminal) record.validation_loss = validation_;
    double const left = static_cast<double>(total_ - record.step) * pace_.seconds_per_step();
    ProgressLine const line(record, total_, pace_.tokens_per_s(),
                            record.step < total_ ? left : seen_ - start_, screen_.look());
    if (!terminal) return screen_.write(line.plain() + "\n");
    // One column stays free: after a character in the last one some terminals start a new line.
    // The rest of the line is erased after the text and not before, so that nothing flickers.
    screen_.write("\r" + line.fitted(std::max(screen_.columns() - 1, 1)) + "\x1b[K");
    open_ = true;
  }

  Index total_;
  Screen screen_;
  Options options_;
  Pace pace_;
  std::optional<StepRecord> record_;  // the last one
  std::optional<double> validation_;  // the last one that is known
  double start_ = 0, seen_ = 0, shown_ = 0;
  bool pending_ = false;  // the last step was not shown yet
  bool open_ = false;     // the cursor stands at the end of a drawn line
};

}  // namespace zero
