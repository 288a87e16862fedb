// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device whose streams run their work as late as the recorded events allow. Work that nobody has
// asked for does not run, so a wait that is missing is not hidden by luck: the bytes it should have
// waited for are still what they were before, NaN at first. late_queue.hpp says what asks for work.

#include <zero/device/host.hpp>

#include <support/late_order.hpp>
#include <support/late_queue.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace zero_test {

/// The end of a stream at the time of the last record.
struct LateEvent {
  std::shared_ptr<late::Queue> queue{};
  std::uint64_t ticket = 0;
  late::Known known{};
};

/// A queue with a thread of its own. What work throws is kept and thrown by check() and
/// synchronize(); work behind it is dropped, but counts as done, so that nobody waits forever.
class LateStream {
 public:
  using Event = LateEvent;

  LateStream(std::shared_ptr<late::Streams> streams, std::shared_ptr<late::Waits> waits)
      : streams_(std::move(streams)),
        waits_(std::move(waits)),
        queue_(streams_->open()),
        worker_([all = streams_.get(), mine = queue_.get()] { all->run(*mine, call); }) {}
  LateStream(LateStream&&) = default;
  LateStream& operator=(LateStream&& other) noexcept {
    std::swap(streams_, other.streams_);
    std::swap(waits_, other.waits_);
    std::swap(queue_, other.queue_);
    std::swap(order_, other.order_);
    std::swap(worker_, other.worker_);
    return *this;
  }
  /// Runs what is left.
  ~LateStream() {
    if (!worker_.joinable()) return;
    streams_->close(*queue_);
    worker_.join();
    streams_->forget(*queue_);
  }

  template <class F>
  void enqueue(F&& f) {
    if (streams_->settings.log_waits) order_.settle(*waits_);
    streams_->push(*queue_, {.work = late::Work(std::forward<F>(f))});
  }
  void record(Event& event) noexcept {
    event = {queue_, queue_->enqueued, {}};
    if (!streams_->settings.log_waits) return;
    event.known = order_.settle(*waits_);
    event.known.at_least(queue_->number, queue_->enqueued);
  }
  void wait(Event const& event) {
    if (event.queue == nullptr || event.queue == queue_) return;  // never recorded; in order
    LateSettings const& settings = streams_->settings;
    zero::Index const number = waits_->count++;
    if (settings.log_waits) waits_->log.push_back({queue_->number, event.queue->number});
    if (settings.ignored_wait == LateSettings::every_wait || settings.ignored_wait == number)
      return;
    if (settings.log_waits)
      order_.waits(waits_->log.size() - 1, event.queue->number, event.ticket, event.known);
    streams_->push(*queue_, {.awaited = event.queue, .ticket = event.ticket});
  }
  void synchronize() {
    streams_->finish(*queue_);
    if (!streams_->settings.log_waits) return;
    waits_->host.join(order_.settle(*waits_));
    waits_->host.at_least(queue_->number, queue_->enqueued);
  }
  void check() { streams_->check(*queue_); }

  /// Whether the calling thread runs work of a stream.
  static bool inside() { return inside_; }

 private:
  static std::exception_ptr call(late::Work work) {
    inside_ = true;
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    inside_ = false;
    return error;
  }

  static inline thread_local bool inside_ = false;

  std::shared_ptr<late::Streams> streams_;
  std::shared_ptr<late::Waits> waits_;
  std::shared_ptr<late::Queue> queue_;
  late::Order order_;
  std::thread worker_;
};

namespace late {

/// Where memory of LateDevices is, in the whole process.
class Memory {
 public:
  static Memory& all() {
    static Memory memory;
    return memory;
  }

  void add(std::uintptr_t begin, zero::Index bytes) {
    std::lock_guard const lock(mutex_);
    ends_[begin] = begin + static_cast<std::uintptr_t>(bytes);
  }
  void remove(std::uintptr_t begin) noexcept {
    std::lock_guard const lock(mutex_);
    ends_.erase(begin);
  }
  /// Whether the address lies in a buffer, or at its end, where an empty view may be.
  bool has(std::uintptr_t address) {
    std::lock_guard const lock(mutex_);
    auto const next = ends_.upper_bound(address);
    return next != ends_.begin() && address <= std::prev(next)->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::uintptr_t> ends_;
};

}  // namespace late

/// Memory of a LateDevice, at an address that no machine can dereference.
class LateBuffer {
 public:
  /// Bit 61: an address with it is not canonical, on x86-64 as on AArch64.
  static constexpr std::uintptr_t tag = std::uintptr_t{1} << 61;

  LateBuffer() = default;
  LateBuffer(zero::HostBuffer host, zero::Index bytes) : host_(std::move(host)) {
    late::Memory::all().add(number(), bytes);
  }
  LateBuffer(LateBuffer&&) = default;
  LateBuffer& operator=(LateBuffer&& other) noexcept {
    std::swap(host_, other.host_);
    return *this;
  }
  ~LateBuffer() {
    if (number() != 0) late::Memory::all().remove(number());
  }

  std::byte* address() const {
    return reinterpret_cast<std::byte*>(number() == 0 ? 0 : number() | tag);
  }

 private:
  std::uintptr_t number() const { return reinterpret_cast<std::uintptr_t>(host_.address()); }

  zero::HostBuffer host_;
};

/// Runs host code, late.
class LateDevice {
 public:
  static constexpr bool host_memory = false;
  using Stream = LateStream;
  using Event = LateEvent;
  using Buffer = LateBuffer;

  /// Ends the process where the memory has been given back: work was still to be done on it.
  /// @throws Error outside work of a stream, and for an address that is not of a LateDevice
  template <class T>
  static T* resolve(T* address) {
    if (!Stream::inside())
      throw zero::Error("LateDevice: an address was resolved outside the work of a stream");
    auto const tagged = reinterpret_cast<std::uintptr_t>(address);
    if (tagged == 0) return nullptr;
    if ((tagged & LateBuffer::tag) == 0)
      throw zero::Error("LateDevice: a resolved address is not the device's");
    if (!late::Memory::all().has(tagged ^ LateBuffer::tag)) {
      std::fputs("LateDevice: work is done on memory that was given back before\n", stderr);
      std::abort();
    }
    return reinterpret_cast<T*>(tagged ^ LateBuffer::tag);
  }
  Buffer allocate(zero::Index bytes, std::string_view kind) {
    return {zero::HostBuffer(bytes, kind, ledger_), bytes};
  }
  Stream stream() { return {streams_, waits_}; }
  Event event() { return {}; }
  zero::Ledger& ledger() { return *ledger_; }

  /// Waits so far for another stream's event, those left out included.
  zero::Index num_waits() const { return waits_->count; }
  /// The same, one by one, with LateSettings::log_waits.
  std::vector<LateWait> const& waits() const { return waits_->log; }

 private:
  std::shared_ptr<zero::Ledger> ledger_ = std::make_shared<zero::Ledger>();
  std::shared_ptr<late::Streams> streams_ = std::make_shared<late::Streams>();
  std::shared_ptr<late::Waits> waits_ = std::make_shared<late::Waits>();
};

static_assert(zero::RunsHostCode<LateDevice>);

}  // namespace zero_test
