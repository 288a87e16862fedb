// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one channel's collectives are and which of them have not ended, so that they can be named.

#include <zero/core/entry.hpp>
#include <zero/cuda/stream.hpp>

#include <array>
#include <chrono>
#include <string>
#include <vector>

namespace zero::cuda::detail {

/// Collectives of one channel that were enqueued and have not ended, each with an event behind it.
/// Only the rank's host thread adds; whoever else calls holds the lock that add() is called under.
class NcclLaunches {
 public:
  using Clock = std::chrono::steady_clock;
  /// Under way on a channel: a host that is farther ahead waits. As many hide any pause of the
  /// host; and once a world has failed, few enough are left to end, each of which takes NCCL
  /// milliseconds then.
  static constexpr std::size_t most = 128;

  /// Some collectives that were enqueued as one: a group, or all of the channel in a graph.
  struct Launch {
    Entry entry{};              ///< the first of them
    Index more = 0;             ///< how many more
    Index number = 0;           ///< of the channel's launches, from 1
    Index order = 0;            ///< of all channels' launches
    bool replayed = false;      ///< part of a graph; the entry is that of its record
    Clock::time_point since{};  ///< when it was enqueued

    /// "all_gather of 64 x 4 bytes a rank, unit 'h.3' (gather, step 12), number 7 on channel 1"
    std::string text(std::size_t channel) const {
      return zero::describe(entry) + (more > 0 ? " and " + std::to_string(more) + " more" : "") +
             ", number " + std::to_string(number) + (replayed ? ", replayed" : "") +
             " on channel " + std::to_string(channel);
    }
  };

  /// One that may not have ended, for whoever looks without the lock.
  struct Running {
    Launch launch{};
    std::size_t channel = 0;
    cudaEvent_t event = nullptr;  ///< not owned

    /// A failure counts as an end: it is found by the host.
    bool ended() const {
      cudaError_t const status = cudaEventQuery(event);
      ignore(status);
      return status != cudaErrorNotReady;
    }
  };

  /// Makes the events, of the calling thread's GPU. @throws Failure
  void make() {
    for (Event& event : events_) event = Event::make();
  }
  /// No more can be entered until sweep() has found one that has ended.
  bool full() const { return size_ == most; }
  /// Enqueues on the stream the event that stands behind the next one; not where it is full. What
  /// CUDA does here may wait for the GPU where its queue is full, so no lock is held. @throws
  /// Failure
  void record(cudaStream_t stream) {
    check(cudaEventRecord(events_[place(size_)].native(), stream), "cudaEventRecord");
  }
  /// Enters that one, right after record().
  void add(Launch launch) {
    launch.number = ++launched_;
    launches_[place(size_++)] = launch;
  }
  /// Forgets those that have ended. @throws Failure
  void sweep() {
    while (size_ > 0 && ended(0)) {
      first_ = place(1);
      --size_;
    }
  }
  /// The oldest that has not ended, or null. @throws Failure
  Launch const* oldest() const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (!ended(i)) return &launches_[place(i)];
    }
    return nullptr;
  }
  /// Adds those that add() has entered and sweep() has not yet forgotten, the oldest first.
  void copy_to(std::vector<Running>& all, std::size_t channel) const {
    for (std::size_t i = 0; i < size_; ++i)
      all.push_back({launches_[place(i)], channel, events_[place(i)].native()});
  }

 private:
  std::size_t place(std::size_t i) const { return (first_ + i) % most; }
  bool ended(std::size_t i) const {
    cudaError_t const status = cudaEventQuery(events_[place(i)].native());
    if (status == cudaErrorNotReady) {
      ignore(status);
      return false;
    }
    check(status, "cudaEventQuery");
    return true;
  }

  std::array<Launch, most> launches_{};  // a ring
  std::array<Event, most> events_{};     // of the places
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  Index launched_ = 0;
};

}  // namespace zero::cuda::detail
