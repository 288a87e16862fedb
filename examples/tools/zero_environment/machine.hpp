// SPDX-License-Identifier: Apache-2.0
#pragma once
// The host: what may be locked, what the kernel offers, cores and memory, libraries.

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zero_environment/facts.hpp>
#include <zero_environment/library.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

namespace zero_environment {

/// Folders in `folder` that are called `prefix` and a number.
inline int numbered_folders(std::string const& folder, std::string const& prefix) {
  int count = 0;
  std::error_code ignored;
  for (auto const& entry : std::filesystem::directory_iterator(folder, ignored)) {
    std::string const name = entry.path().filename().string();
    if (name.size() > prefix.size() && name.starts_with(prefix) &&
        name.find_first_not_of("0123456789", prefix.size()) == std::string::npos)
      ++count;
  }
  return count;
}

/// What a command prints, up to 4 KiB; empty where it cannot be run.
inline std::string output_of(std::string const& command) {
  std::FILE* const pipe = popen((command + " </dev/null 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return {};
  std::array<char, 4096> text{};
  std::size_t const size = std::fread(text.data(), 1, text.size(), pipe);
  while (std::fgetc(pipe) != EOF) {
  }
  pclose(pipe);
  return {text.data(), size};
}

/// The compiler that PATH has: of "Cuda compilation tools, release 13.0, V13.0.48" what follows V.
inline void add_nvcc(Facts& f) {
  std::string const said = output_of("nvcc --version");
  std::size_t const begin = said.find(", V");
  if (begin == std::string::npos) return;
  f.nvcc.found =
      said.substr(begin + 3, said.find_first_not_of("0123456789.", begin + 3) - begin - 3);
}

/// Why the kernel makes no ring; empty where it makes one.
inline std::string ring_refusal() {
  constexpr long io_uring_setup = 425;         // the same number on every architecture
  std::array<std::uint64_t, 15> parameters{};  // struct io_uring_params, all zeros
  long const ring = syscall(io_uring_setup, 2u, parameters.data());
  if (ring < 0) return std::strerror(errno);
  close(static_cast<int>(ring));
  return {};
}

/// @param root in front of /sys
inline void add_machine(Facts& f, std::string const& root) {
  auto const bytes = [](rlim_t limit) -> std::optional<Index> {
    if (limit == RLIM_INFINITY) return std::nullopt;
    return static_cast<Index>(
        std::min<rlim_t>(limit, static_cast<rlim_t>(std::numeric_limits<Index>::max())));
  };
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    f.memlock_bytes = bytes(limit.rlim_cur);
    f.memlock_most_bytes = bytes(limit.rlim_max);
  }
  f.uring_refused = ring_refusal();
  std::error_code ignored;
  std::string const cards = root + "/sys/class/infiniband";
  f.infiniband =
      std::filesystem::is_directory(cards, ignored) && !std::filesystem::is_empty(cards, ignored);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) f.cores = CPU_COUNT(&set);
  f.numa_nodes = numbered_folders(root + "/sys/devices/system/node", "node");
  f.memory_bytes = Index{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
}

/// Versions of the libraries that are loaded, where they say one.
inline void add_libraries(Facts& f) {
  Library const blas("libopenblas.so.0");
  if (auto* const get = blas.function<char const*()>("openblas_get_config"))
    f.openblas.found = get();
  Library const xxhash("libxxhash.so.0");
  if (auto* const get = xxhash.function<unsigned()>("XXH_versionNumber")) {
    unsigned const version = get();
    f.xxhash.found = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
                     "." + std::to_string(version % 100);
  }
}

}  // namespace zero_environment
