// SPDX-License-Identifier: Apache-2.0
#pragma once
// SIGTERM and SIGINT as a question that a loop asks between steps.

#include <zero/core/error.hpp>

#include <array>
#include <atomic>
#include <csignal>
#include <string_view>

namespace zero {

/// While one lives, the first SIGTERM or SIGINT is noted, and a second one ends the process at once
/// as it would without: the default action is back from the first on. One a process, made before
/// its ranks. Several ranks may have had a signal at different steps, or one rank alone:
/// `agreement.any(stop.received() != 0)` (agree.hpp) makes all stop after the same one.
class StopSignal {
 public:
  /// @throws Error when another one lives
  StopSignal() {
    if (alive().exchange(true)) throw Error("StopSignal: another one handles the signals already");
    number() = 0;
    struct sigaction note {};
    note.sa_handler = &StopSignal::note;
    sigemptyset(&note.sa_mask);
    for (int signal : signals) sigaddset(&note.sa_mask, signal);
    note.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &note, &before_[i]);
  }
  StopSignal(StopSignal const&) = delete;
  StopSignal& operator=(StopSignal const&) = delete;
  ~StopSignal() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
    alive() = false;
  }

  /// The signal that came, or 0. May be asked from every thread.
  int received() const { return number(); }
  /// Its name, for messages.
  std::string_view name() const {
    int const signal = number();
    return signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "no signal";
  }

 private:
  static constexpr std::array<int, 2> signals{SIGTERM, SIGINT};

  static void note(int signal) {
    number() = signal;
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    for (int s : signals) sigaction(s, &usual, nullptr);
  }
  static std::atomic<int>& number() {
    static constinit std::atomic<int> signal{0};
    static_assert(std::atomic<int>::is_always_lock_free, "a handler may write it");
    return signal;
  }
  static std::atomic<bool>& alive() {
    static constinit std::atomic<bool> one{false};
    return one;
  }

  std::array<struct sigaction, 2> before_{};
};

}  // namespace zero
