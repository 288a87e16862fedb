// SPDX-License-Identifier: Apache-2.0
// Replaces the program's operator new and delete by ones that count. Those of over-aligned types
// stay as they are; arrays come here. A sanitizer has operators of its own, and is asked to report
// what it allocates.
#include <support/heap.hpp>

#if ZERO_TESTS_SANITIZED
#include <sanitizer/allocator_interface.h>
#endif

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<zero::Index> live = 0;
std::atomic<zero::Index> requested = 0;

}  // namespace

zero::Index heap::live_blocks() { return live.load(); }
zero::Index heap::requested_bytes() { return requested.load(); }

#if ZERO_TESTS_SANITIZED

namespace {

void count_block(void const volatile*, std::size_t bytes) {
  ++live;
  requested += static_cast<zero::Index>(bytes);
}
void forget_block(void const volatile* address) {
  if (address != nullptr) --live;
}
[[maybe_unused]] int const hooks =
    __sanitizer_install_malloc_and_free_hooks(count_block, forget_block);

}  // namespace

#else

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

#endif
