// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks as threads of one process, on one GPU or on several: the bitwise reference on GPUs. Sums
// are made in rank order, so the bits depend on the world size and on nothing else.

#include <zero/comm/communicator.hpp>
#include <zero/core/meeting.hpp>
#include <zero/cuda/rank_sum.cuh>
#include <zero/cuda/transfer.hpp>
#include <zero/launch/threads.hpp>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace zero::cuda {

namespace detail {

/// What the ranks of one launch share. A collective is one meeting of the host threads, when they
/// enqueue it: each stream then waits for the others' inputs, does its part, and waits until the
/// others have done theirs; the GPU is not waited for.
class SharedWorld {
 public:
  SharedWorld(int ranks, std::chrono::milliseconds timeout)
      : meeting(ranks, timeout), seats_(at(ranks)) {}

  /// The events of one rank and channel; made by the rank's thread, on its GPU, before any meeting.
  struct Seat {
    Event ready;  // the rank's input is complete
    Event done;   // the rank's part is done
  };
  Seat& seat(int rank, int channel) { return seats_[at(rank)][at(channel)]; }

  Meeting meeting;

 private:
  std::vector<std::array<Seat, Meeting::num_channels>> seats_;
};

}  // namespace detail

/// A communicator between threads whose devices are GPUs of this process; launch<SharedDevice>
/// makes one a rank. Host threads meet where a collective is enqueued, in the order in which each
/// enqueues them, which is the same on every rank; no host waits for a GPU.
/// @tparam D the device; RunsKernels
template <RunsKernels D>
class SharedCommunicator {
 public:
  using Device = D;  ///< one GPU a rank; ranks may share one

  /// Made by the thread of this rank, after its device, whose GPU is the one the events are on.
  /// @param world that all ranks share
  /// @param rank from 0
  /// @param device of this rank; outlives every copy
  SharedCommunicator(std::shared_ptr<detail::SharedWorld> world, int rank, D& device)
      : SharedCommunicator(std::move(world), rank, device, 0) {
    for (int c = 0; c < Meeting::num_channels; ++c) {
      world_->seat(rank, c) = {Event::make(), Event::make()};
    }
  }

  int rank() const { return rank_; }                   ///< from 0
  int size() const { return world_->meeting.size(); }  ///< ranks
  D& device() const { return *device_; }               ///< of this rank
  /// @throws InvalidArgument when there is no such channel
  SharedCommunicator channel(int i) const {
    if (i < 0 || i >= Meeting::num_channels) {
      throw InvalidArgument("channel " + std::to_string(i) + "; there are channels 0 to " +
                            std::to_string(Meeting::num_channels - 1));
    }
    return {world_, rank_, *device_, i};
  }
  /// The other ranks throw CommunicationError with this text where they next meet.
  void abort(std::string_view text) const noexcept { world_->meeting.abort(text); }

  /// Refused: gathers here are kernels that read the other ranks' memory.
  /// @throws InvalidArgument always
  [[noreturn]] void gather_by_copy_engines() {
    throw InvalidArgument(
        "gather_by_copy_engines: these ranks are threads of one process; expected processes over "
        "NCCL, as a launcher such as torchrun starts them");
  }

  /// As CanAllGather says; enqueued on the arguments' one stream, which waits for the others'
  /// streams.
  /// @throws InvalidArgument for other sizes; Error for two streams; CommunicationError when a rank
  ///   does not come, has failed or issued another collective
  template <class T>
  void all_gather(Ordered<T const, D> slice, Ordered<T, D> full, Where where) {
    check_sizes("all_gather", full.view().size(), slice.view().size(), size());
    enqueue<T>("all_gather", slice, full, slice.view().size(), where,
               [](cudaStream_t stream, std::vector<Post> const& posts, int rank, Index n) {
                 detail::rank_copy(stream, inputs<T>(posts, 0), static_cast<int>(posts.size()),
                                   static_cast<T*>(posts[at(rank)].output), n);
               });
  }
  /// As CanReduceScatter says; adds in rank order, in float for 16-bit types, rounded once. Throws
  /// as all_gather.
  template <class T>
  void reduce_scatter(Ordered<T const, D> full, Ordered<T, D> slice, Where where) {
    check_sizes("reduce_scatter", full.view().size(), slice.view().size(), size());
    enqueue<T>("reduce_scatter", full, slice, slice.view().size(), where,
               [](cudaStream_t stream, std::vector<Post> const& posts, int rank, Index n) {
                 detail::RankPointers<T> to;
                 to.of[0] = static_cast<T*>(posts[at(rank)].output);
                 detail::rank_sum(stream, inputs<T>(posts, rank * n),
                                  static_cast<int>(posts.size()), to, 1, n);
               });
  }
  /// As CanAllReduce says; sums as reduce_scatter, throws as all_gather.
  template <class T>
  void all_reduce(Ordered<T, D> full, Where where) {
    check_sizes("all_reduce", full.view().size(), full.view().size() / size(), size());
    enqueue<T>("all_reduce", full, full, full.view().size() / size(), where,
               [](cudaStream_t stream, std::vector<Post> const& posts, int rank, Index n) {
                 // Each rank sums its own part and writes it to all: parts do not overlap.
                 int const ranks = static_cast<int>(posts.size());
                 detail::RankPointers<T> to;
                 for (int q = 0; q < ranks; ++q)
                   to.of[q] = static_cast<T*>(posts[at(q)].output) + rank * n;
                 detail::rank_sum(stream, inputs<T>(posts, rank * n), ranks, to, ranks, n);
               });
  }

 private:
  SharedCommunicator(std::shared_ptr<detail::SharedWorld> world, int rank, D& device, int channel)
      : world_(std::move(world)), rank_(rank), device_(&device), channel_(channel) {}

  template <class T>
  static detail::RankPointers<T const> inputs(std::vector<Post> const& posts, Index begin) {
    detail::RankPointers<T const> from;
    for (std::size_t q = 0; q < posts.size(); ++q)
      from.of[q] = static_cast<T const*>(posts[q].input) + begin;
    return from;
  }

  template <class T, class In, class Out, class Part>
  void enqueue(std::string_view operation, In in, Out out, Index n, Where where, Part part) {
    if (&in.stream() != &out.stream())
      throw Error("a collective's arguments must be ordered on one stream");
    auto& stream = out.stream();
    detail::SharedWorld::Seat& mine = world_->seat(rank_, channel_);
    stream.record(mine.ready);
    Post const post{operation, in.view().address(), out.view().address(),
                    n,         Index{sizeof(T)},    where};
    world_->meeting.meet(rank_, channel_, post, [&](std::vector<Post> const& posts) {
      wait_for_others(stream, &detail::SharedWorld::Seat::ready);
      part(stream.native(), posts, rank_, n);
      stream.record(mine.done);
    });
    wait_for_others(stream, &detail::SharedWorld::Seat::done);
  }
  void wait_for_others(typename D::Stream& stream, Event detail::SharedWorld::Seat::*which) {
    for (int q = 0; q < size(); ++q) {
      if (q != rank_) stream.wait(world_->seat(q, channel_).*which);
    }
  }

  std::shared_ptr<detail::SharedWorld> world_;
  int rank_;
  D* device_;
  int channel_;
};

/// The backend that makes every rank a thread, on the GPUs that this process sees in turn: rank r
/// on GPU r mod their number. CUDA_VISIBLE_DEVICES says which they are.
/// @tparam D the device, made from a GPU's ordinal
template <RunsKernels D>
struct SharedDeviceOn {
  using Communicator = SharedCommunicator<D>;  ///< what f is given

  /// Runs f(communicator) on `ranks` threads and returns when all have ended.
  /// @throws InvalidArgument for more ranks than a kernel reads, or no GPU; what the first rank to
  ///   fail threw, while the others throw CommunicationError with its text
  template <class F>
  static void run(int ranks, F& f, LaunchOptions const& options) {
    int const gpus = visible_gpus();
    if (ranks > detail::most_ranks) {
      throw InvalidArgument("SharedDevice: " + std::to_string(ranks) + " ranks; at most " +
                            std::to_string(detail::most_ranks));
    }
    // Other ranks' kernels may still read a failed rank's memory: all of it stays until all ended.
    std::vector<std::unique_ptr<D>> devices(at(ranks));
    auto const world = std::make_shared<detail::SharedWorld>(ranks, options.timeout);
    Finally const settle{gpus};
    zero::detail::run_ranks(world->meeting, [&](int rank) {
      devices[at(rank)] = std::make_unique<D>(rank % gpus);
      for (int other = 0; other < std::min(gpus, ranks); ++other)
        devices[at(rank)]->share_with(other);
      if (options.threads != 1) devices[at(rank)]->work_with(options.threads);
      f(Communicator(world, rank, *devices[at(rank)]));
    });
  }

 private:
  struct Finally {
    int gpus;
    ~Finally() {
      for (int i = 0; i < gpus; ++i) {
        ignore(cudaSetDevice(i));
        ignore(cudaDeviceSynchronize());
      }
    }
  };
};

/// Ranks as threads on the GPUs of one process.
using SharedDevice = SharedDeviceOn<Device>;

static_assert(Backend<SharedDevice>);
static_assert(CanAllGather<SharedDevice::Communicator, bf16> &&
              CanReduceScatter<SharedDevice::Communicator, float> &&
              CanAllReduce<SharedDevice::Communicator, fp16> &&
              CanAllGather<SharedDevice::Communicator, double>);

}  // namespace zero::cuda
