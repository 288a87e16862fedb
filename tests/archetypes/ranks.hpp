// SPDX-License-Identifier: Apache-2.0
#pragma once
// A communicator chosen by value, so that one trainer type serves both: a thread among threads, or
// one rank alone whose peers are its echoes. What a rank allocates and sends depends on the world's
// size and not on who its peers are, so echoes show both for any world in one thread.

#include <zero/comm/threads.hpp>

#include <cstring>
#include <optional>

namespace rig {

using zero::Index;
using zero::Ordered;
using zero::Where;

class Ranks {
 public:
  using Device = zero::Host;

  /// A thread among threads.
  explicit Ranks(zero::ThreadCommunicator<Device> threads)
      : threads_(std::move(threads)), rank_(threads_->rank()), size_(threads_->size()) {}
  /// One rank and its echoes. @param device outlives every copy
  Ranks(int rank, int size, Device& device) : device_(&device), rank_(rank), size_(size) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  Device& device() const { return threads_ ? threads_->device() : *device_; }
  Ranks channel(int i) const { return threads_ ? Ranks(threads_->channel(i)) : *this; }
  void abort(std::string_view text) const noexcept {
    if (threads_) threads_->abort(text);
  }

  template <class T>
  void all_gather(Ordered<T const, Device> slice, Ordered<T, Device> full, Where where) {
    if (threads_) return threads_->all_gather(slice, full, where);
    repeat(full.view(), slice.view());
  }
  template <class T>
  void reduce_scatter(Ordered<T const, Device> full, Ordered<T, Device> slice, Where where) {
    if (threads_) return threads_->reduce_scatter(full, slice, where);
    Index const n = slice.view().size();
    for (Index i = 0; i < n; ++i)
      slice.view().address()[i] = summed(full.view().address()[rank_ * n + i]);
  }
  template <class T>
  void all_reduce(Ordered<T, Device> full, Where where) {
    if (threads_) return threads_->all_reduce(full, where);
    Index const n = full.view().size() / size_;
    if (where.phase == "exchange")  // a row of which each rank fills its own part
      return repeat(full.view(), zero::View<T const, Device>(full.view().sub(rank_ * n, n)));
    for (Index i = 0; i < full.view().size(); ++i)
      full.view().address()[i] = summed(full.view().address()[i]);
  }
  void group_start() {}
  void group_end() {}

 private:
  template <class T>
  T summed(T x) const {
    return static_cast<T>(static_cast<float>(size_) * static_cast<float>(x));
  }
  template <class T>
  void repeat(zero::View<T, Device> full, zero::View<T const, Device> slice) const {
    for (Index q = 0; q < size_; ++q) {
      T* const to = full.address() + q * slice.size();
      if (to != slice.address())
        std::memcpy(static_cast<void*>(to), slice.address(), zero::at(slice.size()) * sizeof(T));
    }
  }

  std::optional<zero::ThreadCommunicator<Device>> threads_;
  Device* device_ = nullptr;
  int rank_;
  int size_;
};

static_assert(zero::CanGroup<Ranks> && zero::CanAllGather<Ranks, zero::bf16> &&
              zero::CanReduceScatter<Ranks, float> && zero::CanAllReduce<Ranks, zero::bf16>);

}  // namespace rig
