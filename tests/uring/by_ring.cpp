// SPDX-License-Identifier: Apache-2.0
// Transfers by io_uring, with a ring whose requests io_faults meddles with: the linker sends calls
// of these three functions of liburing here first. A request that is not to be made becomes one
// that does nothing, and its result is replaced when it comes back.
#include <zero/tier/uring.hpp>

#include <sys/stat.h>
#include <tier/io_faults.hpp>
#include <uring/refused_kernel.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace tier_test {

std::atomic<int> kernel_refusal{0};
std::atomic<unsigned> largest_ring{~0u};
std::atomic<int> submission_refusal{0};
std::atomic<long> handed_over{0};

namespace {

/// Where this kernel gives no ring there is nothing to meddle with: the case counts as skipped.
void wants_a_ring() {
  if (kernel_refusal != 0) return;
  std::string const refusal = zero::UringTransfers::refusal();
  if (!refusal.empty()) std::printf("skipped: %s\n", refusal.c_str());
}

}  // namespace

std::shared_ptr<zero::Transfers> make_transfers(int requests, zero::Index block_bytes) {
  wants_a_ring();
  return zero::uring_or_threads({.io_block_bytes = block_bytes, .io_threads = requests});
}
std::shared_ptr<zero::Transfers> transfers_for(zero::OffloadOptions const& options) {
  wants_a_ring();
  return zero::uring_or_threads(options);
}

namespace {

std::mutex mutex;
std::map<std::pair<io_uring*, std::uint64_t>, int> results;  // of requests that were not made

void meddle_with(io_uring* ring, io_uring_sqe& entry) {
  bool const reads = entry.opcode == IORING_OP_READ;
  if (!reads && entry.opcode != IORING_OP_WRITE) return;
  struct stat info {};
  if (fstat(entry.fd, &info) != 0 || !S_ISREG(info.st_mode)) return;  // not what wakes the thread
  std::size_t count = entry.len;
  ssize_t const at_once = reads ? meddle(io_faults.reads, io_faults.bad_read, count)
                                : meddle(io_faults.writes, io_faults.bad_write, count);
  entry.len = static_cast<unsigned>(count);
  if (at_once == 1) return;
  auto const number = entry.user_data;
  std::memset(&entry, 0, sizeof entry);
  entry.opcode = IORING_OP_NOP;
  entry.user_data = number;
  std::lock_guard const lock(mutex);
  results[{ring, number}] = static_cast<int>(at_once);
}

}  // namespace

}  // namespace tier_test

extern "C" {

int __real_io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags);
int __real_io_uring_submit_and_wait(io_uring* ring, unsigned count);
unsigned __real_io_uring_peek_batch_cqe(io_uring* ring, io_uring_cqe** to, unsigned count);

int __wrap_io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags) {
  int const refusal = entries > tier_test::largest_ring ? ENOMEM : tier_test::kernel_refusal.load();
  return refusal != 0 ? -refusal : __real_io_uring_queue_init(entries, ring, flags);
}

int __wrap_io_uring_submit_and_wait(io_uring* ring, unsigned count) {
  int const refusal = tier_test::submission_refusal;
  if (refusal != 0) return -refusal;
  for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; ++i) {
    tier_test::meddle_with(ring, ring->sq.sqes[i & *ring->sq.kring_mask]);
    ++tier_test::handed_over;
  }
  return __real_io_uring_submit_and_wait(ring, count);
}

unsigned __wrap_io_uring_peek_batch_cqe(io_uring* ring, io_uring_cqe** to, unsigned count) {
  unsigned const n = __real_io_uring_peek_batch_cqe(ring, to, count);
  std::lock_guard const lock(tier_test::mutex);
  for (unsigned i = 0; i < n; ++i) {
    auto const found = tier_test::results.find({ring, to[i]->user_data});
    if (found == tier_test::results.end()) continue;
    to[i]->res = found->second;
    tier_test::results.erase(found);
  }
  return n;
}

}  // extern "C"
