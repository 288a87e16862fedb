// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this program has taken from operator new: a program that links heap.cpp counts it.

#include <zero/core/size.hpp>

namespace heap {

/// Blocks that are taken and not given back.
zero::Index live_blocks();

/// Bytes asked for since the start, given back or not.
zero::Index requested_bytes();

}  // namespace heap
