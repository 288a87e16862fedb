// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel that gives no io_uring.

#include <atomic>

namespace tier_test {

/// errno with which the kernel refuses a ring; 0: the truth.
extern std::atomic<int> kernel_refusal;

}  // namespace tier_test
