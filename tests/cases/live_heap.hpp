// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many blocks this program has from operator new and has not given back.

#include <zero/core/size.hpp>

namespace cases {

zero::Index live_heap_blocks();

}  // namespace cases
