// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls of the CUDA runtime that allocate or let the host wait, counted a thread: calls.cpp stands
// before the runtime's own functions.

#include <zero/core/size.hpp>

namespace zero_test {

struct Calls {
  zero::Index allocations = 0;  ///< of GPU memory, pinned memory, streams and events
  zero::Index waits = 0;        ///< for a stream, an event or the GPU

  friend Calls operator-(Calls const& a, Calls const& b) {
    return {a.allocations - b.allocations, a.waits - b.waits};
  }
};

/// Of the calling thread, so far.
Calls& calls();

}  // namespace zero_test
