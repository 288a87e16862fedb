// SPDX-License-Identifier: Apache-2.0
// What is free counts limits of control groups, of both versions and at every level.
#include <zero/tier/free_memory.hpp>

#include <doctest/doctest.h>
#include <tier/run.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;
using zero::free_host_bytes;

/// A /proc and a /sys of a test's own.
class System {
 public:
  System() { fs::remove_all(root()); }
  ~System() { fs::remove_all(root()); }
  System(System const&) = delete;
  System& operator=(System const&) = delete;

  std::string root() const { return tier_test::folder() + "/system"; }
  void write(std::string const& file, std::string const& text) const {
    fs::create_directories(fs::path(root() + file).parent_path());
    std::ofstream(root() + file) << text;
  }
};

}  // namespace

TEST_CASE("free memory: what the machine has, where no group limits it") {
  System const system;
  CHECK(free_host_bytes(system.root()) == -1);
  system.write("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n");
  CHECK(free_host_bytes(system.root()) == 5000 * 1024);
  system.write("/proc/self/cgroup", "0::/\n");
  system.write("/sys/fs/cgroup/memory.max", "max\n");
  system.write("/sys/fs/cgroup/memory.current", "700\n");
  CHECK(free_host_bytes(system.root()) == 5000 * 1024);
  CHECK(free_host_bytes() > 0);  // of this machine
}

TEST_CASE("free memory: the least that a group of version 2 leaves, files aside") {
  System const system;
  system.write("/proc/meminfo", "MemAvailable: 5000 kB\n");
  system.write("/proc/self/cgroup", "0::/jobs/mine\n");
  system.write("/sys/fs/cgroup/jobs/memory.max", "9000\n");
  system.write("/sys/fs/cgroup/jobs/memory.current", "4000\n");
  CHECK(free_host_bytes(system.root()) == 5000);
  system.write("/sys/fs/cgroup/jobs/mine/memory.max", "3000\n");
  system.write("/sys/fs/cgroup/jobs/mine/memory.current", "2500\n");
  CHECK(free_host_bytes(system.root()) == 500);
  system.write("/sys/fs/cgroup/jobs/mine/memory.stat",
               "anon 1\ninactive_file 200\nactive_file 30\n");
  CHECK(free_host_bytes(system.root()) == 730);
  system.write("/sys/fs/cgroup/jobs/mine/memory.max", "1000\n");  // lowered under what is taken
  CHECK(free_host_bytes(system.root()) == 0);
}

TEST_CASE("free memory: a limit of version 1") {
  System const system;
  system.write("/proc/meminfo", "MemAvailable: 5000 kB\n");
  system.write("/proc/self/cgroup", "12:cpu,cpuacct:/x\n4:memory:/batch\n0::/\n");
  system.write("/sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "8000\n");
  system.write("/sys/fs/cgroup/memory/batch/memory.usage_in_bytes", "1000\n");
  system.write("/sys/fs/cgroup/memory/batch/memory.stat",
               "inactive_file 7\ntotal_inactive_file 40\n");
  CHECK(free_host_bytes(system.root()) == 7040);
  system.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  system.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  CHECK(free_host_bytes(system.root()) == 7040);
}
