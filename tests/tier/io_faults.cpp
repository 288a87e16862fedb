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
  for (auto* value : {&error, &interrupts, &late_ms, &reservation}) *value = 0;
}

namespace {

/// @return what the call is to return at once, or 1 where it is to be made with `count` bytes
ssize_t meddle(std::atomic<long>& calls, std::atomic<long>& bad, std::size_t& count) {
  IoFaults& f = io_faults;
  long const number = calls++;
  long const all = f.reads + f.writes - 1;
  if (all == f.late) std::this_thread::sleep_for(std::chrono::milliseconds(f.late_ms));
  if (number == bad) {
    errno = f.error;
    return f.error == 0 ? 0 : -1;
  }
  if (f.interrupts > 0 && all % f.interrupts == 0) {
    errno = EINTR;
    return -1;
  }
  if (f.piece > 0) count = std::min(count, static_cast<std::size_t>(f.piece.load()));
  return 1;
}

}  // namespace

}  // namespace tier_test

extern "C" {

ssize_t pread(int file, void* to, std::size_t count, off_t offset) {
  using namespace tier_test;
  ssize_t const at_once = meddle(io_faults.reads, io_faults.bad_read, count);
  return at_once != 1 ? at_once : syscall(SYS_pread64, file, to, count, offset);
}

ssize_t pwrite(int file, void const* from, std::size_t count, off_t offset) {
  using namespace tier_test;
  if (io_faults.writes == io_faults.killed) kill(getpid(), SIGKILL);
  ssize_t const at_once = meddle(io_faults.writes, io_faults.bad_write, count);
  return at_once != 1 ? at_once : syscall(SYS_pwrite64, file, from, count, offset);
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
