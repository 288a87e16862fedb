// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a test makes of the system's reads and writes: io_faults.cpp stands before the C library's
// functions of these names in the whole program, and uring/ring_faults.cpp before liburing's.

#include <zero/policy/offload.hpp>
#include <zero/tier/transfers.hpp>

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <memory>

namespace tier_test {

/// What happens to reads and writes of this process, from any thread.
struct IoFaults {
  std::atomic<long> reads{0};       ///< so far
  std::atomic<long> writes{0};      ///< so far
  std::atomic<long> bad_read{-1};   ///< number of a read that fails, from 0
  std::atomic<long> bad_write{-1};  ///< number of a write that fails, from 0
  std::atomic<int> error{0};        ///< errno of these; 0: they transfer nothing
  std::atomic<long> piece{0};       ///< most bytes that a call transfers; 0: all
  std::atomic<int> interrupts{0};   ///< every so many-th call is refused; 0: none
  std::atomic<int> refusal{0};      ///< errno of these
  std::atomic<int> late_ms{0};      ///< that the call `late` takes longer
  std::atomic<long> late{-1};       ///< number of a call, reads and writes together
  std::atomic<long> killed{-1};     ///< number of a write at which the process is killed
  std::atomic<long> filesystem{0};  ///< what statfs says the type is; 0: the truth
  std::atomic<int> reservation{0};  ///< errno of posix_fallocate; 0: the truth

  void clear();
};

extern IoFaults io_faults;

/// What is to become of a read or a write.
/// @param calls,bad reads and bad_read, or writes and bad_write
/// @return what the call is to return at once, bytes or a negative errno, or 1 where it is to be
///   made with `count` bytes
ssize_t meddle(std::atomic<long>& calls, std::atomic<long>& bad, std::size_t& count);

/// What makes transfers in this program.
std::shared_ptr<zero::Transfers> make_transfers(int requests, zero::Index block_bytes);
/// The same for a training; null where it is what the library takes by itself.
std::shared_ptr<zero::Transfers> transfers_for(zero::OffloadOptions const& options);

}  // namespace tier_test
