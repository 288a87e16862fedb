// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the threads of one world meet. Every collective is two meetings: at the first all ranks say
// what they are in, and disagreement is found; between them each rank does its part on the others'
// memory; the second ends it.

#include <zero/core/where.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace zero {

/// What a rank says when it enters a collective.
struct Post {
  std::string_view operation{};
  void const* input = nullptr;
  void* output = nullptr;
  Index slice_elements = 0;
  Index element_bytes = 0;
  Where where{};
};

/// The meeting place of `size` ranks; one object a world, shared by all. Nothing in it waits longer
/// than the timeout.
class Meeting {
 public:
  static constexpr int num_channels = 4;

  /// @param timeout a rank that has waited this long names the ranks that are missing, and all
  ///   throw
  Meeting(int size, std::chrono::milliseconds timeout)
      : size_(size), timeout_(timeout), ended_(at(size), 0) {
    for (Channel& c : channels_) c.seats.resize(at(size));
    unsigned const cores = std::thread::hardware_concurrency();
    spins_ = cores >= static_cast<unsigned>(size) ? 2000 : 0;
  }

  int size() const { return size_; }

  /// Meets all other ranks on a channel, runs part(posts in rank order) while every rank is here,
  /// and meets again.
  /// @throws CommunicationError, on every rank with the same text, when ranks post different
  ///   collectives, when one has ended or aborted, or when the timeout passes
  template <class F>
  void meet(int rank, int channel, Post const& post, F part) {
    Channel& c = channels_[at(channel)];
    arrive(c, rank, post);
    part(c.posts);
    arrive(c, rank, post);
  }

  /// This rank will come to no further meeting.
  void end(int rank) {
    std::lock_guard const lock(mutex_);
    ended_[at(rank)] = 1;
    wake();
  }

  /// Every rank throws `text` at its current or next meeting. The first text stays.
  void abort(std::string_view text) noexcept {
    std::lock_guard const lock(mutex_);
    if (failed_) return;
    try {
      reason_ = text;
    } catch (...) {
      reason_.clear();
    }
    failed_ = true;
    wake();
  }

 private:
  struct Seat {
    Post post{};
    bool here = false;
  };
  struct Channel {
    std::vector<Seat> seats;
    std::vector<Post> posts;
    int arrived = 0;
    bool inside = false;  // between the first meeting and the second
    std::atomic<Index> generation{0};
  };

  void arrive(Channel& c, int rank, Post const& post) {
    std::unique_lock lock(mutex_);
    if (failed_) throw CommunicationError(reason_);
    c.seats[at(rank)] = {post, true};
    if (++c.arrived == size_) {
      if (!c.inside) compare(c);
      c.arrived = 0;
      c.inside = !c.inside;
      for (Seat& seat : c.seats) seat.here = false;
      c.generation.fetch_add(1, std::memory_order_release);
      changed_.notify_all();
      return;
    }
    Index const generation = c.generation.load(std::memory_order_relaxed);
    if (spins_ > 0) {
      lock.unlock();
      for (int i = 0; i < spins_; ++i) {
        if (c.generation.load(std::memory_order_acquire) != generation) return;
      }
      lock.lock();
    }
    auto const until = std::chrono::steady_clock::now() + timeout_;
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

  void compare(Channel& c) {
    c.posts.clear();
    for (Seat const& seat : c.seats) c.posts.push_back(seat.post);
    Post const& first = c.posts.front();
    for (int q = 1; q < size_; ++q) {
      Post const& other = c.posts[at(q)];
      bool const same =
          other.operation == first.operation && other.slice_elements == first.slice_elements &&
          other.element_bytes == first.element_bytes && other.where.unit == first.where.unit &&
          other.where.phase == first.where.phase && other.where.step == first.where.step &&
          other.where.micro_batches == first.where.micro_batches;
      if (!same) {
        fail("ranks issued different collectives: rank 0 is in " + text(first) + ", rank " +
             std::to_string(q) + " is in " + text(other));
      }
    }
  }

  std::string missing(Channel const& c, int rank, Post const& post, bool gone) const {
    std::string who;
    for (int q = 0; q < size_; ++q) {
      if (c.seats[at(q)].here) continue;
      who += (who.empty() ? "" : ", ") + std::string("rank ") + std::to_string(q);
      if (ended_[at(q)] != 0) who += " (has ended)";
      for (Channel const& other : channels_) {
        if (&other != &c && other.seats[at(q)].here)
          who += " (is in " + text(other.seats[at(q)].post) + ")";
      }
    }
    return "rank " + std::to_string(rank) + " waits in " + text(post) + " for " + who +
           (gone ? ", which will not come"
                 : ", which did not come within " + std::to_string(timeout_.count()) + " ms");
  }

  static std::string text(Post const& post) {
    return std::string(post.operation) + " of " + std::to_string(post.slice_elements) + " x " +
           std::to_string(post.element_bytes) + " bytes a rank, " + describe(post.where);
  }

  [[noreturn]] void fail(std::string reason) {
    if (!failed_) {
      failed_ = true;
      reason_ = std::move(reason);
      wake();
    }
    throw CommunicationError(reason_);
  }

  void wake() { changed_.notify_all(); }

  int size_;
  std::chrono::milliseconds timeout_;
  int spins_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Channel, num_channels> channels_;
  std::vector<char> ended_;
  bool failed_ = false;
  std::string reason_;
};

}  // namespace zero
