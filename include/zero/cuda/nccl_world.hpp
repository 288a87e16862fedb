// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of one launch as NCCL knows them, and what this rank has under way: so that whatever
// does not end can be named, and nothing is waited for without end.

#include <zero/core/entry.hpp>
#include <zero/cuda/bootstrap.hpp>
#include <zero/cuda/stream.hpp>
#include <zero/launch/launch.hpp>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace zero::cuda::detail {

/// First in, first out; keeps its memory, so that a step allocates nothing.
template <class T>
class Queue {
 public:
  bool empty() const { return size_ == 0; }
  T& front() { return items_[first_]; }
  void push_back(T&& item) {
    if (size_ == items_.size()) {
      std::rotate(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_),
                  items_.end());
      first_ = 0;
      items_.resize(2 * size_ + 16);
    }
    items_[(first_ + size_++) % items_.size()] = std::move(item);
  }
  void pop_front() {
    first_ = (first_ + 1) % items_.size();
    --size_;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

/// Communicators of NCCL, one a channel, made when a channel is first used. Once it has failed
/// every call throws the reason, and the communicators are aborted: no kernel waits for a peer that
/// is gone. NCCL is called from the rank's host thread; a second thread ends calls that do not
/// return.
class NcclWorld : public Watcher {
 public:
  static constexpr int num_channels = 4;
  using Clock = std::chrono::steady_clock;

  /// Joins the others, on the calling thread's GPU; collective.
  /// @throws CommunicationError when not all ranks come within the timeout
  NcclWorld(Bootstrap const& bootstrap, int rank, int size, LaunchOptions const& options)
      : rank_(rank),
        size_(size),
        timeout_(std::min(options.timeout, longest)),
        grace_(options.grace) {
    check(cudaGetDevice(&ordinal_), "cudaGetDevice");
    join(bootstrap);
    watchdog_ = std::thread([this] { guard_calls(); });
  }
  NcclWorld(NcclWorld const&) = delete;
  NcclWorld& operator=(NcclWorld const&) = delete;
  ~NcclWorld() override {
    abort("the world has ended");
    {
      std::lock_guard const lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    watchdog_.join();
  }

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Enqueues a collective: call(communicator) returns NCCL's status.
  template <class F>
  void issue(int channel, cudaStream_t stream, Entry const& entry, F call) {
    ncclComm_t const communicator = of_channel(channel);
    guarded(entry, [&] { return call(communicator); });
    Channel& c = channels_[at(channel)];
    if (c.group > 0) {
      c.grouped.push_back(entry);
      c.stream = stream;
    } else {
      track(c, stream, entry, 0);
    }
  }
  void group_start(int channel) {
    of_channel(channel);
    check(ncclGroupStart(), "ncclGroupStart");
    ++channels_[at(channel)].group;
  }
  void group_end(int channel) {
    Channel& c = channels_[at(channel)];
    --c.group;
    Entry const first = c.grouped.empty() ? Entry{} : c.grouped.front();
    guarded(first, [] { return ncclGroupEnd(); });
    if (c.group > 0 || c.grouped.empty()) return;
    track(c, c.stream, first, static_cast<Index>(c.grouped.size()) - 1);
    c.grouped.clear();
  }

  /// @throws CommunicationError for an error that NCCL has met meanwhile, or, while the host waits,
  ///   when what is under way does not end within the timeout: names this rank, the collective and
  ///   its unit
  void look(bool host_waits) override {
    rethrow();
    Running const* oldest = nullptr;
    for (Channel& c : channels_) {
      if (c.communicator == nullptr) continue;
      ncclResult_t status = ncclSuccess;
      check(ncclCommGetAsyncError(c.communicator, &status), "ncclCommGetAsyncError");
      sweep(c);
      if (status != ncclSuccess && status != ncclInProgress) {
        std::string const in = c.running.empty() ? "no collective" : text(c.running.front());
        fail("rank " + std::to_string(rank_) + " has lost another rank, in " + in + ": " +
             describe(status, c.communicator, "NCCL", std::source_location::current()));
      }
      if (c.running.empty()) continue;
      if (oldest == nullptr || c.running.front().order < oldest->order) oldest = &c.running.front();
    }
    if (!host_waits || oldest == nullptr) {
      waits_since_.reset();
      return;
    }
    if (!waits_since_ || waits_for_ != oldest->order) {
      waits_since_ = Clock::now();
      waits_for_ = oldest->order;
    } else if (Clock::now() - *waits_since_ > timeout_) {
      fail("rank " + std::to_string(rank_) + " waits in " + text(*oldest) +
           ", which did not end within " + std::to_string(timeout_.count()) + " ms");
    }
  }

  /// All later calls throw the reason; the communicators are aborted, which the other ranks see as
  /// a lost connection. The first reason stays.
  void abort(std::string_view reason) noexcept {
    {
      std::lock_guard const lock(mutex_);
      if (failed_) return;
      failed_ = true;
      try {
        reason_ = reason;
      } catch (...) {
        reason_.clear();
      }
    }
    abort_communicators();
  }

  /// This rank is done: waits until all work is, and NCCL has let go of it.
  /// @throws CommunicationError when that takes longer than the timeout
  void end() {
    rethrow();
    auto const begun = Clock::now();
    for (Channel& c : channels_) {
      while (!c.running.empty()) {
        look(true);
        std::this_thread::yield();
      }
    }
    for (std::size_t i = channels_.size(); i-- > 0;) {
      ncclComm_t const communicator = channels_[i].communicator;
      if (communicator == nullptr) continue;
      guarded(Entry{"ncclCommFinalize"}, [&] { return ncclCommFinalize(communicator); });
      for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) {
        check(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
        if (state != ncclInProgress) check(state, "ncclCommFinalize", communicator);
        if (Clock::now() - begun > timeout_)
          fail("rank " + std::to_string(rank_) + " has ended, and NCCL did not within " +
               std::to_string(timeout_.count()) + " ms");
        std::this_thread::yield();
      }
      std::lock_guard const lock(mutex_);
      channels_[i].communicator = nullptr;
      check(ncclCommDestroy(communicator), "ncclCommDestroy");
    }
  }

 private:
  struct Running {
    Entry entry{};
    Index more = 0;    // collectives launched with it
    Index number = 0;  // of the channel's launches, from 1
    Index order = 0;   // of all launches
    Event event{};
    int channel = 0;
  };
  struct Channel {
    ncclComm_t communicator = nullptr;
    Queue<Running> running;
    std::vector<Entry> grouped;
    std::vector<Event> spare;
    cudaStream_t stream = nullptr;
    int group = 0;
    Index launched = 0;
  };

  static constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);

  void rethrow() {
    std::lock_guard const lock(mutex_);
    if (failed_) throw CommunicationError(reason_);
  }
  [[noreturn]] void fail(std::string const& reason) {
    abort(reason);
    std::lock_guard const lock(mutex_);
    throw CommunicationError(reason_);
  }
  std::string text(Running const& r) const {
    return zero::describe(r.entry) +
           (r.more > 0 ? " and " + std::to_string(r.more) + " launched with it" : "") +
           ", number " + std::to_string(r.number) + " on channel " + std::to_string(r.channel);
  }

  /// Making the first communicator can block where a rank does not come, and cannot be aborted
  /// before it has returned: it is made on a thread that is left behind when it does not return.
  void join(Bootstrap const& bootstrap) {
    struct Joining {
      std::mutex mutex;
      std::condition_variable changed;
      bool done = false;
      std::string failure{};
      ncclComm_t communicator = nullptr;
    };
    Bootstrap::Use const use(bootstrap);
    ncclUniqueId const id = bootstrap.id();
    auto const joining = std::make_shared<Joining>();
    std::thread([joining, id, rank = rank_, size = size_, ordinal = ordinal_] {
      ncclComm_t communicator = nullptr;
      std::string failure;
      try {
        activate(ordinal);
        check(ncclCommInitRank(&communicator, size, id, rank), "ncclCommInitRank");
      } catch (std::exception const& e) {
        failure = e.what();
      }
      std::lock_guard const lock(joining->mutex);
      joining->communicator = communicator;
      joining->failure = failure;
      joining->done = true;
      joining->changed.notify_all();
    }).detach();
    std::string const whom = "rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                             " cannot join the others " + bootstrap.text();
    std::unique_lock lock(joining->mutex);
    if (!joining->changed.wait_for(lock, timeout_, [&] { return joining->done; })) {
      throw CommunicationError(whom + ": not all ranks came within " +
                               std::to_string(timeout_.count()) + " ms");
    }
    if (!joining->failure.empty()) throw CommunicationError(whom + ": " + joining->failure);
    channels_[0].communicator = joining->communicator;
  }

  /// The channel's communicator. All ranks use their channels for the first time in one order.
  ncclComm_t of_channel(int channel) {
    rethrow();
    Channel& c = channels_[at(channel)];
    if (c.communicator != nullptr) return c.communicator;
    ncclComm_t made = nullptr;
    guarded(Entry{"ncclCommSplit"},
            [&] { return ncclCommSplit(channels_[0].communicator, 0, rank_, &made, nullptr); });
    std::lock_guard const lock(mutex_);
    if (failed_) {
      ncclCommAbort(made);
      throw CommunicationError(reason_);
    }
    return c.communicator = made;
  }

  /// Calls NCCL; if it does not return within the timeout, the watchdog aborts.
  template <class F>
  void guarded(Entry const& entry, F call) {
    rethrow();
    {
      std::lock_guard const lock(mutex_);
      calls_since_ = Clock::now();
      called_for_ = entry;
    }
    ncclResult_t const status = call();
    {
      std::lock_guard const lock(mutex_);
      calls_since_.reset();
      if (failed_) throw CommunicationError(reason_);
    }
    if (status == ncclSuccess) return;
    fail("rank " + std::to_string(rank_) + ", " + zero::describe(entry) + ": " +
         describe(status, nullptr, "NCCL", std::source_location::current()));
  }
  void guard_calls() {
    std::unique_lock lock(mutex_);
    auto const beat =
        std::clamp(timeout_ / 4, std::chrono::milliseconds(1), std::chrono::milliseconds(200));
    while (!stops_) {
      changed_.wait_for(lock, beat);
      if (!calls_since_ || failed_ || Clock::now() - *calls_since_ <= timeout_) continue;
      std::string const reason = "rank " + std::to_string(rank_) + " is in a call of NCCL for " +
                                 zero::describe(called_for_) + ", which did not return within " +
                                 std::to_string(timeout_.count()) + " ms";
      lock.unlock();
      abort(reason);
      lock.lock();
    }
  }

  /// Aborting can block as well; after the grace it is left to itself.
  void abort_communicators() noexcept {
    try {
      std::vector<ncclComm_t> all;
      for (Channel& c : channels_) {
        if (c.communicator != nullptr) all.push_back(std::exchange(c.communicator, nullptr));
      }
      if (all.empty()) return;
      struct State {
        std::mutex mutex;
        std::condition_variable changed;
        bool done = false;
      };
      auto const state = std::make_shared<State>();
      std::thread([state, all, ordinal = ordinal_] {
        ignore(cudaSetDevice(ordinal));
        for (std::size_t i = all.size(); i-- > 0;) ncclCommAbort(all[i]);
        std::lock_guard const lock(state->mutex);
        state->done = true;
        state->changed.notify_all();
      }).detach();
      std::unique_lock lock(state->mutex);
      state->changed.wait_for(lock, grace_, [&] { return state->done; });
    } catch (...) {  // nothing is left that could be done
    }
  }

  void track(Channel& c, cudaStream_t stream, Entry const& entry, Index more) {
    sweep(c);
    Running r;
    if (!c.spare.empty()) {
      r.event = std::move(c.spare.back());
      c.spare.pop_back();
    } else {
      r.event = Event::make();
    }
    check(cudaEventRecord(r.event.native(), stream), "cudaEventRecord");
    r.entry = entry;
    r.more = more;
    r.number = ++c.launched;
    r.order = ++order_;
    r.channel = static_cast<int>(&c - channels_.data());
    c.running.push_back(std::move(r));
  }
  void sweep(Channel& c) {
    while (!c.running.empty()) {
      cudaError_t const status = cudaEventQuery(c.running.front().event.native());
      if (status == cudaErrorNotReady) {
        ignore(status);
        return;
      }
      check(status, "cudaEventQuery");
      c.spare.push_back(std::move(c.running.front().event));
      c.running.pop_front();
    }
  }

  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds grace_;
  int ordinal_ = 0;
  std::array<Channel, num_channels> channels_{};
  Index order_ = 0;
  std::optional<Clock::time_point> waits_since_{};
  Index waits_for_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread watchdog_;
  std::optional<Clock::time_point> calls_since_{};
  Entry called_for_{};
  bool stops_ = false;
  bool failed_ = false;
  std::string reason_;
};

}  // namespace zero::cuda::detail
