// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many streams a GPU serves side by side.

#include <cstdlib>

namespace gpt2 {

/// Asks CUDA for a hardware queue for each of up to 32 streams, where the environment does not say
/// how many: with state below a GPU a rank has more streams than the 8 queues that CUDA takes by
/// itself, and work of two streams in one queue waits for each other, asked or not. To be called
/// before CUDA starts and before there are threads.
inline void ask_for_connections() { ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

}  // namespace gpt2
