// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel that gives no io_uring, or takes nothing of what a ring hands over.

#include <atomic>

namespace tier_test {

/// errno with which the kernel refuses a ring; 0: the truth.
extern std::atomic<int> kernel_refusal;
/// Entries beyond which the kernel refuses a ring, with ENOMEM.
extern std::atomic<unsigned> largest_ring;
/// errno with which the kernel takes nothing of what rings hand over; 0: the truth.
extern std::atomic<int> submission_refusal;
/// Entries that were handed over to the kernel.
extern std::atomic<long> handed_over;

}  // namespace tier_test
