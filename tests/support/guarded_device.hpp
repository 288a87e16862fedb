// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device whose memory the host cannot touch: every access outside the device's own work is a
// SIGSEGV at the line that makes it.
//
// A buffer is reserved twice over. Views hold addresses of the first half, which is never
// accessible; the bytes lie in the second half, which is accessible from the moment that work
// resolves an address of it until that work ends. So a host dereference of a view crashes, and so
// does work that forgets to resolve, and whoever keeps a resolved address for later.
//
// Streams run work where it is enqueued, like the host's: then the fault has the stack of its
// cause, and all memory is closed whenever code of the host runs. (Orders of streams are
// LateDevice's business.)

#include <zero/device/device.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero_test {

namespace guarded {

/// One buffer: a half that views point into, and `half_bytes` behind it the memory.
struct Region {
  std::uintptr_t base = 0;
  std::uintptr_t half_bytes = 0;
  int open = 0;  // pieces of work that have resolved an address of it
};

/// All buffers of the process.
class Regions {
 public:
  static Regions& all() {
    static Regions regions;
    return regions;
  }

  /// @return the address of `bytes` bytes filled with 0xff, or 0
  std::uintptr_t make(zero::Index bytes) {
    // They end where the half's last page begins, which is never opened: what is written behind
    // them is seen, but for a rest to the next multiple of 256.
    zero::Index const used = zero::round_up(bytes, 256);
    zero::Index const open_bytes = zero::round_up(used, page_);
    std::uintptr_t const half_bytes = static_cast<std::uintptr_t>(open_bytes + page_);
    void* const base = mmap(nullptr, 2 * half_bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return 0;
    Region const region{reinterpret_cast<std::uintptr_t>(base), half_bytes};
    std::uintptr_t const address = region.base + static_cast<std::uintptr_t>(open_bytes - used);
    protect(region, PROT_READ | PROT_WRITE);
    std::memset(reinterpret_cast<void*>(address + half_bytes), 0xff, zero::at(bytes));
    protect(region, PROT_NONE);
    std::lock_guard const lock(mutex_);
    regions_.emplace(region.base, region);
    return address;
  }
  void remove(std::uintptr_t address) noexcept {
    std::lock_guard const lock(mutex_);
    auto const found = std::prev(regions_.upper_bound(address));
    munmap(reinterpret_cast<void*>(found->second.base), 2 * found->second.half_bytes);
    regions_.erase(found);
  }

  /// Opens the region of an address for a piece of work, unless it already has.
  /// @param opened the regions that this piece of work has opened
  /// @return where the bytes are
  std::uintptr_t open(std::uintptr_t address, std::vector<std::uintptr_t>& opened) {
    std::lock_guard const lock(mutex_);
    auto found = regions_.upper_bound(address);
    if (found == regions_.begin() || address >= (--found)->first + found->second.half_bytes)
      throw zero::Error("GuardedDevice: a resolved address lies in no buffer");
    Region& region = found->second;
    if (std::find(opened.begin(), opened.end(), region.base) == opened.end()) {
      opened.push_back(region.base);
      if (region.open++ == 0) protect(region, PROT_READ | PROT_WRITE);
    }
    return address + region.half_bytes;
  }
  void close(std::vector<std::uintptr_t> const& opened) noexcept {
    std::lock_guard const lock(mutex_);
    for (std::uintptr_t base : opened) {
      auto const found = regions_.find(base);
      if (found != regions_.end() && --found->second.open == 0) protect(found->second, PROT_NONE);
    }
  }

 private:
  /// All but the half's last page.
  void protect(Region const& region, int protection) const noexcept {
    void* const memory = reinterpret_cast<void*>(region.base + region.half_bytes);
    std::uintptr_t const bytes = region.half_bytes - static_cast<std::uintptr_t>(page_);
    if (bytes > 0 && mprotect(memory, bytes, protection) != 0) {
      std::perror("GuardedDevice: mprotect");
      std::abort();
    }
  }

  zero::Index const page_ = sysconf(_SC_PAGESIZE);
  std::mutex mutex_;
  std::map<std::uintptr_t, Region> regions_;
};

/// A piece of work that the calling thread runs.
class Running {
 public:
  Running() : outer_(std::exchange(current_, this)) {}
  Running(Running const&) = delete;
  Running& operator=(Running const&) = delete;
  ~Running() {
    Regions::all().close(opened_);
    current_ = outer_;
  }

  /// @throws Error where the calling thread runs no work
  static std::uintptr_t resolve(std::uintptr_t address) {
    if (current_ == nullptr)
      throw zero::Error("GuardedDevice: an address was resolved outside the work of a stream");
    return address == 0 ? 0 : Regions::all().open(address, current_->opened_);
  }

 private:
  static inline thread_local Running* current_ = nullptr;

  Running* outer_;
  std::vector<std::uintptr_t> opened_;
};

}  // namespace guarded

struct GuardedEvent {};

class GuardedStream {
 public:
  using Event = GuardedEvent;
  template <class F>
  void enqueue(F&& work) {
    guarded::Running const running;
    std::forward<F>(work)();
  }
  void record(Event&) noexcept {}
  void wait(Event const&) {}
  void synchronize() {}
  void check() {}
};

/// Owner of a region that is entered in a ledger.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  GuardedBuffer(zero::Index bytes, std::string_view kind, std::shared_ptr<zero::Ledger> ledger)
      : ledger_(std::move(ledger)), kind_(kind), bytes_(bytes) {
    ledger_->take(kind_, bytes_);
    address_ = guarded::Regions::all().make(bytes);
    if (address_ == 0) {
      ledger_->give(kind_, bytes_);
      throw zero::OutOfMemory("GuardedDevice: no " + std::to_string(bytes) + " bytes for " + kind_ +
                              ": " + std::strerror(errno));
    }
  }
  GuardedBuffer(GuardedBuffer&& other) noexcept
      : ledger_(std::move(other.ledger_)),
        kind_(std::move(other.kind_)),
        bytes_(other.bytes_),
        address_(std::exchange(other.address_, 0)) {}
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~GuardedBuffer() {
    if (address_ == 0) return;
    guarded::Regions::all().remove(address_);
    ledger_->give(kind_, bytes_);
  }

  std::byte* address() const { return reinterpret_cast<std::byte*>(address_); }

 private:
  std::shared_ptr<zero::Ledger> ledger_;
  std::string kind_;
  zero::Index bytes_ = 0;
  std::uintptr_t address_ = 0;
};

/// Runs host code, in memory that the host cannot touch.
class GuardedDevice {
 public:
  static constexpr bool host_memory = false;
  using Stream = GuardedStream;
  using Event = GuardedEvent;
  using Buffer = GuardedBuffer;

  /// @throws Error outside work of a stream, and for an address in no buffer
  template <class T>
  static T* resolve(T* address) {
    return reinterpret_cast<T*>(
        guarded::Running::resolve(reinterpret_cast<std::uintptr_t>(address)));
  }
  Buffer allocate(zero::Index bytes, std::string_view kind) { return {bytes, kind, ledger_}; }
  Stream stream() { return {}; }
  Event event() { return {}; }
  zero::Ledger& ledger() { return *ledger_; }

 private:
  std::shared_ptr<zero::Ledger> ledger_ = std::make_shared<zero::Ledger>();
};

static_assert(zero::RunsHostCode<GuardedDevice>);

}  // namespace zero_test
