// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <tier/io_faults.hpp>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

namespace tier_test {

IoFaults io_faults;

void IoFaults::clear() {
  for (auto* count : {&reads, &writes, &piece, &filesystem}) *count = 0;
  for (auto* number : {&bad_read, &bad_write, &late, &killed}) *number = -1;
  for (auto* value : {&error, &interrupts, &refusal, &late_ms, &reservation}) *value = 0;
}

ssize_t meddle(std::atomic<long>& calls, std::atomic<long>& bad, std::size_t& count) {
  IoFaults& f = io_faults;
  if (&calls == &f.writes && calls == f.killed) kill(getpid(), SIGKILL);
  long const number = calls++;
  long const all = f.reads + f.writes - 1;
  if (all == f.late) std::this_thread::sleep_for(std::chrono::milliseconds(f.late_ms));
  if (number == bad) return -f.error;
  if (f.interrupts > 0 && all % f.interrupts == 0) return -f.refusal;
  if (f.piece > 0) count = std::min(count, static_cast<std::size_t>(f.piece.load()));
  return 1;
}

}  // namespace tier_test

extern "C" {

ssize_t pread(int file, void* to, std::size_t count, off_t offset) {
  using namespace tier_test;
  ssize_t const at_once = meddle(io_faults.reads, io_faults.bad_read, count);
  if (at_once == 1) return syscall(SYS_pread64, file, to, count, offset);
  errno = static_cast<int>(-at_once);
  return at_once < 0 ? -1 : at_once;
}

ssize_t pwrite(int file, void const* from, std::size_t count, off_t offset) {
  using namespace tier_test;
  ssize_t const at_once = meddle(io_faults.writes, io_faults.bad_write, count);
  if (at_once == 1) return syscall(SYS_pwrite64, file, from, count, offset);
  errno = static_cast<int>(-at_once);
  return at_once < 0 ? -1 : at_once;
}

int posix_fallocate(int file, off_t offset, off_t count) {
  if (tier_test::io_faults.reservation != 0) return tier_test::io_faults.reservation;
  return syscall(SYS_fallocate, file, 0, offset, count) == 0 ? 0 : errno;
}

int statfs(char const* path, struct statfs* to) noexcept {
  long const result = syscall(SYS_statfs, path, to);
  if (tier_test::io_faults.filesystem != 0) to->f_type = tier_test::io_faults.filesystem;
  return static_cast<int>(result);
}

}  // extern "C"
