// SPDX-License-Identifier: Apache-2.0
#pragma once
// A progress bar on the error stream, where that is a terminal.

#include <zero/core/size.hpp>
#include <zero/report/number_text.hpp>
#include <zero/report/screen.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace zero_checkpoint {

/// Bytes done of all bytes; drawn at most ten times a second, and gone at the end.
class Bar {
 public:
  explicit Bar(std::string what) : what_(std::move(what)) {}
  Bar(Bar const&) = delete;
  Bar& operator=(Bar const&) = delete;
  ~Bar() {
    if (drawn_) screen_.write("\r" + std::string(zero::at(screen_.columns() - 1), ' ') + "\r");
  }

  /// What draws it; this outlives it.
  auto progress() {
    return [this](zero::Index bytes, zero::Index total) { add(bytes, total); };
  }

 private:
  void add(zero::Index bytes, zero::Index total) {
    done_ += bytes;
    auto const now = std::chrono::steady_clock::now();
    if (!screen_.terminal() || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    drawn_ = true;
    double const part = total > 0 ? static_cast<double>(done_) / static_cast<double>(total) : 1.0;
    std::string const text =
        what_ + " " + zero::human_bytes(done_) + " of " + zero::human_bytes(total);
    int const room = std::max(screen_.columns() - static_cast<int>(text.size()) - 4, 0);
    int const full = static_cast<int>(std::min(part, 1.0) * room);
    screen_.write("\r" + text + " [" + std::string(zero::at(full), '#') +
                  std::string(zero::at(room - full), ' ') + "]");
  }

  zero::Screen screen_{stderr};
  std::string what_;
  zero::Index done_ = 0;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace zero_checkpoint
