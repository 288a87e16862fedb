// SPDX-License-Identifier: Apache-2.0
#pragma once
// What must end the process is run in a child of it.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace zero_test {

/// Runs f in a child and returns the signal that ended it, 0 where it ended by itself. To be called
/// where no other thread runs.
template <class F>
int signal_of(F f) {
  std::fflush(nullptr);
  pid_t const child = fork();
  if (child == 0) {
    // Neither the test framework nor a sanitizer is to report what is expected.
    for (int s : {SIGSEGV, SIGBUS, SIGABRT}) std::signal(s, SIG_DFL);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::fclose(stderr);
    try {
      f();
    } catch (...) {
      std::_Exit(2);
    }
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace zero_test
