// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of one launch as NCCL knows them, and what this rank has under way: so that whatever
// does not end can be named, and nothing is waited for without end.

#include <zero/cuda/bootstrap.hpp>
#include <zero/cuda/nccl_launches.hpp>
#include <zero/launch/launch.hpp>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace zero::cuda::detail {

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

  /// Channel 1 gathers by copy engines from now on, from the windows that NcclWindows makes.
  /// Every rank, before its channel 1 is used.
  /// @throws InvalidArgument where NCCL is older than 2.28, or the channel was used
  void gather_by_copy_engines() {
    int loaded = 0;
    check(ncclGetVersion(&loaded), "ncclGetVersion");
    int const oldest = std::min(loaded, NCCL_VERSION_CODE);
    if (oldest < NCCL_VERSION(2, 28, 0)) {
      throw InvalidArgument("NCCL: gathers by copy engines need version 2.28; found " +
                            std::to_string(oldest / 10000) + "." +
                            std::to_string(oldest / 100 % 100) +
                            (oldest == loaded ? " loaded" : " compiled against"));
    }
    if (channels_[gathering].communicator != nullptr && !by_copy_engines_)
      throw InvalidArgument("NCCL: gathers by copy engines; channel 1 has gathered already");
    by_copy_engines_ = true;
  }
  bool gathers_by_copy_engines() const { return by_copy_engines_; }

  /// Makes memory of this GPU a window of channel 1; collective, with equal sizes.
  /// @throws CommunicationError where NCCL makes none
  ncclWindow_t open_window(void* address, std::size_t bytes) {
    ncclComm_t const communicator = of_channel(gathering);
    ncclWindow_t window = nullptr;
    guarded(Entry{"ncclCommWindowRegister", static_cast<Index>(bytes), 1}, [&] {
      return ncclCommWindowRegister(communicator, address, bytes, &window, NCCL_WIN_COLL_SYMMETRIC);
    });
    if (window == nullptr) {
      fail("rank " + std::to_string(rank_) + ": NCCL makes no window of " + std::to_string(bytes) +
           " bytes here: gather without copy engines");
    }
    return window;
  }
  /// Ends that; this rank's work with it is done.
  void close_window(ncclWindow_t window) noexcept {
    std::lock_guard const lock(mutex_);
    ncclComm_t const communicator = channels_[gathering].communicator;
    if (communicator != nullptr) ncclCommWindowDeregister(communicator, window);
  }

  /// Enqueues a collective: call(communicator) returns NCCL's status.
  template <class F>
  void issue(int channel, Stream& stream, Entry const& entry, F call) {
    ncclComm_t const communicator = of_channel(channel);
    guarded(entry, [&] { return call(communicator); });
    Channel& c = channels_[at(channel)];
    if (c.group > 0) {
      c.grouped.push_back(entry);
      c.stream = &stream;
    } else {
      c.launches.add(stream, entry, 0, ++order_);
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
    c.launches.add(*c.stream, first, static_cast<Index>(c.grouped.size()) - 1, ++order_);
    c.grouped.clear();
  }

  /// @throws CommunicationError for an error that NCCL has met meanwhile, or, while the host waits,
  ///   when what is under way does not end within the timeout: names this rank, the collective and
  ///   its unit
  void look(bool host_waits) override {
    rethrow();
    NcclLaunches::Launch const* oldest = nullptr;
    std::size_t oldest_channel = 0;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      Channel& c = channels_[i];
      if (c.communicator == nullptr) continue;
      ncclResult_t status = ncclSuccess;
      check(ncclCommGetAsyncError(c.communicator, &status), "ncclCommGetAsyncError");
      NcclLaunches::Launch const* const first = c.launches.oldest();
      if (status != ncclSuccess && status != ncclInProgress) {
        fail("rank " + std::to_string(rank_) + " has lost another rank, in " +
             (first == nullptr ? "no collective" : first->text(i)) + ": " +
             describe(status, c.communicator, "NCCL", std::source_location::current()));
      }
      if (first == nullptr || (oldest != nullptr && oldest->order <= first->order)) continue;
      oldest = first;
      oldest_channel = i;
    }
    if (!host_waits || oldest == nullptr) {
      waits_since_.reset();
      return;
    }
    if (!waits_since_ || waits_for_ != oldest->order) {
      waits_since_ = Clock::now();
      waits_for_ = oldest->order;
    } else if (Clock::now() - *waits_since_ > timeout_) {
      fail("rank " + std::to_string(rank_) + " waits in " + oldest->text(oldest_channel) +
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
      while (c.launches.oldest() != nullptr) {
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
  struct Channel {
    ncclComm_t communicator = nullptr;
    NcclLaunches launches;
    std::vector<Entry> grouped;
    Stream* stream = nullptr;
    int group = 0;
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
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (channel == gathering && by_copy_engines_) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    guarded(Entry{"ncclCommSplit"},
            [&] { return ncclCommSplit(channels_[0].communicator, 0, rank_, &made, &config); });
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

  static constexpr std::size_t gathering = 1;  // the channel of gathers and publications

  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds grace_;
  int ordinal_ = 0;
  std::array<Channel, num_channels> channels_{};
  Index order_ = 0;
  bool by_copy_engines_ = false;
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
