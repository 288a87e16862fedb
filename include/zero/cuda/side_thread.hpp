// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls that may never return, made on a thread that is left to itself when they do not.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace zero::cuda::detail {

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
  std::thread([state, f = std::move(f)]() mutable {
    f();
    std::lock_guard const lock(state->mutex);
    state->done = true;
    state->changed.notify_all();
  }).detach();
  std::unique_lock lock(state->mutex);
  return state->changed.wait_for(lock, limit, [&] { return state->done; });
}

}  // namespace zero::cuda::detail
