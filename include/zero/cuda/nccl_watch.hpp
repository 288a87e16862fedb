// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one rank has under way with NCCL: so that whatever does not end can be named, and nothing is
// waited for without end.

#include <zero/cuda/nccl_launches.hpp>
#include <zero/cuda/nccl_status.hpp>
#include <zero/cuda/side_thread.hpp>
#include <zero/launch/launch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace zero::cuda::detail {

/// One rank's communicators of NCCL, a channel each, and what waits for them. Once it has failed
/// every call throws the reason, and the communicators are aborted: no kernel waits for a peer that
/// is gone. NCCL is called from the rank's host thread; a second thread, the watchdog, ends calls
/// that do not return and collectives that do not end while the host is held elsewhere, and hears
/// what NCCL has met by itself, as long as the host is in no call and no group of NCCL.
class NcclWatch : public Watcher {
 public:
  static constexpr int num_channels = 4;
  using Clock = std::chrono::steady_clock;

  /// Of a rank on the calling thread's GPU. @throws Failure
  NcclWatch(int rank, LaunchOptions const& options)
      : rank_(rank), timeout_(std::min(options.timeout, longest)), grace_(options.grace) {
    check(cudaGetDevice(&ordinal_), "cudaGetDevice");
    for (Channel& c : channels_) c.launches.make();
    watchdog_ = std::thread([this] { watch(); });
  }
  NcclWatch(NcclWatch const&) = delete;
  NcclWatch& operator=(NcclWatch const&) = delete;
  ~NcclWatch() override {
    abort("the world has ended");
    {
      std::lock_guard const lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    watchdog_.join();
  }

  int rank() const { return rank_; }

  /// @throws CommunicationError for an error that NCCL has met meanwhile, or, while the host waits,
  ///   when what is under way does not end within the timeout: names this rank, the collective and
  ///   its unit
  void look(bool host_waits) override {
    std::string failure;
    {
      std::lock_guard const lock(mutex_);
      throw_if_failed();
      looked_ = Clock::now();
      for (Channel& c : channels_) c.launches.sweep();
      failure = lost();
      if (failure.empty()) failure = late(host_waits);
    }
    if (!failure.empty()) fail(failure);
  }

  /// All later calls throw the reason; the communicators are aborted, which the other ranks see as
  /// a lost connection. The first reason stays. From the rank's host thread.
  void abort(std::string_view reason) noexcept {
    end_groups();
    Communicators all;
    {
      std::lock_guard const lock(mutex_);
      all = give_up(reason);
    }
    abort_all(all);
  }

  /// @throws CommunicationError where the watchdog has given up: what CUDA fails in afterwards, in
  ///   kernels that were queued behind, follows from that
  void throw_if_ended() {
    std::lock_guard const lock(mutex_);
    if (ended_) throw_if_failed();
  }
  /// The status of a call where nothing may be thrown: a failure is thrown by the next call.
  void keep(ncclResult_t status, std::string_view call) noexcept {
    if (status != ncclSuccess) abort(told(call, status));
  }

 protected:
  struct Channel {
    ncclComm_t communicator = nullptr;  // under the lock, where another thread is the reader
    NcclLaunches launches;              // under the lock
    std::vector<Entry> grouped;
    Stream* stream = nullptr;
    int group = 0;
    std::shared_ptr<NcclLaunches::Launch> captured;  // of the last graph that has any of it
    unsigned long long captured_by = 0;
  };
  using Communicators = std::array<ncclComm_t, num_channels>;

  /// Calls NCCL with the channel's communicator; if it does not return within the timeout, the
  /// watchdog aborts.
  template <class F>
  void guarded(std::size_t channel, Entry const& entry, F call) {
    guarded(channel, entry, call, [] {});
  }
  /// @param undo what is left to do where the world has failed meanwhile
  template <class F, class U>
  void guarded(std::size_t channel, Entry const& entry, F call, U undo) {
    ncclComm_t communicator = nullptr;
    {
      std::lock_guard const lock(mutex_);
      throw_if_failed();
      calls_since_ = Clock::now();
      called_for_ = entry;
      communicator = channels_[channel].communicator;
    }
    ncclResult_t const status = call(communicator);
    bool failed = false;
    {
      std::lock_guard const lock(mutex_);
      calls_since_.reset();
      looked_ = Clock::now();
      failed = failed_;
    }
    if (failed) {
      undo();
      std::lock_guard const lock(mutex_);
      throw_if_failed();
    }
    if (status != ncclSuccess) fail(told(zero::describe(entry), status));
  }

  /// Under the lock.
  void throw_if_failed() const {
    if (failed_) throw CommunicationError(reason_);
  }
  [[noreturn]] void fail(std::string const& reason) {
    abort(reason);
    std::lock_guard const lock(mutex_);
    throw CommunicationError(reason_);
  }
  std::string told(std::string_view what, ncclResult_t status) const {
    // What NCCL refuses for a peer's sake is told as the watchdog tells it, whoever sees it first.
    char const* const how = status == ncclRemoteError ? " has lost another rank, in "
                            : status == ncclSystemError
                                ? " has lost another rank, or the system has refused it, in "
                                : " failed in ";
    return "rank " + std::to_string(rank_) + how + std::string(what) + ": " +
           describe(status, nullptr, "NCCL", std::source_location::current());
  }
  /// Under the lock: the world has failed. @return what is to be aborted, without the lock
  Communicators give_up(std::string_view reason) noexcept {
    Communicators all{};
    if (std::exchange(failed_, true)) return all;
    try {
      reason_ = reason;
    } catch (...) {
      reason_.clear();
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = std::exchange(channels_[i].communicator, nullptr);
    return all;
  }
  /// A group that is open on this thread would keep all of NCCL's later calls on it: it ends here,
  /// while the communicators that it names exist.
  void end_groups() noexcept {
    int open = 0;
    {
      std::lock_guard const lock(mutex_);
      if (failed_) return;
      open = std::exchange(groups_, 0);
      if (open > 0) calls_since_ = Clock::now();
      for (Channel& c : channels_) {
        c.group = 0;
        c.grouped.clear();
      }
    }
    if (open == 0) return;
    while (open-- > 0) ncclGroupEnd();
    std::lock_guard const lock(mutex_);
    calls_since_.reset();
  }

  /// Whether the channel has a communicator. @throws CommunicationError when the world has failed
  bool has(std::size_t channel) {
    std::lock_guard const lock(mutex_);
    throw_if_failed();
    return channels_[channel].communicator != nullptr;
  }
  /// Whether a collective has not ended. @throws CommunicationError when the world has failed
  bool under_way() {
    std::lock_guard const lock(mutex_);
    throw_if_failed();
    return oldest_launch().launch != nullptr;
  }
  /// Aborting can block as well; after the grace it is left to itself. One communicator's kernels
  /// may wait behind another's: in a group all are told to end before any is waited for. No call of
  /// CUDA comes before, which CUDA could hold as long as they do not end.
  void abort_all(Communicators const& all) const noexcept {
    auto const exists = [](ncclComm_t c) { return c != nullptr; };
    if (std::none_of(all.begin(), all.end(), exists)) return;
    try {
      run_aside(grace_, [all] {
        ncclGroupStart();
        for (ncclComm_t c : all) {
          if (c != nullptr) ncclCommAbort(c);
        }
        ncclGroupEnd();
      });
    } catch (...) {  // nothing is left that could be done
    }
  }

 private:
  /// The oldest launch of all channels that has not ended.
  struct Oldest {
    NcclLaunches::Launch const* launch = nullptr;
    std::size_t channel = 0;
  };
  /// Under the lock.
  Oldest oldest_launch() const {
    Oldest found;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      NcclLaunches::Launch const* const first = channels_[i].launches.oldest();
      if (first != nullptr && (found.launch == nullptr || first->order < found.launch->order))
        found = {first, i};
    }
    return found;
  }
  /// A channel whose communicator has met an error.
  struct Broken {
    std::size_t channel = 0;
    ncclResult_t status = ncclSuccess;
  };
  /// Under the lock.
  std::optional<Broken> broken() const {
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      if (channels_[i].communicator == nullptr) continue;
      ncclResult_t status = ncclSuccess;
      check(ncclCommGetAsyncError(channels_[i].communicator, &status), "ncclCommGetAsyncError");
      if (status != ncclSuccess && status != ncclInProgress) return Broken{i, status};
    }
    return {};
  }
  /// Under the lock. @param launch that has not ended, or null
  std::string lost(Broken const& b, NcclLaunches::Launch const* launch) const {
    return "rank " + std::to_string(rank_) + " has lost another rank, in " +
           (launch == nullptr ? "no collective" : launch->text(b.channel)) + ": " +
           describe(b.status, channels_[b.channel].communicator, "NCCL",
                    std::source_location::current());
  }
  /// Under the lock: what is wrong, or nothing.
  std::string lost() const {
    auto const b = broken();
    return b ? lost(*b, channels_[b->channel].launches.oldest()) : std::string();
  }
  std::string late(Oldest const& oldest) const {
    return "rank " + std::to_string(rank_) + " waits in " + oldest.launch->text(oldest.channel) +
           ", which did not end within " + std::to_string(timeout_.count()) + " ms";
  }
  /// Time counts while the host waits for one and the same launch.
  std::string late(bool host_waits) {
    Oldest const oldest = host_waits ? oldest_launch() : Oldest{};
    if (oldest.launch == nullptr) {
      waits_since_.reset();
    } else if (!waits_since_ || waits_for_ != oldest.launch->order) {
      waits_since_ = looked_;
      waits_for_ = oldest.launch->order;
    } else if (looked_ - *waits_since_ > timeout_) {
      return late(oldest);
    }
    return {};
  }
  /// Of the watchdog, under the lock: a call that does not return, or nothing.
  std::string held_call() const {
    if (!calls_since_ || Clock::now() - *calls_since_ <= timeout_) return {};
    return "rank " + std::to_string(rank_) + " is in a call of NCCL for " +
           zero::describe(called_for_) + ", which did not return within " +
           std::to_string(timeout_.count()) + " ms";
  }
  /// Of the watchdog, under the lock: whether the host is in no call of NCCL, which would tell of a
  /// failure itself.
  bool outside() const { return !stops_ && !failed_ && !calls_since_ && groups_ == 0; }
  /// Of the watchdog: the oldest of these that has not ended, or none. The lock is let go
  /// meanwhile: CUDA may hold a query as it holds the host, and one that does not return says the
  /// same.
  std::optional<NcclLaunches::Running> oldest_of(std::vector<NcclLaunches::Running> launches,
                                                 std::unique_lock<std::mutex>& lock) {
    struct Search {
      std::vector<NcclLaunches::Running> launches;
      std::atomic<std::size_t> oldest{0};
      std::atomic<bool> left{false};  // nobody waits, and the events may be gone
    };
    auto const search = std::make_shared<Search>();
    search->launches = std::move(launches);
    std::sort(search->launches.begin(), search->launches.end(),
              [](auto const& a, auto const& b) { return a.launch.order < b.launch.order; });
    lock.unlock();
    search->left = !run_aside(
        std::min<std::chrono::milliseconds>(timeout_, std::chrono::seconds(5)),
        [search, ordinal = ordinal_] {
          ignore(cudaSetDevice(ordinal));
          auto& i = search->oldest;
          while (!search->left && i < search->launches.size() && !search->launches[i].ended()) ++i;
        });
    lock.lock();
    std::size_t const oldest = search->oldest;
    if (oldest == search->launches.size()) return {};
    return search->launches[oldest];
  }
  /// Of the watchdog: what NCCL has met while the host does other things, or nothing.
  std::string lost_meanwhile(std::unique_lock<std::mutex>& lock) {
    if (!outside()) return {};
    auto const b = broken();
    if (!b) return {};
    std::vector<NcclLaunches::Running> launches;
    channels_[b->channel].launches.copy_to(launches, b->channel);
    auto const oldest = oldest_of(std::move(launches), lock);
    return outside() ? lost(*b, oldest ? &oldest->launch : nullptr) : std::string();
  }
  /// Of the watchdog: a launch that does not end while the host is held elsewhere, as by CUDA,
  /// whose queue is full, and so does not look itself; or nothing.
  std::string stalled(std::unique_lock<std::mutex>& lock) {
    auto const seen = looked_;
    auto const away = [&] { return looked_ == seen && outside(); };
    if (!away() || Clock::now() - seen <= timeout_) return {};
    std::vector<NcclLaunches::Running> launches;
    for (std::size_t i = 0; i < channels_.size(); ++i) channels_[i].launches.copy_to(launches, i);
    auto const oldest = oldest_of(std::move(launches), lock);
    if (!oldest || !away() || Clock::now() - oldest->launch.since <= timeout_) return {};
    return late({&oldest->launch, oldest->channel});
  }
  void watch() {
    ignore(cudaSetDevice(ordinal_));
    auto const beat =
        std::clamp(timeout_ / 4, std::chrono::milliseconds(1), std::chrono::milliseconds(200));
    std::unique_lock lock(mutex_);
    while (!stops_) {
      changed_.wait_for(lock, beat);
      if (stops_ || failed_) continue;
      std::string reason;
      try {
        reason = held_call();
        if (reason.empty()) reason = lost_meanwhile(lock);
        if (reason.empty()) reason = stalled(lock);
      } catch (std::exception const&) {  // no memory or no thread: at the next beat
        if (!lock.owns_lock()) lock.lock();
      }
      if (reason.empty()) continue;
      ended_ = true;
      Communicators const all = give_up(reason);  // under the lock that has judged
      lock.unlock();
      abort_all(all);
      lock.lock();
    }
  }

  static constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);

 protected:
  int rank_;
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds grace_;
  int ordinal_ = 0;
  std::mutex mutex_;  // of all below, and of what of the channels says so
  std::array<Channel, num_channels> channels_{};
  Clock::time_point looked_ = Clock::now();  // when the host last did something here
  int groups_ = 0;                           // of NCCL, open on the host's thread
  bool failed_ = false;

 private:
  std::string reason_;
  std::optional<Clock::time_point> calls_since_{};
  Entry called_for_{};
  std::optional<Clock::time_point> waits_since_{};
  Index waits_for_ = 0;
  bool ended_ = false;  // by the watchdog
  bool stops_ = false;
  std::condition_variable changed_;
  std::thread watchdog_;
};

}  // namespace zero::cuda::detail
