// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the threads of one world meet. Every collective is two meetings: at the first all ranks say
// what they are in, and disagreement is found; between them each rank does its part on the others'
// memory; the second ends it.

#include <zero/core/entry.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace zero {

/// What a rank says when it enters a collective.
struct Post {
  std::string_view operation{};  ///< name of the collective
  void const* input = nullptr;   ///< host memory that it reads
  void* output = nullptr;        ///< host memory that it writes
  Index slice_elements = 0;      ///< a rank
  Index element_bytes = 0;       ///< of one element
  Where where{};                 ///< what it is for
  Index number = -1;  ///< as Meeting::issue gave it; -1: the next one of its rank and channel

  /// What is compared with the other ranks'.
  Entry entry() const { return {operation, slice_elements, element_bytes, where}; }
};

/// The meeting place of `size` ranks; one object a world, shared by all. No rank waits for another
/// to come longer than the timeout. Once all are there, none leaves before every rank has done its
/// part, whatever has failed meanwhile: the others may be reading its memory.
class Meeting {
 public:
  static constexpr int num_channels = 4;  ///< each has an order of its own
  /// What is thrown where there is no memory for the reason: short enough for a string to hold in
  /// itself.
  static constexpr std::string_view unsaid = "out of memory";

  /// @param size ranks of the world
  /// @param timeout a rank that has waited this long names the ranks that are missing, and all
  ///   throw
  Meeting(int size, std::chrono::milliseconds timeout)
      : size_(size), timeout_(std::min(timeout, longest)), ended_(at(size), 0) {
    for (Channel& c : channels_) c.seats.resize(at(size));
    unsigned const cores = std::thread::hardware_concurrency();
    spins_ = cores >= static_cast<unsigned>(size) ? 2000 : 0;
  }

  int size() const { return size_; }  ///< ranks

  /// The number of a rank's next collective on a channel. Streams may come to their collectives in
  /// any order; those of one channel meet in the order of their numbers, which is that of this
  /// call.
  Index issue(int rank, int channel) { return channels_[at(channel)].seats[at(rank)].issued++; }

  /// Meets all other ranks on a channel, runs part(posts in rank order) while every rank is here,
  /// and meets again.
  /// @throws CommunicationError, on every rank with the same text, when ranks post different
  ///   collectives, when one has ended or aborted, or when the timeout passes
  template <class F>
  void meet(int rank, int channel, Post const& post, F part) {
    Channel& c = channels_[at(channel)];
    arrive(c, rank, post);
    Leaving const leaving{*this, c, rank};
    part(c.posts);
  }

  /// This rank will come to no further meeting.
  void end(int rank) {
    std::lock_guard const lock(mutex_);
    ended_[at(rank)] = 1;
    changed_.notify_all();
  }

  /// Every rank throws `text` at its current or next meeting. The first text stays.
  void abort(std::string_view text) noexcept {
    std::lock_guard const lock(mutex_);
    if (failed_) return;
    try {
      reason_ = text;
    } catch (...) {
      reason_ = unsaid;
    }
    failed_ = true;
    changed_.notify_all();
  }

 private:
  struct Seat {
    Post post{};
    bool here = false;
    Index issued = 0;  // touched by the rank's host thread alone
    Index done = 0;
  };
  struct Channel {
    std::vector<Seat> seats;
    std::vector<Post> posts;
    int arrived = 0;
    int inside = 0;                    // have met, and not yet done their part
    std::atomic<Index> generation{0};  // of arrivals and of departures
  };
  struct Leaving {
    Meeting& meeting;
    Channel& channel;
    int rank;
    ~Leaving() { meeting.leave(channel, rank); }
  };

  // A point in time beyond it might not fit the clock.
  static constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);

  void arrive(Channel& c, int rank, Post const& post) {
    std::unique_lock lock(mutex_);
    Seat& seat = c.seats[at(rank)];
    auto until = std::chrono::steady_clock::now() + timeout_;
    auto const turn = [&] { return failed_ || post.number < 0 || post.number == seat.done; };
    bool const queued = !turn();
    if (queued) {
      ++queued_;
      changed_.wait_until(lock, until, turn);
      --queued_;
    }
    if (!turn()) {
      fail("rank " + std::to_string(rank) + " has " + text(c, post) +
           " behind an earlier collective of its own, which did not end within " +
           std::to_string(timeout_.count()) + " ms, or was lost with a stream that failed");
    }
    if (failed_) throw CommunicationError(reason_);
    if (queued) until = std::chrono::steady_clock::now() + timeout_;
    seat.post = post;
    seat.here = true;
    if (++c.arrived == size_) {
      compare(c);
      c.arrived = 0;
      c.inside = size_;
      for (Seat& s : c.seats) s.here = false;
      c.generation.fetch_add(1, std::memory_order_release);
      changed_.notify_all();
      return;
    }
    Index const generation = c.generation.load(std::memory_order_relaxed);
    if (spin(c, generation, lock)) return;
    for (;;) {
      if (c.generation.load(std::memory_order_relaxed) != generation) return;
      if (failed_) throw CommunicationError(reason_);
      bool gone = false;
      for (int q = 0; q < size_; ++q) gone = gone || (!c.seats[at(q)].here && ended_[at(q)] != 0);
      bool const late = std::chrono::steady_clock::now() >= until;
      if (gone || late) fail(missing(c, rank, post, gone));
      changed_.wait_until(lock, until);
    }
  }

  /// Waits until every rank has done its part; then the rank's next collective may come.
  void leave(Channel& c, int rank) {
    std::unique_lock lock(mutex_);
    Index const generation = c.generation.load(std::memory_order_relaxed);
    auto const all_done = [&] {
      return c.generation.load(std::memory_order_relaxed) != generation;
    };
    bool const last = --c.inside == 0;
    if (last) {
      c.generation.fetch_add(1, std::memory_order_release);
    } else if (spin(c, generation, lock)) {
      lock.lock();
    } else {
      changed_.wait(lock, all_done);
    }
    ++c.seats[at(rank)].done;
    if (last || queued_ > 0) changed_.notify_all();
  }

  /// Looks for a while, without the lock, whether a generation has passed.
  bool spin(Channel const& c, Index generation, std::unique_lock<std::mutex>& lock) const {
    if (spins_ == 0) return false;
    lock.unlock();
    for (int i = 0; i < spins_; ++i) {
      if (c.generation.load(std::memory_order_acquire) != generation) return true;
    }
    lock.lock();
    return false;
  }

  void compare(Channel& c) {
    c.posts.clear();
    for (Seat const& s : c.seats) c.posts.push_back(s.post);
    Post const& first = c.posts.front();
    for (int q = 1; q < size_; ++q) {
      Post const& other = c.posts[at(q)];
      if (!same_collective(other.entry(), first.entry())) {
        fail("ranks issued different collectives: rank 0 is in " + text(c, first) + ", rank " +
             std::to_string(q) + " is in " + text(c, other));
      }
    }
  }

  std::string missing(Channel const& c, int rank, Post const& post, bool gone) const {
    std::string who;
    for (int q = 0; q < size_; ++q) {
      if (c.seats[at(q)].here || (gone && ended_[at(q)] == 0)) continue;
      who += (who.empty() ? "" : ", ") + std::string("rank ") + std::to_string(q);
      if (ended_[at(q)] != 0) who += " (has ended)";
      for (Channel const& other : channels_) {
        if (&other != &c && other.seats[at(q)].here)
          who += " (is in " + text(other, other.seats[at(q)].post) + ")";
      }
    }
    return "rank " + std::to_string(rank) + " waits in " + text(c, post) + " for " + who +
           (gone ? ", which will not come"
                 : ", which did not come within " + std::to_string(timeout_.count()) + " ms");
  }

  std::string text(Channel const& c, Post const& post) const {
    Index const met = c.generation.load(std::memory_order_relaxed) / 2;
    Index const number = (post.number < 0 ? met : post.number) + 1;
    return describe(post.entry()) + ", number " + std::to_string(number) + " on channel " +
           std::to_string(&c - channels_.data());
  }

  [[noreturn]] void fail(std::string reason) {
    if (!failed_) {
      failed_ = true;
      reason_ = std::move(reason);
      changed_.notify_all();
    }
    throw CommunicationError(reason_);
  }

  int size_;
  std::chrono::milliseconds timeout_;
  int spins_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Channel, num_channels> channels_;
  std::vector<char> ended_;
  int queued_ = 0;  // wait for an earlier collective of their own rank
  bool failed_ = false;
  std::string reason_;
};

}  // namespace zero
