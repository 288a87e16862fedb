// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this program has taken from operator new: a program that links heap.cpp counts it.

#include <zero/core/size.hpp>

namespace heap {

/// Blocks that are taken and not given back.
zero::Index live_blocks();

/// Bytes asked for since the start, given back or not.
zero::Index requested_bytes();

/// Bytes that are taken and not given back, as large as the blocks are.
zero::Index live_bytes();

/// The most that live_bytes() was since forget_highest().
zero::Index highest_bytes();
void forget_highest();

/// Of the next requests of this thread for `bytes` and more, one is refused, after `given` others:
/// operator new throws std::bad_alloc. Under a sanitizer, which has operators of its own, none is.
void refuse(zero::Index bytes, zero::Index given = 0);

/// Ends that. @return whether a request was refused
bool allow();

}  // namespace heap
