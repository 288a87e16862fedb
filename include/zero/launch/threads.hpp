// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks as threads: the same function on each, a device each, and the first failure rethrown when
// all have ended.

#include <zero/comm/threads.hpp>
#include <zero/launch/launch.hpp>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace zero {

namespace detail {

/// The exception that a launch ends with: the first, but a cause before its consequences. A rank's
/// stack may unwind long after the others have learned of its failure.
struct FirstFailure {
  std::exception_ptr first;
  bool consequence = false;
  std::mutex mutex;

  /// Keeps the exception being handled, and makes the other ranks throw its text.
  void keep(Meeting& meeting, int rank) noexcept {
    std::exception_ptr const thrown = std::current_exception();
    bool communication = false;
    std::string text;
    try {  // a text may need memory that there is no more
      text = "rank " + std::to_string(rank) + " failed: ";
      try {
        throw;
      } catch (CommunicationError const& e) {
        communication = true;
        text += e.what();
      } catch (std::exception const& e) {
        text += e.what();
      } catch (...) {
        text += "an exception that is no std::exception";
      }
    } catch (...) {
      text.clear();
    }
    {
      std::lock_guard const lock(mutex);
      if (!first || (consequence && !communication)) {
        first = thrown;
        consequence = communication;
      }
    }
    meeting.abort(text.empty() ? Meeting::unsaid : std::string_view(text));
  }
};

/// Runs f(rank) on one thread a rank of the meeting and returns when all have ended.
/// @throws what the first rank to fail threw, or the system when it has no more threads; the others
///   throw CommunicationError with its text meanwhile
template <class F>
void run_ranks(Meeting& meeting, F f) {
  FirstFailure failure;
  std::vector<std::thread> threads;
  threads.reserve(at(meeting.size()));
  for (int rank = 0; rank < meeting.size(); ++rank) {
    try {
      threads.emplace_back([&, rank] {
        try {
          f(rank);
        } catch (...) {
          failure.keep(meeting, rank);
        }
        meeting.end(rank);
      });
    } catch (...) {  // ranks that run already would wait for one that cannot come
      failure.keep(meeting, rank);
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (failure.first) std::rethrow_exception(failure.first);
}

}  // namespace detail

/// The backend that makes every rank a thread of this process.
/// @tparam D the device each rank gets
template <RunsHostCode D>
struct ThreadsOn {
  using Communicator = ThreadCommunicator<D>;  ///< of a rank

  /// Runs f(communicator) on `ranks` threads and returns when all have ended.
  /// @throws what the first rank to fail threw, or the system when it has no more threads; the
  ///   others throw CommunicationError with its text meanwhile
  template <class F>
  static void run(int ranks, F& f, LaunchOptions const& options) {
    auto const meeting = std::make_shared<Meeting>(ranks, options.timeout);
    detail::run_ranks(*meeting, [&](int rank) {
      D device = detail::device_of_rank<D>(options);
      f(Communicator(meeting, rank, device));
    });
  }
};

/// Ranks as threads, each with the host as its device.
using Threads = ThreadsOn<Host>;

}  // namespace zero
