// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much host memory a process can still have: of the machine, and of the control groups that it
// is in, as containers and batch systems make them.

#include <zero/core/size.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace zero {

namespace detail {

/// The number behind a word of a file, or the file's first; -1 where there is none.
inline Index number_in(std::string const& file, std::string const& word = {}) {
  std::ifstream text(file);
  std::string read;
  if (!word.empty()) {
    while (text >> read && read != word) {
    }
  }
  Index n = -1;
  return text >> n ? n : -1;
}

/// Bytes that one control group has left, or -1 where it sets no limit. What it holds of files the
/// system takes back when it is asked for more.
/// @param limit,used its files @param prefix of the names in its memory.stat
inline Index left_of_group(std::string const& folder, char const* limit, char const* used,
                           std::string const& prefix) {
  Index const most = number_in(folder + limit);
  Index const taken = number_in(folder + used);
  if (most < 0 || taken < 0) return -1;
  Index files = 0;
  for (char const* of : {"active_file", "inactive_file"})
    files += std::max(Index{0}, number_in(folder + "/memory.stat", prefix + of));
  return std::max(Index{0}, most - std::max(Index{0}, taken - files));
}

/// The least of two where -1 says nothing.
inline Index least_known(Index a, Index b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

}  // namespace detail

/// Bytes of host memory that this process can still have, or -1 where the system does not say: the
/// least of what the machine has (MemAvailable) and of what each control group above the process
/// leaves of its limit (memory.max of version 2, memory.limit_in_bytes of version 1).
/// @param root in front of /proc and /sys
inline Index free_host_bytes(std::string const& root = {}) {
  Index const kib = detail::number_in(root + "/proc/meminfo", "MemAvailable:");
  Index free = kib < 0 ? -1 : kib * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");  // lines "number:controllers:path"
  for (std::string line; std::getline(groups, line);) {
    std::istringstream parts(line);
    std::string number;
    std::string controllers;
    std::string path;
    std::getline(parts, number, ':');
    std::getline(parts, controllers, ':');
    std::getline(parts, path);
    bool const unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    std::string const mount = root + (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    // A container sees its own group as the uppermost one, whatever the path says.
    for (bool more = true; more;) {
      while (path.ends_with('/')) path.pop_back();
      more = !path.empty();
      free = detail::least_known(
          free, unified ? detail::left_of_group(mount + path, "/memory.max", "/memory.current", "")
                        : detail::left_of_group(mount + path, "/memory.limit_in_bytes",
                                                "/memory.usage_in_bytes", "total_"));
      if (more) path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return free;
}

}  // namespace zero
