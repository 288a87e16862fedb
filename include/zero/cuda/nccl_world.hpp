// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ranks of one launch as NCCL knows them.

#include <zero/cuda/bootstrap.hpp>
#include <zero/cuda/nccl_watch.hpp>

#include <nccl_device/core.h>

#include <exception>
#include <memory>
#include <string>

namespace zero::cuda::detail {

/// Communicators of NCCL, one a channel, made when a channel is first used; collective.
class NcclWorld : public NcclWatch {
 public:
  static constexpr int oldest = NCCL_VERSION(2, 28, 0);  ///< NCCL

  /// Joins the others, on the calling thread's GPU; collective.
  /// @throws InvalidArgument where NCCL's library is older than 2.28; CommunicationError when not
  ///   all ranks come within the timeout
  NcclWorld(Bootstrap const& bootstrap, int rank, int size, LaunchOptions const& options)
      : NcclWatch(rank, options), size_(size) {
    int loaded = 0;
    check(ncclGetVersion(&loaded), "ncclGetVersion");
    if (loaded < oldest) {
      throw InvalidArgument("NCCL: found the library of " + std::to_string(loaded / 10000) + "." +
                            std::to_string(loaded / 100 % 100) + "; expected 2.28 or later");
    }
    join(bootstrap);
  }

  int size() const { return size_; }

  /// Channel 1 gathers by copy engines from now on, from the windows that NcclWindows makes.
  /// Every rank, before its channel 1 is used.
  /// @throws InvalidArgument where the channel was used
  void gather_by_copy_engines() {
    if (has(gathering) && !by_copy_engines_)
      throw InvalidArgument("NCCL: gathers by copy engines; channel 1 has gathered already");
    by_copy_engines_ = true;
  }
  bool gathers_by_copy_engines() const { return by_copy_engines_; }

  /// Makes the channel's communicator where it has none; collective. All ranks use their channels
  /// for the first time in one order.
  /// @throws CommunicationError where not all ranks make this channel, or not alike; where the
  ///   ranks' GPUs do not reach each other's memory and channel 1 is to gather by copy engines
  void open(std::size_t channel) {
    if (has(channel)) return;
    bool const by_engines = channel == gathering && by_copy_engines_;
    // NCCL makes a communicator for each colour: ranks that do not do the same are counted apart.
    int const color = static_cast<int>(2 * channel) + (by_engines ? 1 : 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (by_engines) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    ncclComm_t made = nullptr;
    guarded(
        0, Entry{"ncclCommSplit"},
        [&](ncclComm_t all) {
          ncclResult_t const status = ncclCommSplit(all, color, rank_, &made, &config);
          if (status != ncclSuccess) return status;
          std::lock_guard const lock(mutex_);
          if (!failed_) std::swap(channels_[channel].communicator, made);
          return status;
        },
        [&] { abort_all({made}); });
    int alike = 0;
    int reached = 0;
    guarded(channel, Entry{"ncclCommCount"}, [&](ncclComm_t mine) {
      if (by_engines) reached = ncclTeamLsa(mine).nRanks;
      return ncclCommCount(mine, &alike);
    });
    std::string const me = "rank " + std::to_string(rank_);
    std::string const all = std::to_string(size_) + " ranks";
    if (alike != size_) {
      fail(me + " makes channel " + std::to_string(channel) +
           (by_engines             ? " to gather by copy engines"
            : channel == gathering ? " to gather by kernels"
                                   : "") +
           ", and so do " + std::to_string(alike) + " of " + all +
           "; expected all: gather_by_copy_engines() is called by every rank or by none, and ranks "
           "use their channels for the first time in one order");
    }
    if (by_engines && reached != size_) {
      fail(me + " gathers by copy engines, and NCCL finds " + std::to_string(reached) + " of " +
           all +
           " whose GPUs reach each other's memory; expected all: gather without copy engines");
    }
  }

  /// Makes memory of this GPU a window of channel 1; collective, with equal sizes.
  /// @throws CommunicationError where NCCL makes none
  ncclWindow_t open_window(void* address, std::size_t bytes) {
    open(gathering);
    ncclWindow_t window = nullptr;
    guarded(gathering, Entry{"ncclCommWindowRegister", static_cast<Index>(bytes), 1},
            [&](ncclComm_t c) {
              return ncclCommWindowRegister(c, address, bytes, &window, NCCL_WIN_COLL_SYMMETRIC);
            });
    if (window == nullptr) {
      fail("rank " + std::to_string(rank_) + ": NCCL makes no window of " + std::to_string(bytes) +
           " bytes here: gather without copy engines");
    }
    return window;
  }
  /// Ends that; this rank's work with it is done. What fails is thrown by the next call.
  void close_window(ncclWindow_t window) noexcept {
    try {
      guarded(gathering, Entry{"ncclCommWindowDeregister"}, [&](ncclComm_t c) {
        return c == nullptr ? ncclSuccess : ncclCommWindowDeregister(c, window);
      });
    } catch (std::exception const&) {  // the world has failed, and keeps the reason
    }
  }
  /// Enqueues a collective: call(communicator) returns NCCL's status.
  template <class F>
  void issue(int channel, Stream& stream, Entry const& entry, F call) {
    open(at(channel));
    guarded(at(channel), entry, call);
    Channel& c = channels_[at(channel)];
    if (c.group > 0) {
      c.grouped.push_back(entry);
      c.stream = &stream;
    } else {
      enqueued(at(channel), stream, entry, 0);
    }
  }
  void group_start(int channel) {
    open(at(channel));
    std::lock_guard const lock(mutex_);
    throw_if_failed();
    check(ncclGroupStart(), "ncclGroupStart");  // of this thread alone, and waits for nothing
    ++groups_;
    ++channels_[at(channel)].group;
  }
  void group_end(int channel) {
    Channel& c = channels_[at(channel)];
    {
      std::lock_guard const lock(mutex_);
      throw_if_failed();  // which has ended the group
      --c.group;
    }
    Entry const first = c.grouped.empty() ? Entry{} : c.grouped.front();
    guarded(at(channel), first, [](ncclComm_t) { return ncclGroupEnd(); });
    {
      std::lock_guard const lock(mutex_);
      --groups_;
    }
    if (c.group > 0 || c.grouped.empty()) return;
    enqueued(at(channel), *c.stream, first, static_cast<Index>(c.grouped.size()) - 1);
    c.grouped.clear();
  }

  /// This rank is done: waits until all work is, and NCCL has let go of it.
  /// @throws CommunicationError when that takes longer than the timeout
  void end() {
    while (under_way()) {
      look(true);
      std::this_thread::yield();
    }
    auto const begun = Clock::now();
    auto const in_time = [&](bool good) {
      if (!good)
        fail("rank " + std::to_string(rank_) + " has ended, and NCCL did not within " +
             std::to_string(timeout_.count()) + " ms");
    };
    for (std::size_t i = channels_.size(); i-- > 0;) {
      if (!has(i)) continue;
      guarded(i, Entry{"ncclCommFinalize"}, ncclCommFinalize);
      for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) {
        guarded(i, Entry{"ncclCommFinalize"}, [&](ncclComm_t c) {
          ncclResult_t const asked = ncclCommGetAsyncError(c, &state);
          return asked != ncclSuccess || state == ncclInProgress ? asked : state;
        });
        in_time(Clock::now() - begun <= timeout_);
        std::this_thread::yield();
      }
      ncclComm_t ended = nullptr;
      {
        std::lock_guard const lock(mutex_);
        throw_if_failed();
        ended = std::exchange(channels_[i].communicator, nullptr);
      }
      auto const status = std::make_shared<ncclResult_t>(ncclSuccess);
      bool destroyed = false;
      try {
        destroyed = run_aside(timeout_, [status, ended, ordinal = ordinal_] {
          ignore(cudaSetDevice(ordinal));
          *status = ncclCommDestroy(ended);
        });
      } catch (...) {  // no thread: it is aborted with the others
        std::lock_guard const lock(mutex_);
        channels_[i].communicator = ended;
        throw;
      }
      in_time(destroyed);
      if (*status != ncclSuccess) fail(told("ncclCommDestroy", *status));
    }
  }

 private:
  /// Making the first communicator can block where a rank does not come, and cannot be aborted
  /// before it has returned.
  void join(Bootstrap const& bootstrap) {
    struct Joining {
      ncclComm_t communicator = nullptr;
      std::string failure{};
    };
    Bootstrap::Use const use(bootstrap);
    ncclUniqueId const id = bootstrap.id();
    auto const joining = std::make_shared<Joining>();
    bool const came =
        run_aside(timeout_, [joining, id, rank = rank_, size = size_, ordinal = ordinal_] {
          try {
            activate(ordinal);
            check(ncclCommInitRank(&joining->communicator, size, id, rank), "ncclCommInitRank");
          } catch (std::exception const& e) {
            joining->failure = e.what();
          }
        });
    std::string const whom = "rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                             " cannot join the others " + bootstrap.text();
    if (!came) {
      throw CommunicationError(whom + ": not all ranks came within " +
                               std::to_string(timeout_.count()) + " ms");
    }
    if (!joining->failure.empty()) throw CommunicationError(whom + ": " + joining->failure);
    channels_[0].communicator = joining->communicator;
  }

  /// What stands behind a launch on the stream. Of a graph that the stream captures: behind each
  /// launch of the graph, once for all that it has of the channel.
  void enqueued(std::size_t channel, Stream& stream, Entry const& entry, Index more) {
    if (!stream.captures()) return enter(channel, stream, {entry, more});
    Channel& c = channels_[channel];
    if (auto const id = stream.capture_id(); !c.captured || c.captured_by != id) {
      c.captured_by = id;
      c.captured = std::make_shared<NcclLaunches::Launch>(
          NcclLaunches::Launch{.entry = entry, .more = more, .replayed = true});
      stream.at_launches([this, channel, launch = c.captured](Stream& s, bool behind) {
        if (behind) return enter(channel, s, *launch);
        std::lock_guard const lock(mutex_);
        throw_if_failed();
      });
    } else {
      c.captured->more += more + 1;
    }
  }
  void enter(std::size_t channel, Stream& stream, NcclLaunches::Launch launch) {
    NcclLaunches& launches = channels_[channel].launches;
    while (full(channel)) {
      look(true);
      std::this_thread::yield();
    }
    launches.record(stream.native());
    launch.order = ++order_;
    std::lock_guard const lock(mutex_);
    launch.since = looked_ = Clock::now();
    launches.add(launch);
  }
  bool full(std::size_t channel) {
    std::lock_guard const lock(mutex_);
    channels_[channel].launches.sweep();
    return channels_[channel].launches.full();
  }

  static constexpr std::size_t gathering = 1;  // the channel of gathers and publications

  int size_;
  Index order_ = 0;  // of all channels' launches
  bool by_copy_engines_ = false;
};

}  // namespace zero::cuda::detail
