// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls that may never return, made on a thread that is left to itself when they do not.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace zero::cuda::detail {

/// Threads of run_aside that have not ended. A process that exits waits ten seconds for them, since
/// what they are in, CUDA and NCCL, is taken down behind them; where they do not end it says so and
/// ends at once, with 1.
class SideThreads {
 public:
  /// Never destroyed: what is as old as the process may still begin one.
  static SideThreads& of_process() {
    static SideThreads* const threads = [] {
      auto* const made = new SideThreads;
      static_cast<void>(std::atexit([] { of_process().wait_at_exit(); }));
      return made;
    }();
    return *threads;
  }

  void begins() {
    std::lock_guard const lock(mutex_);
    ++running_;
  }
  /// Of the thread itself, as the last thing: counts when all that is the thread's is gone.
  void ends() {
    std::unique_lock lock(mutex_);
    --running_;
    std::notify_all_at_thread_exit(changed_, std::move(lock));
  }
  /// There was no thread.
  void did_not_begin() {
    std::lock_guard const lock(mutex_);
    --running_;
  }

 private:
  SideThreads() = default;
  void wait_at_exit() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(10), [this] { return running_ == 0; })) return;
    static_cast<void>(std::fputs(
        "zero: a call of CUDA or NCCL has not returned 10 s after the end of the program\n",
        stderr));
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(EXIT_FAILURE);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;
};

/// Runs f(), which throws nothing and owns all that it names, on a thread of its own.
/// @param limit how long it is waited for
/// @return whether it has ended
template <class F>
bool run_aside(std::chrono::milliseconds limit, F f) {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  auto const state = std::make_shared<State>();
  SideThreads& threads = SideThreads::of_process();
  threads.begins();
  try {
    std::thread([state, &threads, f = std::move(f)]() mutable {
      f();
      {
        std::lock_guard const lock(state->mutex);
        state->done = true;
        state->changed.notify_all();
      }
      threads.ends();
    }).detach();
  } catch (...) {
    threads.did_not_begin();
    throw;
  }
  std::unique_lock lock(state->mutex);
  return state->changed.wait_for(lock, limit, [&] { return state->done; });
}

}  // namespace zero::cuda::detail
