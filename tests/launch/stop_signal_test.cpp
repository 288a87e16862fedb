// SPDX-License-Identifier: Apache-2.0
#include <zero/launch/stop_signal.hpp>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/// Runs f in a process of its own. @return the signal that ended it; 0: it ended by itself
template <class F>
int ended_by(F f) {
  pid_t const child = ::fork();
  if (child == 0) {
    f();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("The first SIGTERM or SIGINT is noted") {
  for (int signal : {SIGTERM, SIGINT}) {
    zero::StopSignal stop;
    CHECK(stop.received() == 0);
    std::raise(signal);
    CHECK(stop.received() == signal);
    CHECK(stop.name() == (signal == SIGTERM ? "SIGTERM" : "SIGINT"));
  }
}

TEST_CASE("A second signal ends the process at once") {
  for (int first : {SIGTERM, SIGINT}) {
    for (int second : {SIGTERM, SIGINT}) {
      CHECK(ended_by([&] {
              zero::StopSignal stop;
              std::raise(first);
              std::raise(second);
            }) == second);
    }
  }
  CHECK(ended_by([] {
          zero::StopSignal stop;
          std::raise(SIGTERM);
        }) == 0);
}

TEST_CASE("What handled the signals before handles them again afterwards") {
  static volatile std::sig_atomic_t seen = 0;
  auto const before = std::signal(SIGTERM, [](int) { seen = 1; });
  {
    zero::StopSignal stop;
    CHECK_THROWS_AS(zero::StopSignal{}, zero::Error);
    std::raise(SIGTERM);
    CHECK(stop.received() == SIGTERM);
    CHECK(seen == 0);
  }
  std::raise(SIGTERM);
  CHECK(seen == 1);
  std::signal(SIGTERM, before);
  zero::StopSignal another;
  CHECK(another.received() == 0);
}
