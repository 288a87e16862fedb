// SPDX-License-Identifier: Apache-2.0
#pragma once
// The host as a device on whose streams a transfer may be under way while the model computes. There
// is no other thread: whoever enqueues or waits looks after what is unfinished.

#include <zero/device/host_elementwise.hpp>
#include <zero/mpi/work_queue.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace zero {

/// A device whose streams take work that takes several looks: enqueue_polled(f) calls f(waiting) in
/// the stream's order until it returns true.
template <class D>
concept Polls = RunsHostCode<D> &&
    requires(typename D::Stream& stream, bool (*work)(bool waiting)) {
  stream.enqueue_polled(work);
};

/// Between two looks at something that is not finished. At first the next look is at once; then the
/// processor is others', for longer and longer. A thread that sleeps is woken before those that
/// compute; one that only yields would wait for all of them.
class PoliteWait {
 public:
  /// Waits once.
  void operator()() {
    constexpr int at_once = 100;
    if (++looks_ <= at_once) return;
    int const microseconds = std::min(20 + (looks_ - at_once) / 50, 500);
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  }

 private:
  int looks_ = 0;
};

namespace detail {

/// What the streams of one device share.
class PollingState {
 public:
  std::shared_ptr<Ledger> const ledger = std::make_shared<Ledger>();
  std::shared_ptr<HostWorkers> workers{};

  PollingState() = default;
  PollingState(PollingState const&) = delete;
  PollingState& operator=(PollingState const&) = delete;
  ~PollingState() {
    if (pending() && !kept_back_.empty()) keep_for_good(std::move(kept_back_));
  }

  /// A queue that no stream uses.
  WorkQueue& take() {
    for (Entry& e : queues_) {
      if (!e.taken && e.queue->empty()) {
        e.taken = true;
        return *e.queue;
      }
    }
    return *queues_.emplace_back(Entry{std::make_unique<WorkQueue>()}).queue;
  }
  /// @param abandoned what is left in the queue is never looked at again
  void give(WorkQueue& queue, bool abandoned) noexcept {
    for (Entry& e : queues_) {
      if (e.queue.get() != &queue) continue;
      e.taken = false;
      e.abandoned = abandoned;
    }
  }

  template <class F>
  void enqueue(WorkQueue& queue, F&& work) {
    look();
    if (queue.empty()) {
      std::forward<F>(work)();
      return;
    }
    queue.push([f = std::forward<F>(work)](bool) mutable {
      f();
      return true;
    });
  }
  template <class F>
  void enqueue_polled(WorkQueue& queue, F work) {
    rethrow();
    queue.push(std::move(work));
    progress(nullptr);
  }

  /// Looks once at what is unfinished.
  void look() {
    rethrow();
    if (pending()) progress(nullptr);
  }
  /// Returns when the queue has finished `count` pieces of work.
  /// @throws Error when nobody looks at them any more
  void finish(WorkQueue& queue, Index count) {
    look();
    PoliteWait pause;
    while (queue.finished() < count) {
      if (abandoned(queue))
        throw Error(
            "what is waited for was left unfinished by a stream that ended while an exception "
            "unwound");
      if (!progress(&queue)) pause();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  bool failed() const { return error_ != nullptr; }

  /// Memory that is given back while a transfer may still use it is freed when nothing is
  /// unfinished.
  void free(HostBuffer buffer) {
    if (pending()) kept_back_.push_back(std::move(buffer));
  }

 private:
  struct Entry {
    std::unique_ptr<WorkQueue> queue;
    bool taken = true;
    bool abandoned = false;
  };

  bool abandoned(WorkQueue const& queue) const {
    for (Entry const& e : queues_) {
      if (e.queue.get() == &queue) return e.abandoned;
    }
    return false;
  }
  bool pending() const {
    for (Entry const& e : queues_) {
      if (!e.queue->empty()) return true;
    }
    return false;
  }

  /// Calls what stands first in each queue, as long as it finishes. What fails ends all work of
  /// this device.
  bool progress(WorkQueue const* waited_for) {
    if (inside_) return false;
    inside_ = true;
    bool any = false;
    try {
      // Work may open streams, which moves the entries.
      // NOLINTNEXTLINE(modernize-loop-convert)
      for (std::size_t i = 0; i < queues_.size(); ++i) {
        WorkQueue& queue = *queues_[i].queue;
        if (queues_[i].abandoned) continue;
        while (!queue.empty() && queue.front()(&queue == waited_for)) {
          queue.pop();
          any = true;
        }
      }
    } catch (...) {
      error_ = std::current_exception();
      inside_ = false;
      throw;
    }
    inside_ = false;
    if (any && !kept_back_.empty() && !pending()) kept_back_.clear();
    return any;
  }

  /// After a failure a transfer may write to this memory as long as the process lives.
  static void keep_for_good(std::vector<HostBuffer> buffers) noexcept {
    struct Kept {
      std::mutex mutex;
      std::vector<std::vector<HostBuffer>> buffers;
    };
    try {
      static Kept& kept = *new Kept;  // never destroyed: reachable until the process is gone
      std::lock_guard const lock(kept.mutex);
      kept.buffers.push_back(std::move(buffers));
    } catch (...) {  // no memory for the list: then it is leaked
      for (HostBuffer& buffer : buffers) new HostBuffer(std::move(buffer));
    }
  }

  std::vector<Entry> queues_;
  std::vector<HostBuffer> kept_back_;
  std::exception_ptr error_;
  bool inside_ = false;
};

}  // namespace detail

/// A place in a stream's order.
class PollingEvent {
 public:
  PollingEvent() = default;

 private:
  friend class PollingStream;
  PollingEvent(WorkQueue& queue, Index count) : queue_(&queue), count_(count) {}
  WorkQueue* queue_ = nullptr;
  Index count_ = 0;
};

/// A stream that runs work where it is enqueued as long as nothing before it is unfinished, and
/// else queues it. Waiting for an event finishes what it stands for: so memory that is claimed may
/// be dereferenced at once, as on Host. What fails in queued work is thrown by the next call on any
/// stream of the device, and ends its work.
class PollingStream {
 public:
  using Event = PollingEvent;  ///< a place in a queue

  /// @param state of the device, shared by its streams
  explicit PollingStream(std::shared_ptr<detail::PollingState> state)
      : state_(std::move(state)), queue_(&state_->take()) {}
  /// Takes over the queue; the other is no stream any more.
  PollingStream(PollingStream&& other) noexcept
      : state_(std::move(other.state_)), queue_(std::exchange(other.queue_, nullptr)) {}
  /// Exchanges the queues.
  PollingStream& operator=(PollingStream&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(queue_, other.queue_);
    return *this;
  }
  /// Finishes what was enqueued, except while an exception unwinds: what others wait for must come.
  ~PollingStream() {
    if (queue_ == nullptr) return;
    try {
      if (!state_->failed() && std::uncaught_exceptions() == 0) synchronize();
    } catch (...) {  // whoever wanted to know has asked before
    }
    state_->give(*queue_, !queue_->empty());
  }

  /// Runs work() now, or when what stands before it is finished.
  template <class F>
  void enqueue(F&& work) {
    state_->enqueue(*queue_, std::forward<F>(work));
  }
  /// Calls work(waiting) in the order of the stream until it returns true.
  template <class F>
  void enqueue_polled(F work) {
    state_->enqueue_polled(*queue_, std::move(work));
  }
  /// Lets the event stand for all that was enqueued so far.
  void record(Event& event) noexcept { event = Event(*queue_, queue_->entered()); }
  /// Finishes, on the host, what the event stands for.
  void wait(Event const& event) {
    if (event.queue_ == nullptr) return state_->look();
    state_->finish(*event.queue_, event.count_);
  }
  void synchronize() { state_->finish(*queue_, queue_->entered()); }  ///< rethrows what failed
  void check() { state_->look(); }                                    ///< rethrows what failed

 private:
  std::shared_ptr<detail::PollingState> state_;
  WorkQueue* queue_;
};

/// Ordinary memory and polled streams.
class PollingHost {
 public:
  static constexpr bool host_memory = true;  ///< views become spans
  using Stream = PollingStream;              ///< lets transfers progress
  using Event = PollingEvent;                ///< a place in a queue

  PollingHost() = default;
  /// @param threads that share updates, the calling one included
  /// @throws InvalidArgument below 1
  static PollingHost with_threads(int threads) {
    PollingHost device;
    if (threads != 1) device.state_->workers = std::make_shared<HostWorkers>(threads);
    return device;
  }

  /// Owner of host memory; gives it back when no transfer is under way.
  class Buffer {
   public:
    Buffer() = default;
    /// @param state,memory of the device; what it owns
    Buffer(std::shared_ptr<detail::PollingState> state, HostBuffer memory)
        : state_(std::move(state)), memory_(std::move(memory)) {}
    Buffer(Buffer&&) = default;  ///< Takes over the memory.
    /// Exchanges the memory of the two.
    Buffer& operator=(Buffer&& other) noexcept {
      std::swap(state_, other.state_);
      std::swap(memory_, other.memory_);
      return *this;
    }
    ~Buffer() {
      if (state_ && memory_.address() != nullptr) state_->free(std::move(memory_));
    }
    std::byte* address() const { return memory_.address(); }  ///< null where it owns none

   private:
    std::shared_ptr<detail::PollingState> state_;
    HostBuffer memory_;
  };

  /// The address itself.
  template <class T>
  static T* resolve(T* address) {
    return address;
  }
  /// 256-byte aligned memory, NaN at first. @throws OutOfMemory
  Buffer allocate(Index bytes, std::string_view kind) {
    return {state_, HostBuffer(bytes, kind, state_->ledger)};
  }
  Stream stream() { return Stream(state_); }    ///< one more of this device
  Event event() { return {}; }                  ///< complete
  Ledger& ledger() { return *state_->ledger; }  ///< of this device and its copies

 private:
  std::shared_ptr<detail::PollingState> state_ = std::make_shared<detail::PollingState>();
};

static_assert(Polls<PollingHost> && HasElementwise<PollingHost, bf16, bf16>);

}  // namespace zero
