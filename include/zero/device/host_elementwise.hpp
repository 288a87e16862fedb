// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element-wise work for every device that runs host code. These loops are also the reference for
// other devices.

#include <zero/device/elementwise.hpp>
#include <zero/device/host.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace zero {

// Views of no elements may lie nowhere, and memset and memcpy take no null, even for no bytes.

/// to[i] = 0, on the stream, in the device's memory.
template <class T, RunsHostCode D>
void fill_zero(typename D::Stream& stream, View<T, D> to) {
  if (to.size() == 0) return;
  stream.enqueue([to] {
    std::memset(static_cast<void*>(D::resolve(to.address())), 0, at(to.size()) * sizeof(T));
  });
}

/// The bits of `from`, of equal size, on the stream, within the device's memory.
template <class T, RunsHostCode D>
void copy(typename D::Stream& stream, View<T, D> to, View<T const, D> from) {
  if (to.size() == 0) return;
  stream.enqueue([to, from] {
    std::memcpy(static_cast<void*>(D::resolve(to.address())), D::resolve(from.address()),
                at(to.size()) * sizeof(T));
  });
}

/// to[i] = from[i], through float, rounded once; sizes are equal. On the stream.
template <class A, class B, RunsHostCode D>
void assign(typename D::Stream& stream, View<A, D> to, View<B const, D> from) {
  stream.enqueue([to, from] {
    A* const a = D::resolve(to.address());
    B const* const b = D::resolve(from.address());
    for (Index i = 0; i < from.size(); ++i) a[i] = static_cast<A>(static_cast<float>(b[i]));
  });
}

/// to[i] += from[i] in float, rounded once; sizes are equal. On the stream.
template <class A, class B, RunsHostCode D>
void add(typename D::Stream& stream, View<A, D> to, View<B const, D> from) {
  stream.enqueue([to, from] {
    A* const a = D::resolve(to.address());
    B const* const b = D::resolve(from.address());
    for (Index i = 0; i < from.size(); ++i) {
      a[i] = static_cast<A>(static_cast<float>(a[i]) + static_cast<float>(b[i]));
    }
  });
}

/// to.size() elements from host memory, which outlives the work, on the stream.
template <class T, RunsHostCode D>
void copy_in(typename D::Stream& stream, View<T, D> to, T const* host) {
  if (to.size() == 0) return;
  stream.enqueue([to, host] {
    std::memcpy(static_cast<void*>(D::resolve(to.address())), host, at(to.size()) * sizeof(T));
  });
}

/// from.size() elements to host memory, which outlives the work, on the stream.
template <class T, RunsHostCode D>
void copy_out(typename D::Stream& stream, std::remove_const_t<T>* host, View<T, D> from) {
  if (from.size() == 0) return;
  stream.enqueue([host, from] {
    std::memcpy(static_cast<void*>(host), D::resolve(from.address()), at(from.size()) * sizeof(T));
  });
}

namespace detail {

/// Sum of x[i]^2 over n elements, n a multiple of 64: tiles of 4096, in a tile sixteen running sums
/// (element i goes to sum i mod 16) added pairwise; 64 tiles added in order are a group, 64 groups
/// a block, and blocks are added in order, so that a device can make many of these sums at once.
/// Squares of floats are exact in double and cannot overflow it, so the sum is finite exactly when
/// every element is.
template <class T>
double sum_of_squares(T const* x, Index n) {
  constexpr Index tile = 4096;
  constexpr int lanes = 16;
  constexpr Index fan = 64;
  double total = 0;
  double block = 0;
  double group = 0;
  Index tiles = 0;
  for (Index begin = 0; begin < n; begin += tile) {
    double sum[lanes] = {};
    Index const end = std::min(begin + tile, n);
    for (Index i = begin; i < end; i += lanes) {
      for (int k = 0; k < lanes; ++k) {
        double const v = static_cast<double>(static_cast<float>(x[i + k]));
        sum[k] += v * v;
      }
    }
    for (int width = lanes / 2; width > 0; width /= 2) {
      for (int k = 0; k < width; ++k) sum[k] += sum[k + width];
    }
    group += sum[0];
    ++tiles;
    if (tiles % fan == 0) block += std::exchange(group, 0.0);
    if (tiles % (fan * fan) == 0) total += std::exchange(block, 0.0);
  }
  return total + (block + group);
}

}  // namespace detail

/// record[0] += the sum of from[i]^2, in double, in an order that depends on from.size() alone, a
/// multiple of 64; record[1] = unit + 1 where that is not finite. On the stream.
template <class T, RunsHostCode D>
void add_squares(typename D::Stream& stream, View<T const, D> from, View<double, D> record,
                 Index unit) {
  stream.enqueue([from, record, unit] {
    double* const out = D::resolve(record.address());
    double const sum = detail::sum_of_squares(D::resolve(from.address()), from.size());
    out[0] += sum;
    if (!std::isfinite(sum)) out[1] = static_cast<double>(unit + 1);
  });
}

static_assert(HasElementwise<Host, float, float> && HasElementwise<Host, bf16, bf16> &&
              HasElementwise<Host, fp16, fp16>);
static_assert(CanCopy<Host, bf16> && CanCopy<Host, double>);

}  // namespace zero
