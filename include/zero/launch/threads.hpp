// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks as threads: the same function on each, a device each, and the first failure rethrown when
// all have ended.

#include <zero/comm/threads.hpp>
#include <zero/launch/launch.hpp>

#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace zero {

/// The backend that makes every rank a thread of this process.
/// @tparam D the device each rank gets
template <RunsHostCode D>
struct ThreadsOn {
  using Communicator = ThreadCommunicator<D>;

  /// Runs f(communicator) on `ranks` threads and returns when all have ended.
  /// @throws what the first rank to fail threw; the others throw CommunicationError with its text
  /// meanwhile
  template <class F>
  static void run(int ranks, F& f, LaunchOptions const& options) {
    auto const meeting = std::make_shared<Meeting>(ranks, options.timeout);
    std::exception_ptr first;
    std::mutex mutex;
    auto const failed = [&](int rank, char const* what) {
      {
        std::lock_guard const lock(mutex);
        if (!first) first = std::current_exception();
      }
      meeting->abort("rank " + std::to_string(rank) + " failed: " + what);
    };
    std::vector<std::thread> threads;
    threads.reserve(at(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          D device;
          f(Communicator(meeting, rank, device));
        } catch (std::exception const& e) {
          failed(rank, e.what());
        } catch (...) {
          failed(rank, "an exception that is no std::exception");
        }
        meeting->end(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
  }
};

/// Ranks as threads, each with the host as its device.
using Threads = ThreadsOn<Host>;

}  // namespace zero
