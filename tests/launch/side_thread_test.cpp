// SPDX-License-Identifier: Apache-2.0
// Threads that are left to themselves: a process that exits waits for them, and not for ever.

#include <zero/cuda/side_thread.hpp>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
using zero::cuda::detail::run_aside;
constexpr std::chrono::seconds patient{60};

TEST_CASE("threads beside each other, one of which is not waited for") {
  struct Shared {
    std::atomic<bool> goes_on{true};
    std::atomic<int> ended{0};
  };
  auto const shared = std::make_shared<Shared>();
  CHECK_FALSE(run_aside(std::chrono::milliseconds(1), [shared] {
    while (shared->goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++shared->ended;
  }));
  bool waited[] = {false, false};
  auto const other = [shared](bool& ended) {
    ended = run_aside(patient, [shared] { ++shared->ended; });
  };
  std::thread first(other, std::ref(waited[0]));
  std::thread second(other, std::ref(waited[1]));
  first.join();
  second.join();
  CHECK(waited[0]);
  CHECK(waited[1]);
  CHECK(shared->ended == 2);
  shared->goes_on = false;
  while (shared->ended < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// A sanitizer's own work at the exit of a child that was forked is not what is asked here.
#if !ZERO_TESTS_SANITIZED

/// What a child ends with, right behind the handlers of its exit: what the C library does of its
/// own then waits for every open file. The first to be registered is the last to be called.
int code_of_child = -1;
[[maybe_unused]] int const registered = std::atexit([] {
  if (code_of_child >= 0) std::_Exit(code_of_child);
});

/// How a child ended, and whether it had written a byte.
struct Ended {
  int code = -1;
  double seconds = 0;
  bool wrote = false;
};
/// A child that calls f(write_a_byte) and exits with what that returns.
template <class F>
Ended child_of(F f) {
  std::fflush(nullptr);
  int ends[2] = {-1, -1};
  REQUIRE(pipe(ends) == 0);
  auto const begun = Clock::now();
  pid_t const child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::fclose(stderr);
    code_of_child = f([to = ends[1]] { static_cast<void>(!write(to, "x", 1)); });
    std::exit(code_of_child);
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
/// One that leaves f(write_a_byte) to a thread after some time.
template <class F>
Ended exit_leaving(F f, std::chrono::milliseconds waits = std::chrono::milliseconds(1)) {
  return child_of([=](auto write_a_byte) {
    return run_aside(waits, [f, write_a_byte] { f(write_a_byte); }) ? 3 : 0;
  });
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
    run_aside(std::chrono::milliseconds(1), [write_a_byte] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      write_a_byte();
    });
  });
  CHECK(of.code == 0);
  CHECK(of.wrote);
  CHECK(of.seconds >= 0.8);
}

TEST_CASE("an exit waits for a thread that is begun behind a wait, by what ends later") {
  Ended const of = child_of([](auto write_a_byte) {
    static auto const late = [write_a_byte] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      write_a_byte();
    };
    std::atexit([] { run_aside(std::chrono::milliseconds(1), late); });
    return run_aside(patient, [] {}) ? 0 : 3;
  });
  CHECK(of.code == 0);
  CHECK(of.wrote);
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

TEST_CASE("a child that was forked has none of its parent's threads") {
  auto const goes_on = std::make_shared<std::atomic<bool>>(true);
  CHECK_FALSE(run_aside(std::chrono::milliseconds(1), [goes_on] {
    while (*goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }));
  Ended const idle = child_of([](auto) { return 5; });
  CHECK(idle.code == 5);
  CHECK(idle.seconds < 9);
  Ended const busy = child_of([](auto write_a_byte) {
    return run_aside(patient, [write_a_byte] { write_a_byte(); }) ? 6 : 3;
  });
  CHECK(busy.code == 6);
  CHECK(busy.wrote);
  CHECK(busy.seconds < 9);
  *goes_on = false;
}

TEST_CASE("a system that gives no thread is told so, and nothing is left behind") {
  Ended const of = child_of([](auto write_a_byte) {
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit const before = [] {
      rlimit limit{};
      static_cast<void>(getrlimit(RLIMIT_AS, &limit));
      return limit;
    }();
    rlimit full = before;  // a megabyte more, and a thread's stack has several
    full.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (1 << 20));
    if (setrlimit(RLIMIT_AS, &full) != 0) return 3;
    auto const goes_on = std::make_shared<std::atomic<bool>>(true);
    bool told = false;
    for (int i = 0; i < 100 && !told; ++i) {  // the first may take what ended ones have left
      try {
        run_aside(std::chrono::milliseconds(1), [goes_on] {
          while (*goes_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
      } catch (zero::Error const& e) {
        told = std::string(e.what()).find("cuda: the system gave no thread: ") == 0;
        if (!told) return 4;
      }
    }
    *goes_on = false;
    if (!told) return 5;
    static_cast<void>(setrlimit(RLIMIT_AS, &before));
    return run_aside(patient, write_a_byte) ? 0 : 6;
  });
  CHECK(of.code == 0);
  CHECK(of.wrote);
}

/// What a library keeps for a thread, which is slow to go.
struct SlowToGo {
  std::atomic<bool>* may_go = nullptr;
  ~SlowToGo() {
    while (may_go != nullptr && !*may_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};
bool leave_one(std::atomic<bool>& may_go) {
  return run_aside(patient, [&may_go] {
    thread_local SlowToGo kept;
    kept.may_go = &may_go;
  });
}

TEST_CASE("a thread that has returned and is slow to go holds no other back") {
  static std::atomic<bool> may_go{false};
  REQUIRE(leave_one(may_go));
  auto const begun = Clock::now();
  bool ran = false;
  CHECK(run_aside(patient, [&ran] { ran = true; }));
  CHECK(ran);
  // A thread begins within milliseconds; on a machine that is full, within seconds.
  CHECK(Clock::now() - begun < std::chrono::seconds(30));
  may_go = true;
}

TEST_CASE("an exit waits ten seconds for a thread that has returned and does not go") {
  Ended const of = child_of([](auto) {
    static std::atomic<bool> never{false};
    return leave_one(never) ? 0 : 3;
  });
  CHECK(of.code == EXIT_FAILURE);
  CHECK(of.seconds >= 10);
}

#endif

}  // namespace
