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

/// Collectives of one channel that were enqueued, each with an event behind it; where very many are
/// under way, the youngest ones share theirs. Only the rank's host thread adds; whoever else
/// calls holds the lock that add() is called under.
class NcclLaunches {
 public:
  using Clock = std::chrono::steady_clock;
  /// Events of a channel: a host that runs farther ahead makes no more of them.
  static constexpr std::size_t most = 128;

  /// Some collectives that were enqueued as one.
  struct Launch {
    Entry entry{};                     ///< the first of them
    Index more = 0;                    ///< how many more
    Index number = 0;                  ///< of the channel's launches, from 1
    Index order = 0;                   ///< of all channels' launches
    bool replayed = false;             ///< part of a graph; the entry is that of its record
    Clock::time_point since{};         ///< when it was enqueued
    cudaStream_t on_stream = nullptr;  ///< not owned

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
  /// Enqueues on the stream the event that stands behind the next one. What CUDA does here may
  /// wait for the GPU where its queue is full, so no lock is held. @throws Failure
  void record(cudaStream_t stream) {
    if (size_ == most && launches_[place(most - 1)].on_stream != stream) {
      // The shared event stands for both: a communicator's collectives end in their order anyway.
      check(cudaStreamWaitEvent(stream, events_[place(most - 1)].native(), cudaEventWaitDefault),
            "cudaStreamWaitEvent");
    }
    check(cudaEventRecord(events_[place(next())].native(), stream), "cudaEventRecord");
  }
  /// Enters that one, right after record().
  void add(Launch launch) {
    launch.number = ++launched_;
    if (size_ == most) {
      Launch& youngest = launches_[place(most - 1)];
      youngest.more += launch.more + 1;
      youngest.on_stream = launch.on_stream;
    } else {
      launches_[place(size_++)] = launch;
    }
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
  std::size_t next() const { return size_ == most ? most - 1 : size_; }
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
