// SPDX-License-Identifier: Apache-2.0
#pragma once
// The threads of one variant. They build what they need, then wait to be told to iterate: while one
// team runs, the others sleep.

#include <zero/core/size.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace bench {

using zero::Index;

/// What a variant tells besides its time, in order: counts, such as bytes, and other numbers, such
/// as a loss.
using Facts = std::vector<std::pair<std::string, std::variant<Index, double>>>;

/// Where the threads of a team wait for their orders.
class Team {
 public:
  explicit Team(int ranks) : ranks_(ranks) {}
  int ranks() const { return ranks_; }

  /// A rank is ready; iterates as told and returns when all is over.
  template <class F>
  void serve(F& iteration) {
    std::unique_lock lock(mutex_);
    for (Index seen = 0;;) {
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return over_ || error_ || orders_ != seen; });
      if (error_) throw std::runtime_error("another rank failed");
      if (over_) return;
      seen = orders_;
      Index const count = iterations_;
      lock.unlock();
      auto const begin = Clock::now();
      for (Index i = 0; i < count; ++i) iteration();
      auto const end = Clock::now();
      lock.lock();
      begin_ = std::min(begin_, begin);
      end_ = std::max(end_, end);
    }
  }

  /// Lets every rank iterate; seconds from the first rank's start to the last one's end.
  /// @throws what a rank threw
  double run(Index iterations) {
    std::unique_lock lock(mutex_);
    wait_for_ranks(lock);
    begin_ = Clock::time_point::max();
    end_ = Clock::time_point::min();
    iterations_ = iterations;
    waiting_ = 0;
    ++orders_;
    changed_.notify_all();
    wait_for_ranks(lock);
    return std::chrono::duration<double>(end_ - begin_).count();
  }
  void end() {
    std::lock_guard const lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  /// A rank cannot go on; the first reason stays.
  void fail(std::exception_ptr reason) {
    std::lock_guard const lock(mutex_);
    if (!error_) error_ = std::move(reason);
    changed_.notify_all();
  }
  void rethrow() {
    std::lock_guard const lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }
  bool over() {
    std::lock_guard const lock(mutex_);
    return over_;
  }

  Facts facts;  ///< written by rank 0, read when the team has ended

 private:
  using Clock = std::chrono::steady_clock;

  void wait_for_ranks(std::unique_lock<std::mutex>& lock) {
    changed_.wait(lock, [&] { return error_ || waiting_ == ranks_; });
    if (error_) std::rethrow_exception(error_);
  }

  int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  Clock::time_point begin_{};
  Clock::time_point end_{};
  Index iterations_ = 0;
  Index orders_ = 0;
  int waiting_ = 0;
  bool over_ = false;
};

/// What a variant's body is handed.
class Measure {
 public:
  Measure(Team& team, int rank) : team_(&team), rank_(rank) {}

  /// Runs iteration() as often as it is asked for, and returns when all rounds are over.
  template <class F>
  void operator()(F iteration) const {
    team_->serve(iteration);
  }
  /// Tells a number besides the time; rank 0's is kept.
  void fact(std::string name, std::variant<Index, double> value) const {
    if (rank_ == 0) team_->facts.emplace_back(std::move(name), value);
  }

 private:
  Team* team_;
  int rank_;
};

/// A team and the thread that started it; ends it when destroyed.
class RunningTeam {
 public:
  RunningTeam(std::string const& name, int ranks, std::function<void(Team&)> const& start)
      : team_(ranks), thread_([this, name, &start] {
          try {
            start(team_);
            if (!team_.over()) throw std::runtime_error("'" + name + "' never called measure");
          } catch (...) {
            team_.fail(std::current_exception());
          }
        }) {}
  ~RunningTeam() { stop(); }

  double run(Index iterations) { return team_.run(iterations); }
  /// Ends the team and gives what it told.
  /// @throws what a rank threw after its last iteration
  Facts finish() {
    stop();
    team_.rethrow();
    return team_.facts;
  }

 private:
  void stop() {
    team_.end();
    if (thread_.joinable()) thread_.join();
  }

  Team team_;
  std::thread thread_;
};

}  // namespace bench
