// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks as processes, over MPI. Sums are made by this library, in rank order, so that bits are
// those of ranks as threads.

#include <zero/comm/communicator.hpp>
#include <zero/core/dtype.hpp>
#include <zero/mpi/collective.hpp>

#include <array>
#include <memory>
#include <vector>

namespace zero {

namespace detail {

/// One rank's end of an MPI world: the world, its channels, and collectives to be used again.
class MpiRanks {
 public:
  MpiRanks(MPI_Comm parent, LaunchOptions const& options, MpiLimits const& limits)
      : world(parent, options),
        channels_{
            {{world, 0, limits}, {world, 1, limits}, {world, 2, limits}, {world, 3, limits}}} {}

  MpiWorld world;

  /// A collective that is not in use.
  MpiCollective& take(int channel) {
    auto& free = free_[at(channel)];
    if (free.empty()) {
      all_.push_back(std::make_unique<MpiCollective>(channels_[at(channel)]));
      free.reserve(all_.size());
      return *all_.back();
    }
    MpiCollective& c = *free.back();
    free.pop_back();
    return c;
  }
  /// It is complete.
  void give(int channel, MpiCollective& collective) { free_[at(channel)].push_back(&collective); }

 private:
  std::array<MpiChannel, num_mpi_channels> channels_;
  std::vector<std::unique_ptr<MpiCollective>> all_;
  std::array<std::vector<MpiCollective*>, num_mpi_channels> free_;
};

}  // namespace detail

/// A communicator between processes, on devices that run host code; launch<Mpi> makes one a rank.
/// Each channel is an MPI communicator of its own. On devices that poll, a collective is under way
/// from where it is enqueued, and is looked after whenever something is enqueued or waited for; on
/// others it is complete when its turn on the stream is over.
///
/// all_gather moves what MPI_Iallgather moves. reduce_scatter sends every rank its slice directly
/// and sums in rank order; all_reduce is both, one after the other. Beside the device's memory it
/// needs about 16 MiB a channel that reduces.
/// @tparam D the device
template <RunsHostCode D>
class MpiCommunicator {
 public:
  using Device = D;  ///< of this process

  /// @param ranks the joined world, shared by all copies
  /// @param device of this rank; outlives every copy, as what is enqueued on it does `ranks`
  /// @param channel 0 to 3
  MpiCommunicator(std::shared_ptr<detail::MpiRanks> ranks, D& device, int channel = 0)
      : ranks_(std::move(ranks)), device_(&device), channel_(channel) {}

  int rank() const { return ranks_->world.rank(); }  ///< of this process
  int size() const { return ranks_->world.size(); }  ///< processes of the world
  D& device() const { return *device_; }             ///< of this process
  /// @throws InvalidArgument when there is no such channel
  MpiCommunicator channel(int i) const {
    if (i < 0 || i >= detail::num_mpi_channels) {
      throw InvalidArgument("channel " + std::to_string(i) + "; there are channels 0 to " +
                            std::to_string(detail::num_mpi_channels - 1));
    }
    return {ranks_, *device_, i};
  }
  /// Tells the other ranks; waits until they have heard it or the grace is over.
  void abort(std::string_view text) const noexcept { ranks_->world.abort(text); }

  /// As CanAllGather, by MPI_Iallgather. The stream throws CommunicationError.
  template <class T>
  void all_gather(Ordered<T const, D> slice, Ordered<T, D> full, Where where) {
    check_sizes("all_gather", full.view().size(), slice.view().size(), size());
    enqueue<T>("all_gather", slice, full, slice.view().size(), where, false, true);
  }
  /// As CanReduceScatter; sums in float, in rank order, rounded once. The stream throws
  ///   CommunicationError.
  template <class T>
  void reduce_scatter(Ordered<T const, D> full, Ordered<T, D> slice, Where where) {
    check_sizes("reduce_scatter", full.view().size(), slice.view().size(), size());
    enqueue<T>("reduce_scatter", full, slice, slice.view().size(), where, true, false);
  }
  /// As CanAllReduce, reduced and gathered. The stream throws CommunicationError.
  template <class T>
  void all_reduce(Ordered<T, D> full, Where where) {
    check_sizes("all_reduce", full.view().size(), full.view().size() / size(), size());
    enqueue<T>("all_reduce", full, full, full.view().size() / size(), where, true, true);
  }

 private:
  template <class T, class In, class Out>
  void enqueue(std::string_view operation, In in, Out out, Index n, Where where, bool reduces,
               bool gathers) {
    if (&in.stream() != &out.stream())
      throw Error("a collective's arguments must be ordered on one stream");
    Entry const entry{operation, n, Index{sizeof(T)}, where};
    T const* const from = in.view().address();
    T* const to = out.view().address();
    if constexpr (Polls<D>) {
      detail::MpiRanks* const ranks = ranks_.get();
      ranks->world.look();
      detail::MpiCollective& c = ranks->take(channel_);
      c.enter(entry, D::resolve(from), D::resolve(to), reduces, gathers);
      out.stream().enqueue_polled([ranks, channel = channel_, &c](bool host_waits) {
        if (!c.look(host_waits)) return false;
        ranks->give(channel, c);
        return true;
      });
    } else {
      out.stream().enqueue(
          [ranks = ranks_.get(), channel = channel_, entry, from, to, reduces, gathers] {
            ranks->world.look();
            detail::MpiCollective& c = ranks->take(channel);
            c.enter(entry, D::resolve(from), D::resolve(to), reduces, gathers);
            for (PoliteWait pause; !c.look(true);) pause();
            ranks->give(channel, c);
          });
    }
  }

  std::shared_ptr<detail::MpiRanks> ranks_;
  D* device_;
  int channel_;
};

static_assert(CanAllGather<MpiCommunicator<PollingHost>, bf16> &&
              CanReduceScatter<MpiCommunicator<PollingHost>, fp16> &&
              CanAllReduce<MpiCommunicator<PollingHost>, float> &&
              CanAllGather<MpiCommunicator<Host>, double>);

}  // namespace zero
