// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work that waits in order behind work that is not finished yet. Its memory is used again, so that
// a queue that has reached its length allocates no more.

#include <zero/core/size.hpp>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace zero {

/// One piece of work: a callable `bool (bool waiting)` that is called until it returns true.
/// `waiting` says that the host does nothing else meanwhile.
class PolledWork {
 public:
  PolledWork() = default;
  PolledWork(PolledWork const&) = delete;
  PolledWork& operator=(PolledWork const&) = delete;
  ~PolledWork() { clear(); }

  /// Replaces the work; a callable that is large is kept on the heap.
  template <class F>
  void set(F f) {
    clear();
    if constexpr (sizeof(F) <= inline_bytes && alignof(F) <= alignof(std::max_align_t)) {
      ::new (static_cast<void*>(bytes_)) F(std::move(f));
      call_ = [](std::byte* b, bool waiting) { return (*std::launder(as<F>(b)))(waiting); };
      destroy_ = [](std::byte* b) { std::destroy_at(std::launder(as<F>(b))); };
    } else {
      set([own = std::make_unique<F>(std::move(f))](bool waiting) { return (*own)(waiting); });
    }
  }
  /// One look; true when the work is finished.
  bool operator()(bool waiting) { return call_(bytes_, waiting); }
  /// Destroys the work.
  void clear() {
    if (destroy_ != nullptr) std::exchange(destroy_, nullptr)(bytes_);
  }

 private:
  static constexpr std::size_t inline_bytes = 384;  // an optimizer's update with its views
  template <class F>
  static F* as(std::byte* bytes) {
    return reinterpret_cast<F*>(bytes);
  }

  bool (*call_)(std::byte*, bool) = nullptr;
  void (*destroy_)(std::byte*) = nullptr;
  alignas(std::max_align_t) std::byte bytes_[inline_bytes];
};

/// A queue of work; counts what was put in and what has been finished, so that a count is a place
/// in the order.
class WorkQueue {
 public:
  bool empty() const { return finished_ == entered_; }  ///< nothing is unfinished
  Index entered() const { return entered_; }            ///< pieces of work so far
  Index finished() const { return finished_; }          ///< pieces of work so far

  /// Puts work at the end; allocates where more is unfinished than ever before.
  template <class F>
  void push(F f) {
    if (entered_ - finished_ == static_cast<Index>(ring_.size())) grow();
    ring_[slot(entered_)]->set(std::move(f));
    ++entered_;
  }
  PolledWork& front() { return *ring_[slot(finished_)]; }  ///< what is next; the queue is not empty
  /// Ends what is next.
  void pop() {
    front().clear();
    ++finished_;
  }

 private:
  std::size_t slot(Index i) const { return at(i) & (ring_.size() - 1); }
  void grow() {
    std::vector<std::unique_ptr<PolledWork>> larger(ring_.empty() ? 8 : 2 * ring_.size());
    for (Index i = finished_; i < entered_; ++i)
      larger[at(i) & (larger.size() - 1)] = std::move(ring_[slot(i)]);
    for (auto& work : larger) {
      if (!work) work = std::make_unique<PolledWork>();
    }
    ring_ = std::move(larger);
  }

  std::vector<std::unique_ptr<PolledWork>> ring_;
  Index entered_ = 0;
  Index finished_ = 0;
};

}  // namespace zero
