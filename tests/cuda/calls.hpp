// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls that allocate or let the host wait, counted a thread, and bytes that CUDA's runtime has
// given out, counted a process: calls.cpp stands before the runtime's own functions, and before
// those of the system that this program's objects call.

#include <zero/core/size.hpp>

namespace zero_test {

struct Calls {
  zero::Index allocations = 0;  ///< of memory on the GPU and pinned, streams, events, graphs
  zero::Index waits = 0;        ///< for a stream, an event or the GPU, as freeing memory does
  zero::Index pauses = 0;       ///< yields and sleeps, as whoever looks again and again makes them
  zero::Index conditions = 0;   ///< waits for what another thread of this process tells
  zero::Index orders = 0;       ///< of one stream behind another, for which no host waits

  friend Calls operator-(Calls const& a, Calls const& b) {
    return {a.allocations - b.allocations, a.waits - b.waits, a.pauses - b.pauses,
            a.conditions - b.conditions, a.orders - b.orders};
  }
};

/// Of the calling thread, so far.
Calls& calls();

/// What allocating functions were asked for and have not had back, in bytes.
struct Allocated {
  zero::Index bytes = 0;   ///< of GPU memory
  zero::Index peak = 0;    ///< its largest value since restart_peak()
  zero::Index pinned = 0;  ///< of host memory
};

/// Of this process, now.
Allocated allocated();
/// The peak begins at what is given out now.
void restart_peak();

}  // namespace zero_test
