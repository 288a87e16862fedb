// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one entrance through which a program becomes ranks.

#include <zero/comm/communicator.hpp>

#include <chrono>
#include <concepts>
#include <string>
#include <type_traits>

namespace zero {

/// What a launch may be told.
struct LaunchOptions {
  /// How long a rank waits in a collective before it names the ranks that are missing and all fail.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// A way to become ranks: `B::Communicator`, and B::run(ranks, f, options), which runs
/// f(communicator) on each rank.
template <class B>
concept Backend = Communicator<typename B::Communicator> &&
    requires(void (&f)(typename B::Communicator), LaunchOptions const& options) {
  B::run(1, f, options);
};

/// Runs f(communicator) on every rank of a world of `ranks`, and returns when this process's ranks
/// have ended.
/// @tparam B the backend, such as Threads
/// @param ranks at least 1
/// @throws InvalidArgument when ranks < 1 or the timeout is not positive; else what the first rank
/// to fail threw
template <Backend B, class F>
requires std::invocable<F&, typename B::Communicator>
void launch(int ranks, F f, LaunchOptions const& options = {}) {
  if (ranks < 1)
    throw InvalidArgument("launch: a world has at least 1 rank, not " + std::to_string(ranks));
  if (options.timeout <= options.timeout.zero()) {
    throw InvalidArgument("launch: a timeout is longer than 0 ms, not " +
                          std::to_string(options.timeout.count()) + " ms");
  }
  B::run(ranks, f, options);
}

}  // namespace zero
