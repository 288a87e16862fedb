// SPDX-License-Identifier: Apache-2.0
// Replaces the program's operator new and delete by ones that count. Those of over-aligned types
// stay as they are; arrays come here. A sanitizer has operators of its own, and is asked to report
// what it allocates.
#include <malloc.h>
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
std::atomic<zero::Index> taken = 0;
std::atomic<zero::Index> highest = 0;
constexpr zero::Index nothing = -1;
thread_local zero::Index refused_bytes = nothing;
thread_local zero::Index given_before = 0;

void take(zero::Index bytes) {
  ++live;
  zero::Index const now = taken += bytes;
  for (zero::Index before = highest; before < now && !highest.compare_exchange_weak(before, now);) {
  }
}
void give(zero::Index bytes) {
  --live;
  taken -= bytes;
}

}  // namespace

zero::Index heap::live_blocks() { return live.load(); }
zero::Index heap::requested_bytes() { return requested.load(); }
zero::Index heap::live_bytes() { return taken.load(); }
zero::Index heap::highest_bytes() { return highest.load(); }
void heap::forget_highest() { highest = taken.load(); }
void heap::refuse(zero::Index bytes, zero::Index given) {
  refused_bytes = bytes;
  given_before = given;
}
bool heap::allow() {
  bool const refused = given_before < 0;
  refused_bytes = nothing;
  given_before = 0;
  return refused;
}

#if ZERO_TESTS_SANITIZED

namespace {

void count_block(void const volatile*, std::size_t bytes) {
  take(static_cast<zero::Index>(bytes));
  requested += static_cast<zero::Index>(bytes);
}
void forget_block(void const volatile* address) {
  if (address != nullptr)
    give(
        static_cast<zero::Index>(__sanitizer_get_allocated_size(const_cast<void const*>(address))));
}
[[maybe_unused]] int const hooks =
    __sanitizer_install_malloc_and_free_hooks(count_block, forget_block);

}  // namespace

#else

void* operator new(std::size_t bytes) {
  if (refused_bytes != nothing && static_cast<zero::Index>(bytes) >= refused_bytes &&
      given_before-- == 0) {
    refused_bytes = nothing;
    throw std::bad_alloc();
  }
  void* const address = std::malloc(bytes > 0 ? bytes : 1);
  if (address == nullptr) throw std::bad_alloc();
  take(static_cast<zero::Index>(malloc_usable_size(address)));
  requested += static_cast<zero::Index>(bytes);
  return address;
}

void operator delete(void* address) noexcept {
  if (address == nullptr) return;
  give(static_cast<zero::Index>(malloc_usable_size(address)));
  std::free(address);
}

void operator delete(void* address, std::size_t) noexcept { operator delete(address); }

#endif
