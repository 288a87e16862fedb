// SPDX-License-Identifier: Apache-2.0
#pragma once
// A world of one rank: collectives are copies, or nothing at all.

#include <zero/comm/communicator.hpp>
#include <zero/device/host_elementwise.hpp>

#include <memory>
#include <utility>

namespace zero {

/// One rank on a device of its own. Every stage trains on it; no stage issues a collective.
/// @tparam D the device
template <Device D = Host>
class SingleRank {
 public:
  using Device = D;  ///< whose memory collectives copy in

  SingleRank() : device_(std::make_shared<D>()) {}  ///< on a device of the type's own settings
  /// On a device that was made with settings, such as Host(threads).
  explicit SingleRank(D device) : device_(std::make_shared<D>(std::move(device))) {}

  int rank() const { return 0; }                   ///< 0
  int size() const { return 1; }                   ///< 1
  D& device() const { return *device_; }           ///< outlives every copy
  SingleRank channel(int) const { return *this; }  ///< itself: there is one order
  void abort(std::string_view) const noexcept {}   ///< tells nobody

  /// Copies the slice to `full`, where they differ, on their stream.
  /// @throws InvalidArgument for sizes
  template <class T>
  requires CanCopy<D, T>
  void all_gather(Ordered<T const, D> slice, Ordered<T, D> full, Where) {
    check_sizes("all_gather", full.view().size(), slice.view().size(), 1);
    transfer(slice.view(), full);
  }
  /// Copies `full` to the slice, where they differ, on their stream.
  /// @throws InvalidArgument for sizes
  template <class T>
  requires CanCopy<D, T>
  void reduce_scatter(Ordered<T const, D> full, Ordered<T, D> slice, Where) {
    check_sizes("reduce_scatter", full.view().size(), slice.view().size(), 1);
    transfer(full.view(), slice);
  }
  /// Nothing: the sum over one rank.
  template <class T>
  void all_reduce(Ordered<T, D>, Where) {}

 private:
  template <class T>
  static void transfer(View<T const, D> from, Ordered<T, D> to) {
    if (from.address() != to.view().address()) copy(to.stream(), to.view(), from);
  }

  std::shared_ptr<D> device_;
};

static_assert(CanAllGather<SingleRank<>, bf16> && CanReduceScatter<SingleRank<>, float> &&
              CanAllReduce<SingleRank<>, bf16>);

}  // namespace zero
