// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work of the host that waits in a stream of CUDA's, and what has failed of it.

#include <zero/core/error.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace zero::cuda {

/// Work of one stream. Places are used again, so that nothing is allocated once as many were needed
/// as ever wait at a time.
class HostTasks {
 public:
  /// One piece of work, in a place of its own.
  struct Task {
    static constexpr std::size_t most_bytes = 512;  ///< of what a closure holds
    /// What is to be run.
    alignas(std::max_align_t) std::byte closure[most_bytes];
    void (*call)(Task&, bool runs) = nullptr;  ///< runs, or only ends, what the closure holds
    HostTasks* home = nullptr;                 ///< where the place is used again
  };

  /// Keeps work() until it is run or dropped.
  template <class F>
  Task* keep(F work) {
    static_assert(sizeof(F) <= Task::most_bytes, "cuda::Stream: this work holds too much");
    Task* task = nullptr;
    {
      std::lock_guard const lock(mutex_);
      if (free_.empty()) {
        all_.push_back(std::make_unique<Task>());
        free_.reserve(all_.size());
        free_.push_back(all_.back().get());
      }
      task = free_.back();
      free_.pop_back();
    }
    ::new (static_cast<void*>(task->closure)) F(std::move(work));
    task->home = this;
    task->call = [](Task& t, bool runs) {
      F& held = *std::launder(reinterpret_cast<F*>(t.closure));
      struct Ends {
        F& held;
        ~Ends() { held.~F(); }
      } const ends{held};
      if (runs) held();
    };
    return task;
  }
  /// Ends work that will not be run.
  void drop(Task* task) { finish(*task, false); }
  /// Called by CUDA with a Task.
  static void run(void* task) noexcept {
    auto& t = *static_cast<Task*>(task);
    t.home->finish(t, true);
  }
  /// Rethrows what has failed first.
  void check() {
    std::lock_guard const lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void finish(Task& task, bool runs) noexcept {
    {
      std::lock_guard const lock(mutex_);
      runs = runs && !error_;
    }
    std::exception_ptr error;
    try {
      task.call(task, runs);
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard const lock(mutex_);
    if (error && !error_) error_ = error;
    free_.push_back(&task);
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Task>> all_;
  std::vector<Task*> free_;
  std::exception_ptr error_;
};

}  // namespace zero::cuda
