// SPDX-License-Identifier: Apache-2.0
#pragma once
// The queues behind LateDevice's streams, and what lets their items run.
//
// An item is asked for when the host synchronizes its stream, when an item that is asked for, on
// another stream, waits for an event recorded behind it, or when its stream is destroyed. Ranks may
// need one another's streams without this device's knowing (a collective blocks until every rank is
// in it), so when nothing at all has moved on a device for `deadline`, the item that was enqueued
// first may run.

#include <zero/core/noise.hpp>
#include <zero/core/size.hpp>

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

/// How LateDevices behave. A device keeps what is current when it is made. Streams are numbered as
/// they are made; a trainer makes compute, gathering and reducing.
struct LateSettings {
  static constexpr int no_stream = -1;
  static constexpr int every_stream = -2;
  static constexpr zero::Index no_wait = -1;
  static constexpr zero::Index every_wait = -2;

  /// Without any progress, before the oldest item runs.
  std::chrono::microseconds deadline{5000};
  /// A random time, up to this, before each item and each wait.
  std::chrono::microseconds longest_delay{0};
  std::uint64_t seed = 1;  ///< of the delays
  /// A stream whose work runs as early as events allow, while other streams do only what it waits
  /// for: late streams alone show that this one waits for nothing it needs. Or every stream: random
  /// orders.
  int early = no_stream;
  /// Planted fault: a wait for another stream, counted from 0 on each device, is left out.
  zero::Index ignored_wait = no_wait;
  bool log_waits = false;  ///< keep LateDevice::waits()

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

namespace late {

/// A callable, moved in, called at most once.
class Work {
 public:
  Work() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Work>) explicit Work(F&& f)
      : held_(std::make_unique<Held<std::decay_t<F>>>(std::forward<F>(f))) {}

  void operator()() { held_->call(); }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual void call() = 0;
  };
  template <class F>
  struct Held final : Any {
    template <class G>
    explicit Held(G&& g) : f(std::forward<G>(g)) {}
    void call() override { std::move(f)(); }
    F f;
  };
  std::unique_ptr<Any> held_;
};

struct Queue;

/// Work, or a wait until `awaited` has done `ticket` items.
struct Item {
  Work work{};
  std::shared_ptr<Queue> awaited{};
  std::uint64_t ticket = 0;
  std::uint64_t order = 0;  // among all items of the device
};

/// One stream's items. Outlives the stream where an event still refers to it.
struct Queue {
  int number = 0;
  std::deque<Item> items;
  std::uint64_t enqueued = 0;
  std::uint64_t asked = 0;   // items up to this one are asked for
  std::uint64_t urgent = 0;  // ... by the early stream, or run because nothing moved
  std::uint64_t done = 0;
  bool running = false;
  bool closed = false;
  std::exception_ptr error;
  std::condition_variable work;      // its worker waits here
  std::condition_variable finished;  // and who waits for its items, here
};

/// What the streams of one device share. All of it, and their queues, under one mutex.
class Streams {
 public:
  LateSettings const settings = LateSettings::current();

  std::shared_ptr<Queue> open() {
    auto queue = std::make_shared<Queue>();
    std::lock_guard const lock(mutex_);
    queue->number = made_++;
    queues_.push_back(queue.get());
    if (queue->number == settings.early) early_ = queue.get();
    return queue;
  }
  /// No item will follow; its worker ends when it has run what is there.
  void close(Queue& queue) {
    std::lock_guard const lock(mutex_);
    host_acts();
    queue.closed = true;
    ask(queue, queue.enqueued, false);
    queue.work.notify_one();
  }
  void forget(Queue& queue) {
    std::lock_guard const lock(mutex_);
    std::erase(queues_, &queue);
    if (early_ == &queue) early_ = nullptr;
    wake_all();
  }

  void push(Queue& queue, Item item) {
    std::lock_guard const lock(mutex_);
    host_acts();
    item.order = order_++;
    queue.items.push_back(std::move(item));
    ++queue.enqueued;
    if (settings.early == LateSettings::every_stream || &queue == early_)
      queue.asked = queue.enqueued;
    queue.work.notify_one();
  }
  /// Waits for all items, then rethrows what one of them threw.
  void finish(Queue& queue) {
    std::unique_lock lock(mutex_);
    host_acts();
    std::uint64_t const ticket = queue.enqueued;
    ask(queue, ticket, false);
    queue.finished.wait(lock, [&] { return queue.done >= ticket; });
    host_acts();
    if (queue.error) std::rethrow_exception(queue.error);
  }
  void check(Queue const& queue) {
    std::lock_guard const lock(mutex_);
    if (queue.error) std::rethrow_exception(queue.error);
  }

  /// The life of a queue's worker. @param call runs a Work and returns what it threw
  void run(Queue& queue, std::exception_ptr (*call)(Work)) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (queue.items.empty()) {
        if (queue.closed) return;
        queue.work.wait(lock);
      } else if (!may_start(queue)) {
        await_demand(queue, lock);
      } else {
        run_first(queue, call, lock);
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  void host_acts() {
    releases_ = 0;
    progress_ = Clock::now();
  }
  void wake_all() {
    for (Queue* queue : queues_) queue->work.notify_one();
  }
  static void ask(Queue& queue, std::uint64_t ticket, bool urgent) {
    queue.asked = std::max(queue.asked, ticket);
    if (urgent) queue.urgent = std::max(queue.urgent, ticket);
    queue.work.notify_one();
  }
  bool may_start(Queue const& queue) const {
    std::uint64_t const next = queue.done + 1;
    if (queue.urgent >= next) return true;
    if (queue.asked < next) return false;
    return early_ == nullptr || early_ == &queue || (early_->items.empty() && !early_->running);
  }

  void run_first(Queue& queue, std::exception_ptr (*call)(Work),
                 std::unique_lock<std::mutex>& lock) {
    bool const urgent = &queue == early_ || queue.urgent > queue.done;
    Item item = std::move(queue.items.front());
    queue.items.pop_front();
    queue.running = true;
    if (settings.longest_delay.count() > 0) {
      lock.unlock();
      std::this_thread::sleep_for(delay(queue, item));
      lock.lock();
    }
    if (item.awaited != nullptr) {
      ask(*item.awaited, item.ticket, urgent);
      item.awaited->finished.wait(lock, [&] { return item.awaited->done >= item.ticket; });
    } else if (!queue.error) {
      lock.unlock();
      std::exception_ptr const error = call(std::move(item.work));
      lock.lock();
      queue.error = error;
    }
    queue.running = false;
    ++queue.done;
    progress_ = Clock::now();
    queue.finished.notify_all();
    if (&queue == early_ && queue.items.empty()) wake_all();
  }
  std::chrono::microseconds delay(Queue const& queue, Item const& item) const {
    auto const most = static_cast<std::uint64_t>(settings.longest_delay.count());
    std::uint64_t const bits =
        zero::mix(zero::mix(settings.seed, static_cast<std::uint64_t>(queue.number)), item.order);
    return std::chrono::microseconds(static_cast<std::int64_t>(bits % (most + 1)));
  }

  /// Waits until the first item may start, or lets it where nothing moves and it is the oldest.
  void await_demand(Queue& queue, std::unique_lock<std::mutex>& lock) {
    // Shorter after each release in vain, so that a long queue does not take that many deadlines.
    auto const until = [&] {
      return progress_ + settings.deadline / (1 << std::min(releases_, 5));
    };
    if (queue.work.wait_until(lock, until()) == std::cv_status::no_timeout) return;
    if (may_start(queue) || Clock::now() < until()) return;
    bool const oldest = std::all_of(queues_.begin(), queues_.end(), [&](Queue const* other) {
      return other->running || other->items.empty() ||
             other->items.front().order >= queue.items.front().order;
    });
    if (!oldest) return;
    ++releases_;
    progress_ = Clock::now();
    queue.urgent = queue.done + 1;
  }

  std::mutex mutex_;
  std::vector<Queue*> queues_;
  Queue* early_ = nullptr;
  std::uint64_t order_ = 0;
  int made_ = 0;
  int releases_ = 0;  // one after another, without a word from the host
  Clock::time_point progress_ = Clock::now();
};

}  // namespace late

}  // namespace zero_test
