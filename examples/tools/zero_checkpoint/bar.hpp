// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far long work has come, for the person who waits: on a terminal a bar, drawn again in place
// and gone at the end; in a log, plain lines now and then. On the error stream, so that what
// scripts read is the same with and without it.

#include <zero/core/size.hpp>
#include <zero/report/number_text.hpp>
#include <zero/report/screen.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

namespace zero_checkpoint {

/// Bytes done of all bytes.
///
/// - Terminal: one line, drawn at most ten times a second, always within the terminal's width.
/// - Log: a line whenever `line_seconds` have passed; long work slows down to one a minute. Work
///   that is over before the first one has none.
class Bar {
 public:
  /// How often it is drawn.
  struct Options {
    double line_seconds = 5;    ///< shortest time between two lines of a log
    double draw_seconds = 0.1;  ///< shortest time between two drawings on a terminal
    /// Seconds from any fixed moment on, never going back.
    std::function<double()> clock = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
    };
  };

  /// @param what is done: "verifying"
  explicit Bar(std::string what) : Bar(std::move(what), zero::Screen(stderr), Options{}) {}
  Bar(std::string what, zero::Screen screen, Options options)
      : what_(std::move(what)), screen_(std::move(screen)), options_(std::move(options)) {
    start_ = shown_ = options_.clock();
  }
  Bar(Bar const&) = delete;
  Bar& operator=(Bar const&) = delete;
  ~Bar() {
    try {
      if (open_) screen_.write("\r\x1b[K");
    } catch (...) {  // a stream that throws must not end a program that unwinds
    }
  }

  /// What draws it; this outlives it.
  auto progress() {
    return [this](zero::Index bytes, zero::Index total) { add(bytes, total); };
  }

 private:
  void add(zero::Index bytes, zero::Index total) {
    done_ += bytes;
    double const now = options_.clock();
    bool const first = screen_.terminal() && !open_;
    bool const ends = done_ >= total && lines_ > 0;  // of a log that has begun to tell
    if (!first && !ends && now - shown_ < interval(now)) return;
    shown_ = now;
    double const part = total > 0 ? static_cast<double>(done_) / static_cast<double>(total) : 1.0;
    double const share = std::clamp(part, 0.0, 1.0);
    std::string text = what_ + " " + zero::human_bytes(done_) + " of " + zero::human_bytes(total);
    double const seconds = now - start_;
    if (share >= 1) {
      text += ", took " + zero::human_seconds(seconds);
    } else if (share > 0) {
      text += ", " + zero::human_seconds(seconds / share - seconds) + " left";
    }
    if (!screen_.terminal()) {
      ++lines_;
      return screen_.write(text + "\n");
    }
    // One column stays free: after a character in the last one some terminals start a new line.
    int const columns = std::max(screen_.columns() - 1, 1);
    int const room = columns - static_cast<int>(text.size()) - 1;
    if (room >= 4) {
      text = drawn(std::min(room, widest), share) + " " + text;
    } else {
      text.resize(std::min(text.size(), zero::at(columns)));
    }
    screen_.write("\r" + text + "\x1b[K");
    open_ = true;
  }
  double interval(double now) const {
    if (screen_.terminal()) return options_.draw_seconds;
    return std::max(options_.line_seconds, std::min((now - start_) / 20, 60.0));
  }
  /// A bar of so many columns.
  std::string drawn(int columns, double share) const {
    int const full = static_cast<int>(share * columns);
    zero::Screen::Look const look = screen_.look();
    auto const painted = [&](int count, char const* piece, char const* colour) {
      std::string bar;
      for (int i = 0; i < count; ++i) bar += piece;
      return look.colours && count > 0 ? colour + bar + "\x1b[0m" : bar;
    };
    return painted(full, look.line_art ? "\u2501" : "#", "\x1b[32m") +
           painted(columns - full, look.line_art ? "\u2500" : "-", "\x1b[2m");
  }

  static constexpr int widest = 30;

  std::string what_;
  zero::Screen screen_;
  Options options_;
  zero::Index done_ = 0;
  double start_ = 0;
  double shown_ = 0;
  int lines_ = 0;
  bool open_ = false;  // the cursor stands at the end of a drawn line
};

}  // namespace zero_checkpoint
