// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device whose streams run their work as late as the recorded events allow. Work that nobody has
// asked for does not run, so a wait that is missing is not hidden by luck: the bytes it should have
// waited for are still what they were before, NaN at first.
//
// An item of a stream is asked for when the host synchronizes the stream, when an item that is
// asked for, on another stream, waits for an event recorded behind it, or when the stream is
// destroyed. Ranks may need one another's streams without this device's knowing (a collective
// blocks until every rank is in it), so when nothing at all has moved on a device for `deadline`,
// the item that was enqueued first is asked for.

#include <zero/core/noise.hpp>
#include <zero/device/host.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace zero_test {

/// How LateDevices behave. A device keeps what is current when it is made.
struct LateSettings {
  static constexpr zero::Index no_wait = -1;
  static constexpr zero::Index every_wait = -2;

  std::chrono::microseconds deadline{5000};  ///< without any progress, before the oldest item runs
  std::chrono::microseconds longest_delay{0};  ///< a random time, up to this, before each item
  bool eager = false;                          ///< run work at once: for random orders of streams
  std::uint64_t seed = 1;                      ///< of the delays
  zero::Index ignored_wait = no_wait;  ///< planted fault: a wait, counted from 0 a device, left out
  bool log_waits = false;              ///< keep LateDevice::waits()

  static LateSettings& current() {
    static LateSettings settings;
    return settings;
  }
};

/// Settings for the devices that are made while it lives; to be made where no rank runs.
class WithLateSettings {
 public:
  explicit WithLateSettings(LateSettings const& settings)
      : before_(std::exchange(LateSettings::current(), settings)) {}
  WithLateSettings(WithLateSettings const&) = delete;
  WithLateSettings& operator=(WithLateSettings const&) = delete;
  ~WithLateSettings() { LateSettings::current() = before_; }

 private:
  LateSettings before_;
};

/// One wait of a stream for an event of another stream; streams are numbered as they were made.
struct LateWait {
  int waiting = 0;
  int recorded = 0;
};

namespace late {

/// A callable, moved in, called at most once.
class Work {
 public:
  Work() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Work>) explicit Work(F&& f)
      : held_(std::make_unique<Held<std::remove_cvref_t<F>>>(std::forward<F>(f))) {}
  void operator()() { held_->call(); }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual void call() = 0;
  };
  template <class F>
  struct Held final : Any {
    template <class G>
    explicit Held(G&& g) : f(std::forward<G>(g)) {}
    void call() override { f(); }
    F f;
  };
  std::unique_ptr<Any> held_;
};

struct Queue;

/// Work, or a wait until `awaited` has done `ticket` items.
struct Item {
  std::uint64_t order = 0;  // among all items of the device
  Work work{};
  std::shared_ptr<Queue> awaited{};
  std::uint64_t ticket = 0;
};

/// What the streams of one device share. All of it, and their queues, under one mutex.
struct Shared {
  using Clock = std::chrono::steady_clock;

  LateSettings settings = LateSettings::current();
  std::mutex mutex;
  std::vector<Queue*> queues;
  std::uint64_t order = 0;
  int streams = 0;
  int releases = 0;  // one after another, without a word from the host
  Clock::time_point progress = Clock::now();
  zero::Index num_waits = 0;
  std::vector<LateWait> waits;

  /// The host enqueued or asked for something.
  void host_acts() {
    releases = 0;
    progress = Clock::now();
  }
  /// Shorter after each release in vain, so that a long queue does not take that many deadlines.
  Clock::time_point patience() const {
    return progress + settings.deadline / (1 << std::min(releases, 5));
  }
};

/// One stream's items; they outlive the stream where an event still refers to them.
struct Queue {
  int number = 0;
  std::deque<Item> items;
  std::uint64_t enqueued = 0;
  std::uint64_t asked = 0;  // items up to this one may run
  std::uint64_t done = 0;
  bool closed = false;
  std::exception_ptr error;
  std::condition_variable work;      // its worker waits here
  std::condition_variable finished;  // and who waits for its work, here

  bool idle() const { return items.empty() || asked > done; }
  void ask(std::uint64_t ticket) {
    if (ticket <= asked) return;
    asked = ticket;
    work.notify_one();
  }
};

}  // namespace late

/// The state of a stream at the time of the last record.
struct LateEvent {
  std::shared_ptr<late::Queue> queue;
  std::uint64_t ticket = 0;
};

/// A queue with a thread of its own. What work throws is kept and thrown by check() and
/// synchronize(); work behind it is dropped, but counts as done, so that nobody waits forever.
class LateStream {
 public:
  using Event = LateEvent;

  explicit LateStream(std::shared_ptr<late::Shared> shared)
      : shared_(std::move(shared)), queue_(std::make_shared<late::Queue>()) {
    {
      std::lock_guard const lock(shared_->mutex);
      queue_->number = shared_->streams++;
      shared_->queues.push_back(queue_.get());
    }
    worker_ = std::thread([shared = shared_.get(), queue = queue_.get()] { run(*shared, *queue); });
  }
  LateStream(LateStream&&) = default;
  LateStream& operator=(LateStream&& other) noexcept {
    std::swap(shared_, other.shared_);
    std::swap(queue_, other.queue_);
    std::swap(worker_, other.worker_);
    return *this;
  }
  /// Runs what is left.
  ~LateStream() {
    if (!worker_.joinable()) return;
    {
      std::lock_guard const lock(shared_->mutex);
      shared_->host_acts();
      queue_->closed = true;
      queue_->asked = queue_->enqueued;
      queue_->work.notify_one();
    }
    worker_.join();
    std::lock_guard const lock(shared_->mutex);
    std::erase(shared_->queues, queue_.get());
  }

  template <class F>
  void enqueue(F&& f) {
    push({0, late::Work(std::forward<F>(f)), nullptr, 0});
  }
  void record(Event& event) noexcept {
    event.queue = queue_;
    event.ticket = queue_->enqueued;  // written by this thread alone
  }
  void wait(Event const& event) {
    if (event.queue == nullptr || event.queue == queue_) return;
    zero::Index const number = shared_->num_waits++;
    if (shared_->settings.log_waits)
      shared_->waits.push_back({queue_->number, event.queue->number});
    zero::Index const ignored = shared_->settings.ignored_wait;
    if (ignored == LateSettings::every_wait || ignored == number) return;
    push({0, {}, event.queue, event.ticket});
  }
  void synchronize() {
    std::unique_lock lock(shared_->mutex);
    shared_->host_acts();
    std::uint64_t const ticket = queue_->enqueued;
    queue_->ask(ticket);
    queue_->finished.wait(lock, [&] { return queue_->done >= ticket; });
    shared_->host_acts();
    if (queue_->error) std::rethrow_exception(queue_->error);
  }
  void check() {
    std::lock_guard const lock(shared_->mutex);
    if (queue_->error) std::rethrow_exception(queue_->error);
  }

  /// Whether the calling thread runs work of a stream.
  static bool inside() { return inside_; }

 private:
  void push(late::Item item) {
    std::lock_guard const lock(shared_->mutex);
    shared_->host_acts();
    item.order = shared_->order++;
    queue_->items.push_back(std::move(item));
    ++queue_->enqueued;
    if (shared_->settings.eager) queue_->asked = queue_->enqueued;
    queue_->work.notify_one();
  }

  static void run(late::Shared& shared, late::Queue& queue) {
    LateSettings const& settings = shared.settings;
    std::uint64_t const seed = zero::mix(settings.seed, static_cast<std::uint64_t>(queue.number));
    std::unique_lock lock(shared.mutex);
    for (;;) {
      if (queue.items.empty()) {
        if (queue.closed) return;
        queue.work.wait(lock);
        continue;
      }
      if (queue.asked <= queue.done) {
        await_demand(shared, queue, lock);
        continue;
      }
      late::Item item = std::move(queue.items.front());
      queue.items.pop_front();
      if (settings.longest_delay.count() > 0) {
        auto const most = static_cast<std::uint64_t>(settings.longest_delay.count());
        lock.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(
            static_cast<std::int64_t>(zero::mix(seed, item.order) % (most + 1))));
        lock.lock();
      }
      if (item.awaited != nullptr) {
        item.awaited->ask(item.ticket);
        item.awaited->finished.wait(lock, [&] { return item.awaited->done >= item.ticket; });
      } else if (!queue.error) {
        lock.unlock();
        std::exception_ptr const error = call(std::move(item.work));
        lock.lock();
        queue.error = error;
      }
      ++queue.done;
      shared.progress = late::Shared::Clock::now();
      queue.finished.notify_all();
    }
  }

  static std::exception_ptr call(late::Work work) noexcept {
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

  /// Waits until the first item is asked for, or asks for it where it is the oldest of a device on
  /// which nothing moves.
  static void await_demand(late::Shared& shared, late::Queue& queue,
                           std::unique_lock<std::mutex>& lock) {
    if (queue.work.wait_until(lock, shared.patience()) == std::cv_status::no_timeout) return;
    if (queue.asked > queue.done || late::Shared::Clock::now() < shared.patience()) return;
    bool const oldest =
        std::all_of(shared.queues.begin(), shared.queues.end(), [&](late::Queue const* other) {
          return other->idle() || other->items.front().order >= queue.items.front().order;
        });
    if (!oldest) return;
    ++shared.releases;
    shared.progress = late::Shared::Clock::now();
    queue.asked = queue.done + 1;
  }

  static inline thread_local bool inside_ = false;

  std::shared_ptr<late::Shared> shared_;
  std::shared_ptr<late::Queue> queue_;
  std::thread worker_;
};

/// Memory of a LateDevice, at an address that no machine can dereference.
class LateBuffer {
 public:
  /// Bit 61: an address with it is not canonical, on x86-64 as on AArch64.
  static constexpr std::uintptr_t tag = std::uintptr_t{1} << 61;

  LateBuffer() = default;
  explicit LateBuffer(zero::HostBuffer host) : host_(std::move(host)) {}
  std::byte* address() const {
    auto const address = reinterpret_cast<std::uintptr_t>(host_.address());
    return reinterpret_cast<std::byte*>(address == 0 ? 0 : address | tag);
  }

 private:
  zero::HostBuffer host_;
};

/// Runs host code, late.
class LateDevice {
 public:
  static constexpr bool host_memory = false;
  using Stream = LateStream;
  using Event = LateEvent;
  using Buffer = LateBuffer;

  /// @throws Error outside work of a stream, and for an address that is not of a LateDevice
  template <class T>
  static T* resolve(T* address) {
    if (!Stream::inside())
      throw zero::Error("LateDevice: an address was resolved outside the work of a stream");
    auto const tagged = reinterpret_cast<std::uintptr_t>(address);
    if (tagged == 0) return nullptr;
    if ((tagged & LateBuffer::tag) == 0)
      throw zero::Error("LateDevice: a resolved address is not the device's");
    return reinterpret_cast<T*>(tagged ^ LateBuffer::tag);
  }
  Buffer allocate(zero::Index bytes, std::string_view kind) {
    return Buffer(zero::HostBuffer(bytes, kind, ledger_));
  }
  Stream stream() { return Stream(shared_); }
  Event event() { return {}; }
  zero::Ledger& ledger() { return *ledger_; }

  /// Waits enqueued so far for another stream's event, those ignored included.
  zero::Index num_waits() const { return shared_->num_waits; }
  /// The same, one by one, with LateSettings::log_waits.
  std::vector<LateWait> const& waits() const { return shared_->waits; }

 private:
  std::shared_ptr<zero::Ledger> ledger_ = std::make_shared<zero::Ledger>();
  std::shared_ptr<late::Shared> shared_ = std::make_shared<late::Shared>();
};

static_assert(zero::RunsHostCode<LateDevice>);

}  // namespace zero_test
