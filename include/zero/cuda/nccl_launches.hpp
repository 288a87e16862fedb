// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one channel's collectives are and which of them have not ended, so that they can be named.

#include <zero/core/entry.hpp>
#include <zero/cuda/stream.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

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

/// Collectives of one channel that were enqueued, each with an event behind it; those that are part
/// of graphs, which share one event behind each launch.
class NcclLaunches {
 public:
  /// Some collectives that were enqueued as one.
  struct Launch {
    Entry entry{};     ///< the first of them
    Index more = 0;    ///< how many more
    Index number = 0;  ///< of the channel's launches, from 1; 0: replayed
    Index order = 0;   ///< of all channels' launches; replays come last
    Event event{};

    std::string text(std::size_t channel) const {
      return zero::describe(entry) +
             (more > 0 ? " and " + std::to_string(more) + " launched with it" : "") +
             (number > 0 ? ", number " + std::to_string(number) : ", replayed") + " on channel " +
             std::to_string(channel);
    }
    bool done() const {
      if (event.native() == nullptr) return true;
      cudaError_t const status = cudaEventQuery(event.native());
      if (status == cudaErrorNotReady) {
        ignore(status);
        return false;
      }
      check(status, "cudaEventQuery");
      return true;
    }
  };

  /// Collectives have been enqueued on the stream, or have become part of a graph that it captures.
  /// @param order of all channels' launches
  void add(Stream& stream, Entry const& entry, Index more, Index order) {
    if (stream.captures()) {  // where events must not be asked for
      if (replayed_.event.native() == nullptr)
        replayed_ = {entry, -1, 0, std::numeric_limits<Index>::max(), Event::make()};
      replayed_.more += more + 1;
      stream.record(replayed_.event);  // behind each launch of the graph
      return;
    }
    sweep();
    Event event;
    if (spare_.empty()) {
      event = Event::make();
    } else {
      event = std::move(spare_.back());
      spare_.pop_back();
    }
    check(cudaEventRecord(event.native(), stream.native()), "cudaEventRecord");
    running_.push_back({entry, more, ++launched_, order, std::move(event)});
  }
  /// The oldest that has not ended, or null.
  Launch const* oldest() {
    sweep();
    if (!running_.empty()) return &running_.front();
    return replayed_.done() ? nullptr : &replayed_;
  }

 private:
  void sweep() {
    while (!running_.empty() && running_.front().done()) {
      spare_.push_back(std::move(running_.front().event));
      running_.pop_front();
    }
  }

  Queue<Launch> running_;
  Launch replayed_{};  // all that is part of a graph, under the name of the first
  std::vector<Event> spare_;
  Index launched_ = 0;
};

}  // namespace zero::cuda::detail
