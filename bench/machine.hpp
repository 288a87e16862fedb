// SPDX-License-Identifier: Apache-2.0
#pragma once
// What figures were measured on and with.

#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

namespace bench {

/// One machine, its system and the build of this program.
struct Machine {
  std::string date;       ///< and time, UTC
  std::string processor;  ///< as the system names it
  int cores = 0;
  double load = 0;       ///< processors that others kept busy, before anything was measured
  std::string system;    ///< kernel
  std::string compiler;  ///< and its version
  std::string build;     ///< optimised or not, with assertions or without

  static Machine here() {
    Machine m;
    char date[32] = "";
    std::time_t const now = std::time(nullptr);
    std::tm utc{};
    if (gmtime_r(&now, &utc) != nullptr) std::strftime(date, sizeof(date), "%FT%TZ", &utc);
    m.date = date;
    m.processor = "unknown processor";
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
      if (line.rfind("model name", 0) != 0 || line.find(": ") == std::string::npos) continue;
      m.processor = line.substr(line.find(": ") + 2);
      break;
    }
    m.cores = static_cast<int>(std::thread::hardware_concurrency());
    m.load = m.busy_processors();
    utsname kernel{};
    if (uname(&kernel) == 0)
      m.system = std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine;
#if defined(__clang__)
    m.compiler = std::string("clang ") + __clang_version__;
#elif defined(__GNUC__)
    m.compiler = std::string("g++ ") + __VERSION__;
#else
    m.compiler = "unknown compiler";
#endif
#if defined(__OPTIMIZE__)
    m.build = "optimised";
#else
    m.build = "NOT optimised";
#endif
#if defined(NDEBUG)
    m.build += ", without assertions";
#else
    m.build += ", with assertions";
#endif
    return m;
  }

  /// Where others work, no figure is worth keeping.
  bool busy() const { return load > 0.15; }
  /// For a report's head.
  std::string load_text() const {
    char text[96];
    std::snprintf(text, sizeof(text), "%.2f processors busy before the start%s", load,
                  busy() ? " (BUSY: keep no figure of this run)" : "");
    return text;
  }

 private:
  /// Busy and all ticks of all processors since the system's start, as the system counts them.
  static std::pair<double, double> ticks() {
    std::ifstream stat("/proc/stat");
    std::string word;
    stat >> word;  // user, nice, system, idle, waiting for a disk, interrupts of two kinds, stolen
    double all = 0;
    double idle = 0;
    double value = 0;
    for (int i = 0; i < 8 && stat >> value; ++i) {
      all += value;
      if (i == 3 || i == 4) idle += value;
    }
    return {all - idle, all};
  }
  /// Over half a second in which this program sleeps, but for threads that libraries have started,
  /// whose time is taken off: OpenBLAS's spin for a while, and are not others. The load average
  /// would still tell of what ended a minute ago.
  double busy_processors() const {
    auto const before = ticks();
    std::clock_t const own_before = std::clock();
    auto const begun = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    std::chrono::duration<double> const slept = std::chrono::steady_clock::now() - begun;
    double const own = static_cast<double>(std::clock() - own_before) / CLOCKS_PER_SEC;
    auto const after = ticks();
    double const passed = after.second - before.second;
    if (passed <= 0) return 0;
    return std::max(0.0, (after.first - before.first) / passed * cores - own / slept.count());
  }
};

}  // namespace bench
