// SPDX-License-Identifier: Apache-2.0
#pragma once
// The element-wise work that the library asks of a device. It is found by argument-dependent lookup
// on View<T, D>, so a device brings its own functions beside its own type; devices that run host
// code share those in host_elementwise.hpp. All of it is enqueued on the stream it is given and
// returns at once.

#include <zero/core/dtype.hpp>
#include <zero/device/device.hpp>

namespace zero {

/// Work of a device for one precision:
/// - fill_zero(s, to): to[i] = 0
/// - assign(s, to, from): to[i] = from[i], through float, rounded once; sizes are equal
/// - add(s, to, from): to[i] += from[i] in float, rounded once
/// - copy_in(s, to, host), copy_out(s, host, from): `to.size()` elements of any trivially copyable
///   type from or to host memory that outlives the work
/// - add_squares(s, from, record, mark): record[0] += sum of from[i]^2, in double, in an order that
///   depends only on from.size() and on nothing else; where the sum is not finite,
///   record[1] = max(record[1], mark + 1). from.size() is a multiple of 64.
/// @tparam D the device; @tparam P type of parameters; @tparam G type of gradients
template <class D, class P, class G>
concept HasElementwise = Device<D> &&
    requires(typename D::Stream& s, View<P, D> p, View<G, D> g, View<float, D> f,
             View<double, D> record, P* host_p, G* host_g, float* host, double* host_record,
             Index mark) {
  fill_zero(s, p);
  fill_zero(s, g);
  fill_zero(s, f);
  fill_zero(s, record);
  assign(s, f, View<G const, D>(g));
  assign(s, g, View<float const, D>(f));
  assign(s, p, View<float const, D>(f));
  add(s, f, View<G const, D>(g));
  add(s, g, View<G const, D>(g));
  copy_in(s, g, host_g);
  copy_in(s, f, host);
  copy_in(s, record, host_record);
  copy_out(s, host_p, View<P const, D>(p));
  copy_out(s, host_g, View<G const, D>(g));
  copy_out(s, host, View<float const, D>(f));
  copy_out(s, host_record, View<double const, D>(record));
  add_squares(s, View<G const, D>(g), record, mark);
  add_squares(s, View<float const, D>(f), record, mark);
};

/// A device that copies within its memory: copy(s, to, from) gives `to` the bits of `from`; sizes
/// and types are equal. Steps need none; SingleRank does, where a collective's arguments differ.
/// @tparam D the device; @tparam T type of the elements
template <class D, class T>
concept CanCopy = Device<D> && requires(typename D::Stream& s, View<T, D> to) {
  copy(s, to, View<T const, D>(to));
};

}  // namespace zero
