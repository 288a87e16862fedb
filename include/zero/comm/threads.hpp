// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks as threads of one process.

#include <zero/comm/communicator.hpp>
#include <zero/core/meeting.hpp>
#include <zero/core/rank_order_sum.hpp>
#include <zero/device/host.hpp>

#include <cstring>
#include <memory>
#include <span>
#include <string>

namespace zero {

/// A communicator between threads, on devices that run host code; launch<Threads> makes one a rank.
/// Collectives are enqueued on the stream of their arguments and run when every rank's stream has
/// come to them.
/// @tparam D the device
template <RunsHostCode D>
class ThreadCommunicator {
 public:
  using Device = D;  ///< of each rank

  /// @param meeting of the world
  /// @param rank of this thread
  /// @param device of this rank; outlives every copy
  /// @param channel 0 to 3
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank, D& device, int channel = 0)
      : meeting_(std::move(meeting)), rank_(rank), device_(&device), channel_(channel) {}

  int rank() const { return rank_; }             ///< 0 to size() - 1
  int size() const { return meeting_->size(); }  ///< ranks of the world
  D& device() const { return *device_; }         ///< of this rank
  /// @throws InvalidArgument when there is no such channel
  ThreadCommunicator channel(int i) const {
    if (i < 0 || i >= Meeting::num_channels) {
      throw InvalidArgument("channel " + std::to_string(i) + "; there are channels 0 to " +
                            std::to_string(Meeting::num_channels - 1));
    }
    return {meeting_, rank_, *device_, i};
  }
  /// The others throw this text.
  void abort(std::string_view text) const noexcept { meeting_->abort(text); }

  /// As CanAllGather, in memory that threads share.
  /// @throws InvalidArgument for sizes; the stream throws CommunicationError
  template <class T>
  void all_gather(Ordered<T const, D> slice, Ordered<T, D> full, Where where) {
    check_sizes("all_gather", full.view().size(), slice.view().size(), size());
    enqueue<T>("all_gather", slice, full, slice.view().size(), where,
               [](std::span<Post const> posts, int rank, Index n) {
                 T* const to = static_cast<T*>(posts[at(rank)].output);
                 for (std::size_t q = 0; q < posts.size(); ++q) {
                   T const* const from = static_cast<T const*>(posts[q].input);
                   T* const part = to + static_cast<Index>(q) * n;
                   if (part != from) std::memcpy(static_cast<void*>(part), from, at(n) * sizeof(T));
                 }
               });
  }

  /// As CanReduceScatter; sums in float, in rank order, rounded once. Errors as all_gather.
  template <class T>
  void reduce_scatter(Ordered<T const, D> full, Ordered<T, D> slice, Where where) {
    check_sizes("reduce_scatter", full.view().size(), slice.view().size(), size());
    enqueue<T>("reduce_scatter", full, slice, slice.view().size(), where,
               [](std::span<Post const> posts, int rank, Index n) {
                 T* const to = static_cast<T*>(posts[at(rank)].output);
                 sum<T>(posts, rank * n, n, [&](Index i, Index count, T const* values) {
                   std::memcpy(static_cast<void*>(to + i), values, at(count) * sizeof(T));
                 });
               });
  }

  /// As CanAllReduce; sums in float, in rank order, rounded once. Errors as all_gather.
  template <class T>
  void all_reduce(Ordered<T, D> full, Where where) {
    check_sizes("all_reduce", full.view().size(), full.view().size() / size(), size());
    enqueue<T>("all_reduce", full, full, full.view().size() / size(), where,
               [](std::span<Post const> posts, int rank, Index n) {
                 // Each rank sums its own part and writes it to all: parts do not overlap.
                 sum<T>(posts, rank * n, n, [&](Index i, Index count, T const* values) {
                   for (Post const& post : posts) {
                     std::memcpy(static_cast<void*>(static_cast<T*>(post.output) + rank * n + i),
                                 values, at(count) * sizeof(T));
                   }
                 });
               });
  }

 private:
  /// Sums elements [begin, begin + n) of all inputs.
  template <class T, class Store>
  static void sum(std::span<Post const> posts, Index begin, Index n, Store store) {
    auto const input = [&](int rank) {
      return static_cast<T const*>(posts[at(rank)].input) + begin;
    };
    rank_order_sum<T>(static_cast<int>(posts.size()), n, input, store);
  }

  template <class T, class In, class Out, class Part>
  void enqueue(std::string_view operation, In in, Out out, Index n, Where where, Part part) {
    if (&in.stream() != &out.stream())
      throw Error("a collective's arguments must be ordered on one stream");
    out.stream().enqueue([meeting = meeting_, rank = rank_, channel = channel_, operation,
                          from = in.view(), to = out.view(), n, where, part,
                          number = meeting_->issue(rank_, channel_)] {
      Post const post{operation, D::resolve(from.address()), D::resolve(to.address()),
                      n,         Index{sizeof(T)},           where,
                      number};
      meeting->meet(rank, channel, post,
                    [&](std::vector<Post> const& posts) { part(posts, rank, n); });
    });
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
  D* device_;
  int channel_;
};

static_assert(CanAllGather<ThreadCommunicator<Host>, bf16> &&
              CanReduceScatter<ThreadCommunicator<Host>, float> &&
              CanAllReduce<ThreadCommunicator<Host>, bf16>);

}  // namespace zero
