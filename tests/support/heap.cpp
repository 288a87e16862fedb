// SPDX-License-Identifier: Apache-2.0
// Replaces the program's operator new and delete by ones that count. Those of over-aligned types
// stay as they are; arrays come here.
#include <support/heap.hpp>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<zero::Index> live = 0;
std::atomic<zero::Index> requested = 0;

}  // namespace

zero::Index heap::live_blocks() { return live.load(); }
zero::Index heap::requested_bytes() { return requested.load(); }

void* operator new(std::size_t bytes) {
  void* const address = std::malloc(bytes > 0 ? bytes : 1);
  if (address == nullptr) throw std::bad_alloc();
  ++live;
  requested += static_cast<zero::Index>(bytes);
  return address;
}

void operator delete(void* address) noexcept {
  if (address == nullptr) return;
  --live;
  std::free(address);
}

void operator delete(void* address, std::size_t) noexcept { operator delete(address); }
