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

/// Threads of run_aside that have not ended. When the process exits they are waited for, since what
/// they are in, CUDA and NCCL, is taken down behind them; a process whose threads do not end then
/// ends at once, as one that failed.
class SideThreads {
 public:
  SideThreads(SideThreads const&) = delete;
  SideThreads& operator=(SideThreads const&) = delete;
  ~SideThreads() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(10), [this] { return running_ == 0; })) return;
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(EXIT_FAILURE);
  }
  static SideThreads& of_process() {
    static SideThreads threads;
    return threads;
  }

  void begins() {
    std::lock_guard const lock(mutex_);
    ++running_;
  }
  void ends() {
    std::lock_guard const lock(mutex_);
    --running_;
    changed_.notify_all();
  }

 private:
  SideThreads() = default;

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
    threads.ends();
    throw;
  }
  std::unique_lock lock(state->mutex);
  return state->changed.wait_for(lock, limit, [&] { return state->done; });
}

}  // namespace zero::cuda::detail
