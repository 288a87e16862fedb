// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one entrance through which a program becomes ranks.

#include <zero/comm/communicator.hpp>
#include <zero/launch/place.hpp>

#include <chrono>
#include <concepts>
#include <string>
#include <type_traits>

namespace zero {

/// What a launch may be told.
struct LaunchOptions {
  /// How long a rank waits in a collective before it names the ranks that are missing and all fail.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Ranks as processes: how long a rank that fails waits for the others to answer, before it names
  /// those that do not and leaves.
  std::chrono::milliseconds grace = std::chrono::seconds(3);
  /// Threads that share the optimizer's updates of one rank, its own included; on GPUs, of state
  /// below them. More than 1 pays where ranks have several cores each.
  int threads = 1;
};

namespace detail {

/// The device of one rank.
template <class D>
D device_of_rank(LaunchOptions const& options) {
  if constexpr (requires { D::with_threads(options.threads); }) {
    return D::with_threads(options.threads);
  } else {
    if (options.threads != 1) {
      throw InvalidArgument("LaunchOptions::threads: found " + std::to_string(options.threads) +
                            "; expected 1, since the backend's device has no threads of its own");
    }
    return D();
  }
}

}  // namespace detail

/// A way to become ranks: `B::Communicator`, and B::run(ranks, f, options), which runs
/// f(communicator) on that many ranks, all of them in this process.
template <class B>
concept Backend = Communicator<typename B::Communicator> &&
    requires(void (&f)(typename B::Communicator), LaunchOptions const& options) {
  B::run(1, f, options);
};

/// A backend whose ranks may be processes that a launcher has started: B::from(environment,
/// options) joins them as this process's one rank. Its result says rank() and size(), and run(f)
/// runs f(communicator) and returns when no rank needs this one any more.
template <class B>
concept JoinsProcesses = Backend<B> &&
    requires(Environment const& environment, LaunchOptions const& options,
             void (&f)(typename B::Communicator)) {
  { B::from(environment, options).rank() } -> std::same_as<int>;
  { B::from(environment, options).size() } -> std::same_as<int>;
  B::from(environment, options).run(f);
};

/// Runs f(communicator) on every rank of a world, and returns when this process's ranks have ended.
/// Where a launcher has started several processes, they are the world and `ranks` does not count;
/// else the world is `ranks` threads of this process. So with a backend that joins processes, f is
/// called with one of two communicators: write it as a generic lambda.
/// @tparam B the backend, such as Threads
/// @param ranks at least 1
/// @param f called as f(communicator), once on each rank of this process
/// @param options how long ranks wait for each other
/// @param environment in which a launcher's variables are looked for
/// @throws InvalidArgument when ranks < 1 or the timeout is not positive; naming the variables,
/// when
///   a launcher has started several processes and the backend cannot join them, or is in another
///   world than they, and for an environment that find_place refuses; else what the first rank of
///   this process to fail threw
template <Backend B, class F>
requires std::invocable<F&, typename B::Communicator>
void launch(int ranks, F f, LaunchOptions const& options = {},
            Environment const& environment = Environment::of_process()) {
  if (ranks < 1)
    throw InvalidArgument("launch: a world has at least 1 rank, not " + std::to_string(ranks));
  if (options.timeout <= std::chrono::milliseconds::zero()) {
    throw InvalidArgument("launch: a timeout is longer than 0 ms, not " +
                          std::to_string(options.timeout.count()) + " ms");
  }
  auto const place = find_place(environment);
  if (!place || place->size == 1) {
    B::run(ranks, f, options);
    return;
  }
  std::string const started = "launch: by " + place->launcher + " this process is rank " +
                              std::to_string(place->rank) + " of " + std::to_string(place->size) +
                              " (" + place->variables + "), ";
  if constexpr (JoinsProcesses<B>) {
    auto world = B::from(environment, options);
    if (world.rank() != place->rank || world.size() != place->size) {
      throw InvalidArgument(started + "but this program's backend is rank " +
                            std::to_string(world.rank()) + " of " + std::to_string(world.size()) +
                            ": it was not started by a launcher that it can join");
    }
    world.run(f);
  } else {
    throw InvalidArgument(started +
                          "but this backend makes its ranks inside one process: start the program "
                          "without the launcher, or launch it with a backend that joins processes");
  }
}

}  // namespace zero
