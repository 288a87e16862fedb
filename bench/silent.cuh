// SPDX-License-Identifier: Apache-2.0
#pragma once
// A communicator that can stop sending, so that a step is measured in which nothing is
// communicated, at the world's own size: slices, slots, streams and launches are those of the step
// that sends. One rank alone would update the slices of all.

#include <zero/comm/communicator.hpp>
#include <zero/device/elementwise.hpp>

#include <string_view>
#include <utility>

namespace bench {

using zero::Index;

/// Does what the communicator it wraps does, until it is told to be silent. From then on a
/// collective copies what is this rank's own and leaves the rest as it lies there: numbers of
/// earlier steps, finite, and good for nothing else. What is small, as the records of norms, is
/// filled with this rank's own instead, since steps are compared by it.
/// @tparam C the communicator it wraps
template <zero::Communicator C>
class Silent {
 public:
  using Device = typename C::Device;

  /// @param silent whether nothing is sent; outlives every copy, the same on all ranks
  Silent(C inner, bool const& silent) : inner_(std::move(inner)), silent_(&silent) {}

  int rank() const { return inner_.rank(); }
  int size() const { return inner_.size(); }
  Device& device() const { return inner_.device(); }
  Silent channel(int i) const { return {inner_.channel(i), *silent_}; }
  void abort(std::string_view text) const noexcept { inner_.abort(text); }

  template <class T>
  void all_gather(zero::Ordered<T const, Device> slice, zero::Ordered<T, Device> full,
                  zero::Where where) {
    if (!*silent_) return inner_.all_gather(slice, full, where);
    Index const n = slice.view().size();
    bool const fills = full.view().size() * Index{sizeof(T)} <= small_bytes;
    for (int r = 0; r < size(); ++r) {
      if (r == rank() || fills) keep(slice.view(), full.view().sub(r * n, n), full.stream());
    }
  }
  template <class T>
  void reduce_scatter(zero::Ordered<T const, Device> full, zero::Ordered<T, Device> slice,
                      zero::Where where) {
    if (!*silent_) return inner_.reduce_scatter(full, slice, where);
    Index const n = slice.view().size();
    keep(full.view().sub(rank() * n, n), slice.view(), slice.stream());
  }
  template <class T>
  void all_reduce(zero::Ordered<T, Device> full, zero::Where where) {
    if (!*silent_) inner_.all_reduce(full, where);
  }
  void group_start() requires zero::CanGroup<C> {
    if (!*silent_) inner_.group_start();
  }
  void group_end() requires zero::CanGroup<C> {
    if (!*silent_) inner_.group_end();
  }

 private:
  static constexpr Index small_bytes = 64 * 1024;

  template <class T>
  static void keep(zero::View<T const, Device> from, zero::View<T, Device> to,
                   typename Device::Stream& stream) {
    if (from.address() != to.address()) copy(stream, to, from);
  }

  C inner_;
  bool const* silent_;
};

}  // namespace bench
