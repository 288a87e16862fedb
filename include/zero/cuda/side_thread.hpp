// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls that may never return, made on a thread that is left to itself when they do not.

#include <zero/core/error.hpp>

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace zero::cuda::detail {

/// The threads of run_aside. A process that exits waits ten seconds for those that have not ended,
/// since what they are in, CUDA and NCCL, is taken down behind them; where they do not end it says
/// so and ends at once, with 1. What a library keeps for a thread goes when the thread has
/// returned, and may wait for other threads: no lock is held meanwhile. A child that was forked has
/// none of them.
class SideThreads {
 public:
  static constexpr int seconds_at_exit = 10;

  /// Never destroyed: what is as old as the process may still begin one.
  static SideThreads& of_process() {
    static SideThreads* const threads = [] {
      static_cast<void>(pthread_atfork([] { of_process().mutex_.lock(); },
                                       [] { of_process().mutex_.unlock(); },
                                       [] {
                                         of_process().threads_.clear();
                                         of_process().mutex_.unlock();
                                       }));
      return new SideThreads;
    }();
    return *threads;
  }

  /// Runs f, which throws nothing, on a thread of its own. What ended threads leave to the system
  /// is given back at the next of these. @throws Error where the system gives none; std::bad_alloc
  void begin(std::function<void()> f) {
    auto own = std::make_unique<std::function<void()>>(std::move(f));
    std::lock_guard const lock(mutex_);
    // Also while the process exits, behind a wait: it waits once more.
    if (!waits_at_exit_) waits_at_exit_ = std::atexit([] { of_process().wait_at_exit(); }) == 0;
    threads_.remove_if([](pthread_t thread) { return pthread_tryjoin_np(thread, nullptr) == 0; });
    threads_.emplace_back();
    int const status = pthread_create(&threads_.back(), nullptr, run, own.get());
    if (status != 0) {
      threads_.pop_back();
      throw Error("cuda: the system gave no thread: " + zero::detail::system_text(status));
    }
    static_cast<void>(own.release());  // its own now
  }

 private:
  SideThreads() = default;
  static void* run(void* f) noexcept {
    std::unique_ptr<std::function<void()>> const own(static_cast<std::function<void()>*>(f));
    (*own)();
    return nullptr;
  }
  /// What was printed is seen though the process may be ended while it waits. Not where another
  /// thread is writing.
  static void flush_output() noexcept {
    if (ftrylockfile(stdout) != 0) return;
    static_cast<void>(std::fflush(stdout));
    funlockfile(stdout);
  }
  void wait_at_exit() noexcept {
    using Clock = std::chrono::steady_clock;
    auto const until = Clock::now() + std::chrono::seconds(seconds_at_exit);
    for (bool flushed = false;; flushed = true) {  // others may begin more meanwhile
      std::list<pthread_t> left;
      {
        std::lock_guard const lock(mutex_);
        left.swap(threads_);
        waits_at_exit_ = !left.empty();
      }
      if (left.empty()) return;
      if (!flushed) flush_output();
      for (pthread_t thread : left) {
        // Ended, or the one that exits the process itself.
        while (pthread_tryjoin_np(thread, nullptr) == EBUSY) {
          if (Clock::now() > until) give_up();
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
    }
  }
  [[noreturn]] static void give_up() noexcept {
    static_assert(seconds_at_exit == 10);
    static_cast<void>(dprintf(
        STDERR_FILENO,
        "zero: a call of CUDA or NCCL has not returned 10 s after the end of the program\n"));
    flush_output();
    std::_Exit(EXIT_FAILURE);
  }

  std::mutex mutex_;
  std::list<pthread_t> threads_;  // not yet joined
  bool waits_at_exit_ = false;
};

/// Runs f(), which can be copied, throws nothing and owns all that it names, on a thread of its
/// own.
/// @param limit how long it is waited for
/// @return whether it has ended
/// @throws Error where the system gives no thread; std::bad_alloc
template <class F>
bool run_aside(std::chrono::milliseconds limit, F f) {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  auto const state = std::make_shared<State>();
  SideThreads::of_process().begin([state, f = std::move(f)]() mutable {
    f();
    std::lock_guard const lock(state->mutex);
    state->done = true;
    state->changed.notify_all();
  });
  std::unique_lock lock(state->mutex);
  return state->changed.wait_for(lock, limit, [&] { return state->done; });
}

}  // namespace zero::cuda::detail
