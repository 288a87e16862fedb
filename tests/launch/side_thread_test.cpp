// SPDX-License-Identifier: Apache-2.0
// Threads that are left to themselves: a process that exits waits for them, and not for ever.

#include <zero/cuda/side_thread.hpp>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

// A sanitizer's own work at the exit of a child that was forked is not what is asked here.
#if !ZERO_TESTS_SANITIZED

namespace {

using Clock = std::chrono::steady_clock;

/// How a child exits that has left f(write_a_byte) to a thread of its own, after some time.
struct Ended {
  int code = -1;
  double seconds = 0;
  bool wrote = false;
};
template <class F>
Ended exit_leaving(F f, std::chrono::milliseconds waits = std::chrono::milliseconds(1)) {
  std::fflush(nullptr);
  int ends[2] = {-1, -1};
  REQUIRE(pipe(ends) == 0);
  auto const begun = Clock::now();
  pid_t const child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::fclose(stderr);
    bool const ended = zero::cuda::detail::run_aside(
        waits, [f, to = ends[1]] { f([to] { static_cast<void>(!write(to, "x", 1)); }); });
    std::exit(ended ? 3 : 0);
  }
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  Ended of;
  of.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  of.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  char byte = 0;
  of.wrote = read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  return of;
}
Ended exit_beside(std::chrono::milliseconds sleeps) {
  return exit_leaving([sleeps](auto write_a_byte) {
    std::this_thread::sleep_for(sleeps);
    write_a_byte();
  });
}

TEST_CASE("an exit waits for a thread that was left to itself, and keeps the program's code") {
  Ended const of = exit_beside(std::chrono::milliseconds(700));
  CHECK(of.code == 0);
  CHECK(of.wrote);
  CHECK(of.seconds >= 0.7);
}

TEST_CASE("an exit waits ten seconds for a thread that does not end, and fails") {
  Ended const of = exit_beside(std::chrono::minutes(10));
  CHECK(of.code == EXIT_FAILURE);
  CHECK_FALSE(of.wrote);
  CHECK(of.seconds >= 10);
}

TEST_CASE("an exit waits for threads that others begin meanwhile") {
  Ended const of = exit_leaving([](auto write_a_byte) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    zero::cuda::detail::run_aside(std::chrono::milliseconds(1), [write_a_byte] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      write_a_byte();
    });
  });
  CHECK(of.code == 0);
  CHECK(of.wrote);
  CHECK(of.seconds >= 0.8);
}

TEST_CASE("an exit does not wait for a thread that reads what does not come") {
  // The exit begins when the thread has its file.
  Ended const of = exit_leaving(
      [](auto write_a_byte) {
        static int never[2] = {-1, -1};
        static_cast<void>(!pipe(never));
        static std::FILE* const file = fdopen(never[0], "r");
        std::thread([] { static_cast<void>(std::fgetc(file)); }).detach();
        std::this_thread::sleep_for(std::chrono::milliseconds(800));
        write_a_byte();
      },
      std::chrono::milliseconds(400));
  CHECK(of.code == 0);
  CHECK(of.wrote);
  CHECK(of.seconds < 9);  // of the ten that an exit waits at most
}

/// What a library keeps for a thread, which is slow to go.
struct SlowToGo {
  std::atomic<bool>* may_go = nullptr;
  ~SlowToGo() {
    while (may_go != nullptr && !*may_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

TEST_CASE(
    "a thread that has returned and is slow to go holds no other back, nor an exit for ever") {
  auto const leave_one = [](std::atomic<bool>& may_go) {
    return zero::cuda::detail::run_aside(std::chrono::seconds(60), [&may_go] {
      thread_local SlowToGo kept;
      kept.may_go = &may_go;
    });
  };
  static std::atomic<bool> may_go{false};
  REQUIRE(leave_one(may_go));
  auto const begun = Clock::now();
  bool ran = false;
  CHECK(zero::cuda::detail::run_aside(std::chrono::seconds(60), [&ran] { ran = true; }));
  CHECK(ran);
  // A thread begins within milliseconds; on a machine that is full, within seconds.
  CHECK(Clock::now() - begun < std::chrono::seconds(30));
  may_go = true;

  std::fflush(nullptr);
  pid_t const child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::fclose(stderr);
    static std::atomic<bool> never{false};
    leave_one(never);
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == EXIT_FAILURE);
}

}  // namespace

#endif
