// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads over which a host device splits element-wise work that says so.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace zero {

/// The calling thread and `threads` - 1 others, which sleep between calls. Several threads may
/// call: work that is shared is that of one caller at a time, the others wait.
class HostWorkers {
 public:
  /// @throws InvalidArgument for no threads; Error when the system has no more of them
  explicit HostWorkers(int threads) : parts_(threads) {
    if (threads < 1) {
      throw InvalidArgument("HostWorkers: " + std::to_string(threads) +
                            " threads; expected at least 1");
    }
    try {
      for (int part = 1; part < threads; ++part)
        others_.emplace_back([this, part] { serve(part); });
    } catch (std::exception const& e) {
      end();
      throw Error("HostWorkers: the system gave " + std::to_string(others_.size() + 1) + " of " +
                  std::to_string(threads) + " threads: " + e.what());
    }
  }
  HostWorkers(HostWorkers const&) = delete;
  HostWorkers& operator=(HostWorkers const&) = delete;
  ~HostWorkers() { end(); }

  int threads() const { return parts_; }  ///< the calling one included

  /// Calls f(begin, end) for parts of [0, n) that cover it, one a thread, each but the last a
  /// multiple of 1024 elements; returns when all are done. What is too little to share is done
  /// here. f calls no run of these workers. @throws what f threw first
  template <class F>
  void run(Index n, F const& f) {
    if (parts_ == 1 || n < least_elements) return f(Index{0}, n);
    std::lock_guard const caller(callers_);  // copies of a device share its workers
    std::unique_lock lock(mutex_);
    call_ = [](void const* work, Index begin, Index end) {
      (*static_cast<F const*>(work))(begin, end);
    };
    work_ = &f;
    elements_ = n;
    running_ = parts_ - 1;
    error_ = nullptr;
    ++calls_;
    lock.unlock();
    changed_.notify_all();
    std::exception_ptr const mine = part(0);
    lock.lock();
    done_.wait(lock, [&] { return running_ == 0; });
    if (mine) std::rethrow_exception(mine);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void end() noexcept {
    {
      std::lock_guard const lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : others_) thread.join();
  }

  // Waking a thread takes as long as updating some ten thousand elements.
  static constexpr Index least_elements = Index{1} << 16;

  std::exception_ptr part(int number) const {
    Index const share = round_up((elements_ + parts_ - 1) / parts_, 1024);
    Index const begin = std::min(number * share, elements_);
    Index const end = std::min(begin + share, elements_);
    try {
      if (begin < end) call_(work_, begin, end);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void serve(int number) {
    std::unique_lock lock(mutex_);
    for (Index seen = 0;;) {
      changed_.wait(lock, [&] { return over_ || calls_ != seen; });
      if (over_) return;
      seen = calls_;
      lock.unlock();
      std::exception_ptr const error = part(number);
      lock.lock();
      if (error && !error_) error_ = error;
      if (--running_ == 0) done_.notify_one();
    }
  }

  int parts_;
  std::mutex callers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable done_;
  void (*call_)(void const*, Index, Index) = nullptr;
  void const* work_ = nullptr;
  Index elements_ = 0;
  Index calls_ = 0;
  int running_ = 0;
  bool over_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> others_;
};

/// Shared use of workers, or none: then work is done where it is called.
class WorkersOf {
 public:
  WorkersOf() = default;
  /// Shares `workers`; null: none.
  explicit WorkersOf(std::shared_ptr<HostWorkers> workers) : workers_(std::move(workers)) {}

  /// As HostWorkers::run; without workers f(0, n) here.
  template <class F>
  void run(Index n, F const& f) const {
    if (workers_ == nullptr) return f(Index{0}, n);
    workers_->run(n, f);
  }

 private:
  std::shared_ptr<HostWorkers> workers_;
};

/// The workers of a stream that has some.
template <class S>
WorkersOf workers_of(S const& stream) {
  if constexpr (requires { stream.workers(); }) {
    return WorkersOf(stream.workers());
  } else {
    return {};
  }
}

}  // namespace zero
