// SPDX-License-Identifier: Apache-2.0
#pragma once
// The host as a device: ordinary memory, and streams that run work where it is enqueued.

#include <zero/device/device.hpp>
#include <zero/device/host_workers.hpp>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace zero {

/// Owner of host memory that is entered in a ledger. Filled with 0xff at first: NaN as float, bf16,
/// fp16 and double, so that a value read before it was written is seen.
class HostBuffer {
 public:
  HostBuffer() = default;
  /// @throws OutOfMemory when the ledger's limit or the system forbids it
  HostBuffer(Index bytes, std::string_view kind, std::shared_ptr<Ledger> ledger)
      : ledger_(std::move(ledger)), kind_(kind), bytes_(bytes) {
    ledger_->take(kind_, bytes_);
    bool const large = bytes_ >= shifted_bytes;
    Index const shift = large ? shift_of(ledger_->allocations()) : 0;
    Index const alignment = large ? 4096 : 256;
    memory_ = std::aligned_alloc(at(alignment), at(round_up(bytes + 1 + shift, alignment)));
    if (memory_ == nullptr) {
      ledger_->give(kind_, bytes_);
      throw OutOfMemory("host memory: the system has no " + std::to_string(bytes) + " bytes for " +
                        kind_);
    }
    address_ = static_cast<std::byte*>(memory_) + shift;
    std::memset(address_, 0xff, at(bytes));
  }
  /// Takes over the memory; the other owns none.
  HostBuffer(HostBuffer&& other) noexcept
      : ledger_(std::move(other.ledger_)),
        kind_(std::move(other.kind_)),
        bytes_(other.bytes_),
        memory_(std::exchange(other.memory_, nullptr)),
        address_(std::exchange(other.address_, nullptr)) {}
  /// Exchanges the memory of the two.
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    std::swap(memory_, other.memory_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~HostBuffer() {
    if (memory_ == nullptr) return;
    std::free(memory_);
    ledger_->give(kind_, bytes_);
  }

  /// 256-byte aligned host memory; null where it owns none.
  std::byte* address() const { return address_; }

 private:
  /// Large buffers begin at other places of a page, one after the other: an update reads and writes
  /// several in step, and where four of them lie alike it was seen to run at 0.75 of its speed.
  static constexpr Index shifted_bytes = Index{1} << 16;
  static Index shift_of(Index number) { return number * 7 % 16 * 256; }

  std::shared_ptr<Ledger> ledger_;
  std::string kind_;
  Index bytes_ = 0;
  void* memory_ = nullptr;        // as the system gave it
  std::byte* address_ = nullptr;  // what is handed out
};

/// Nothing to order: work has run when enqueue returns.
struct HostEvent {};

/// A stream that runs work where it is enqueued, so what fails is thrown there.
class HostStream {
 public:
  using Event = HostEvent;  ///< nothing to record

  HostStream() = default;
  /// @param workers that share what work can be shared
  explicit HostStream(std::shared_ptr<HostWorkers> workers) : workers_(std::move(workers)) {}

  /// Runs work() now; what it throws is thrown here.
  template <class F>
  void enqueue(F&& work) {
    std::forward<F>(work)();
  }
  void record(Event&) noexcept {}  ///< nothing to record
  void wait(Event const&) {}       ///< nothing to wait for
  void synchronize() {}            ///< nothing to wait for
  void check() {}                  ///< nothing can have failed
  /// Threads that share what work can be shared; null: none.
  std::shared_ptr<HostWorkers> const& workers() const { return workers_; }

 private:
  std::shared_ptr<HostWorkers> workers_;
};

/// Ordinary memory; the host may dereference views of it. Work is done by the thread that enqueues
/// it, unless the device was made with threads of its own: these share optimizer updates, whose
/// bits do not depend on their number. Ranks that are threads have a core each already, so none is
/// the default.
class Host {
 public:
  Host() = default;
  /// @param threads that share updates, the calling one included @throws InvalidArgument below 1
  explicit Host(int threads) : workers_(std::make_shared<HostWorkers>(threads)) {}
  /// As the constructor; without workers for one thread.
  static Host with_threads(int threads) { return threads == 1 ? Host() : Host(threads); }

  static constexpr bool host_memory = true;  ///< views become spans
  using Stream = HostStream;                 ///< runs work where it is enqueued
  using Event = HostEvent;                   ///< nothing to order
  using Buffer = HostBuffer;                 ///< owner of ordinary memory

  /// The address itself.
  template <class T>
  static T* resolve(T* address) {
    return address;
  }
  /// Throws OutOfMemory.
  Buffer allocate(Index bytes, std::string_view kind) { return {bytes, kind, ledger_}; }
  Stream stream() { return Stream(workers_); }  ///< a stream of its own
  Event event() { return {}; }                  ///< complete
  Ledger& ledger() { return *ledger_; }         ///< of this device and its copies

 private:
  std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  std::shared_ptr<HostWorkers> workers_;
};

static_assert(RunsHostCode<Host>);

}  // namespace zero
