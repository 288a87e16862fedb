// SPDX-License-Identifier: Apache-2.0
#pragma once
// The first pass of an update with trust ratios: sums of squares of each tensor's weights and
// directions. Nothing is moved; the second pass computes the same directions again, which costs
// arithmetic where keeping them would cost 4 bytes an element.

#include <zero/device/host_elementwise.hpp>
#include <zero/optim/optimizer.hpp>

namespace zero {

namespace detail {

inline constexpr Index norm_tile = 4096;  // elements
inline constexpr int norm_lanes = 16;     // running sums of a tile

/// Of at most one tile: element i goes to sum i mod 16, sums are added pairwise by halves.
inline double squares_of_norm_tile(float const* x, Index n) {
  double sums[norm_lanes] = {};
  for (Index i = 0; i < n; ++i) {
    double const v = static_cast<double>(x[i]);
    sums[i % norm_lanes] += v * v;
  }
  for (int width = norm_lanes / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; ++k) sums[k] += sums[k + width];
  }
  return sums[0];
}

}  // namespace detail

/// sums[(slices.first + k) * tensors + trained] = {sum of weight^2, sum of direction^2} of the k-th
/// slice, for every tensor that has elements in it; other entries are left alone. Sums are in
/// double and in an order that depends only on where the tensor's elements lie in the slice: tiles
/// of 4096 from the first one, in a tile sixteen running sums added pairwise, tiles in order. So
/// they are the same whether a rank measures its own slice or all of them. Touches nothing when the
/// decision skips.
template <class O, class G, class P, RunsHostCode D>
void measure_norms(typename D::Stream& stream, Update<O, G, P, D> u, View<double, D> sums,
                   NormSlices slices) {
  stream.enqueue([u, sums, slices] {
    Decision const decision = *D::resolve(u.decision.address());
    if (decision.skip != 0) return;
    ElementUpdate<O, G, P> part = detail::resolve(u, decision);
    Segment const* const segments = D::resolve(u.segments.address());
    double* const to = D::resolve(sums.address());
    constexpr Index tile = detail::norm_tile;
    float weights[tile];
    float directions[tile];
    for (Index s = 0; s < slices.count; ++s) {
      for (Index k = 0; k < u.segments.size(); ++k) {
        part.segment = segments[k];
        Index const begin = std::max(part.segment.begin, s * slices.elements);
        Index const end = std::min(part.segment.end, (s + 1) * slices.elements);
        if (begin >= end) continue;
        double squares[2] = {0, 0};
        for (Index first = begin; first < end; first += tile) {
          Index const n = std::min(tile, end - first);
          for (Index i = 0; i < n; ++i) {
            float state[O::num_states > 0 ? O::num_states : 1];
            weights[i] = part.weight(first + i);
            directions[i] = part.direction(first + i, state);
          }
          squares[0] += detail::squares_of_norm_tile(weights, n);
          squares[1] += detail::squares_of_norm_tile(directions, n);
        }
        double* const entry = to + 2 * ((slices.first + s) * slices.tensors + part.segment.trained);
        entry[0] = squares[0];
        entry[1] = squares[1];
      }
    }
  });
}

}  // namespace zero
