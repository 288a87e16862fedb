// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a test makes of the system's reads and writes: io_faults.cpp stands before the C library's
// functions of these names in the whole program.

#include <atomic>

namespace tier_test {

/// What happens to reads and writes of this process, from any thread.
struct IoFaults {
  std::atomic<long> reads{0};       ///< so far
  std::atomic<long> writes{0};      ///< so far
  std::atomic<long> bad_read{-1};   ///< number of a read that fails, from 0
  std::atomic<long> bad_write{-1};  ///< number of a write that fails, from 0
  std::atomic<int> error{0};        ///< errno of these; 0: they transfer nothing
  std::atomic<long> piece{0};       ///< most bytes that a call transfers; 0: all
  std::atomic<int> interrupts{0};   ///< every so many-th call is interrupted by a signal; 0: none
  std::atomic<int> late_ms{0};      ///< that the call `late` takes longer
  std::atomic<long> late{-1};       ///< number of a call, reads and writes together
  std::atomic<long> killed{-1};     ///< number of a write at which the process is killed
  std::atomic<long> filesystem{0};  ///< what statfs says the type is; 0: the truth
  std::atomic<int> reservation{0};  ///< errno of posix_fallocate; 0: the truth

  void clear();
};

extern IoFaults io_faults;

}  // namespace tier_test
