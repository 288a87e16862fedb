// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of the host beside a device, as a device of its own: its bytes are the host's, its
// streams and events the device's. So work on host memory is ordered with work on the device by the
// same slots and claims, and what runs host code runs there unchanged.

#include <zero/device/host_elementwise.hpp>
#include <zero/policy/offload.hpp>

#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace zero {

/// A device that makes host memory its own transfers' memory: pin(address, bytes) and
/// unpin(address), for whole pages. Beside it all memory is pinned. For others, locked memory is
/// memory that mlock has locked.
template <class D>
concept CanPin = Device<D> && requires(D& device, std::byte* address, Index bytes) {
  device.pin(address, bytes);
  { device.unpin(address) }
  noexcept;
};

/// Bytes that all host sides of this process have locked: what its limit of locked memory counts.
inline std::atomic<Index>& locked_in_process() {
  static std::atomic<Index> bytes = 0;
  return bytes;
}

/// Owner of whole pages of host memory, locked where that was asked for. Filled with 0xff at first,
/// as HostBuffer.
/// @tparam D the device beside it
template <Device D>
class HostSideBuffer {
 public:
  /// What all buffers of one host side share.
  struct Common {
    D* device;                           ///< beside which the memory lies
    MemoryLock lock = MemoryLock::none;  ///< as OffloadOptions::pin_memory
    Ledger ledger{"host memory"};        ///< bytes given out
    Ledger locked{"locked memory"};      ///< bytes of these that are locked
  };

  HostSideBuffer() = default;
  /// @throws OutOfMemory when the ledger's limit or the system forbids it, or when it cannot be
  ///   locked and must be: names limit and need
  HostSideBuffer(Index bytes, std::string_view kind, std::shared_ptr<Common> common)
      : common_(std::move(common)), kind_(kind), bytes_(bytes) {
    common_->ledger.take(kind_, bytes_);
    address_ = static_cast<std::byte*>(std::aligned_alloc(4096, at(round_up(bytes + 1, 4096))));
    if (address_ == nullptr) {
      common_->ledger.give(kind_, bytes_);
      throw OutOfMemory("host memory: the system has no " + std::to_string(bytes) + " bytes for " +
                        kind_);
    }
    std::memset(address_, 0xff, at(bytes));
    try {
      lock();
    } catch (...) {
      std::free(address_);
      common_->ledger.give(kind_, bytes_);
      throw;
    }
  }
  /// Takes over the memory; the other owns none.
  HostSideBuffer(HostSideBuffer&& other) noexcept
      : common_(std::move(other.common_)),
        kind_(std::move(other.kind_)),
        bytes_(other.bytes_),
        address_(std::exchange(other.address_, nullptr)),
        locked_(std::exchange(other.locked_, false)) {}
  /// Exchanges the memory of the two.
  HostSideBuffer& operator=(HostSideBuffer&& other) noexcept {
    std::swap(common_, other.common_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    std::swap(address_, other.address_);
    std::swap(locked_, other.locked_);
    return *this;
  }
  ~HostSideBuffer() {
    if (address_ == nullptr) return;
    if (locked_) unlock();
    std::free(address_);
    common_->ledger.give(kind_, bytes_);
  }

  /// 4096-byte aligned host memory; null where it owns none.
  std::byte* address() const { return address_; }

 private:
  void lock() {
    if (bytes_ == 0) return;
    if constexpr (CanPin<D>) {
      try {  // whatever the option says: kernels read it
        common_->device->pin(address_, bytes_);
      } catch (OutOfMemory const& e) {
        throw OutOfMemory(refusal(e.what()));
      }
    } else if (common_->lock == MemoryLock::none) {
      return;
    } else if (mlock(address_, at(bytes_)) != 0) {
      if (common_->lock == MemoryLock::attempt) return;
      throw OutOfMemory(refusal(detail::system_text(errno)));
    }
    common_->locked.take(kind_, bytes_);
    locked_in_process() += bytes_;
    locked_ = true;
  }
  void unlock() noexcept {
    if constexpr (CanPin<D>) {
      common_->device->unpin(address_);
    } else {
      munlock(address_, at(bytes_));
    }
    common_->locked.give(kind_, bytes_);
    locked_in_process() -= bytes_;
  }
  std::string refusal(std::string const& reason) const {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    return "locked memory: " + std::to_string(bytes_) + " bytes for " + kind_ +
           " cannot be locked beside the " + std::to_string(common_->locked.bytes()) +
           " bytes of this rank, and " + std::to_string(locked_in_process().load()) +
           " of this process, that are: " + reason +
           "; RLIMIT_MEMLOCK of the process, all its ranks together, is " +
           (limit.rlim_cur == RLIM_INFINITY ? "without limit" : std::to_string(limit.rlim_cur)) +
           " bytes, and counts whole pages of every buffer. Raise it (ulimit -l), " +
           (CanPin<D> ? "or keep less below the device" : "or do not demand that memory is locked");
  }

  std::shared_ptr<Common> common_;
  std::string kind_;
  Index bytes_ = 0;
  std::byte* address_ = nullptr;
  bool locked_ = false;
};

/// The host's memory beside the device D. Views of it are spans; its streams are D's.
template <class D>
class HostSide {
 public:
  static constexpr bool host_memory = true;  ///< the host may dereference views
  using Stream = typename D::Stream;         ///< of the device beside it
  using Event = typename D::Event;           ///< of the device beside it
  using Buffer = HostSideBuffer<D>;          ///< owner of host memory

  /// @param device outlives this
  /// @param lock whether memory is locked
  HostSide(D& device, MemoryLock lock) : common_(std::make_shared<typename Buffer::Common>()) {
    common_->device = &device;
    common_->lock = lock;
  }

  /// The address itself.
  template <class T>
  static T* resolve(T* address) {
    return address;
  }
  /// Throws OutOfMemory.
  Buffer allocate(Index bytes, std::string_view kind) { return {bytes, kind, common_}; }
  Stream stream() { return common_->device->stream(); }  ///< a stream of its own
  Event event() { return common_->device->event(); }     ///< complete
  Ledger& ledger() { return common_->ledger; }           ///< of this memory
  Ledger& locked() { return common_->locked; }           ///< of what of it is locked

 private:
  std::shared_ptr<typename Buffer::Common> common_;
};

static_assert(RunsHostCode<HostSide<Host>>);

namespace detail {

/// A flag that streams' work sets and reads: 1, a step is skipped; 2, something has failed for
/// good.
inline bool raised(std::int32_t* flag) {
  return std::atomic_ref<std::int32_t>(*flag).load(std::memory_order_acquire) != 0;
}
inline void raise_for_good(std::int32_t* flag) {
  std::atomic_ref<std::int32_t>(*flag).store(2, std::memory_order_release);
}
/// Leaves alone what has failed for good.
inline void raise(std::int32_t* flag, bool up) {
  std::atomic_ref<std::int32_t> const shared(*flag);
  std::int32_t now = shared.load(std::memory_order_acquire);
  while (now != 2 && !shared.compare_exchange_weak(now, up ? 1 : 0)) {
  }
}

}  // namespace detail

/// to[i] = from[i] unless the flag is raised by then; both lie in host memory that outlives the
/// work. On the stream.
template <class T, RunsHostCode D>
void copy_in_unless(typename D::Stream& stream, View<T, D> to, T const* from, std::int32_t* flag) {
  if (to.size() == 0) return;
  stream.enqueue([to, from, flag] {
    if (detail::raised(flag)) return;
    std::memcpy(static_cast<void*>(D::resolve(to.address())), from, at(to.size()) * sizeof(T));
  });
}

/// to[i] = 0 unless the flag is raised by then; of types whose 0 is all bits 0, in host memory that
/// outlives the work. On the stream.
template <class T, RunsHostCode D>
void fill_zero_unless(typename D::Stream& stream, View<T, D> to, std::int32_t* flag) {
  if (to.size() == 0) return;
  stream.enqueue([to, flag] {
    if (detail::raised(flag)) return;
    std::memset(static_cast<void*>(D::resolve(to.address())), 0, at(to.size()) * sizeof(T));
  });
}

}  // namespace zero
