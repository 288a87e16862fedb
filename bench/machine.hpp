// SPDX-License-Identifier: Apache-2.0
#pragma once
// What figures were measured on and with.

#include <sys/utsname.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

namespace bench {

/// One machine, its system and the build of this program.
struct Machine {
  std::string date;       ///< and time, UTC
  std::string processor;  ///< as the system names it
  int cores = 0;
  double load = 0;       ///< runnable threads over the last minute
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
    if (getloadavg(&m.load, 1) != 1) m.load = -1;
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
};

}  // namespace bench
