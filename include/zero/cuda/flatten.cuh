// SPDX-License-Identifier: Apache-2.0
#pragma once
// flatten and unflatten: all tensors of a unit in one launch, whose parameters hold the table of
// where they lie. The host reference is in device/flatten.hpp; bits are the same.

#include <zero/cuda/cast.cuh>
#include <zero/device/flatten.hpp>

#include <array>

namespace zero {

namespace cuda::detail {

/// A tensor's two places and the first thread block that works on it.
struct FlatEntry {
  void const* own;
  Index begin;
  Index elements;
  unsigned int first_block;
};

/// Passed by value: a launch takes at most 32,764 bytes of parameters.
template <int Capacity>
struct FlatTable {
  FlatEntry entries[Capacity];
  int size;
  bool packed;
};
inline constexpr int flat_capacity_small = 24;  // what most units need, so that little is copied
inline constexpr int flat_capacity = 1000;
static_assert(sizeof(FlatTable<flat_capacity>) + 64 < 32764);

/// Bytes an element: as cast_block.
/// @tparam Own type of the tensors; @tparam Flat type of the flat range
/// @tparam In whether the tensors are read
template <bool In, bool Adds, class Own, class Flat, int Capacity>
__global__ void __launch_bounds__(block_threads)
    flatten_kernel(Flat* flat, __grid_constant__ FlatTable<Capacity> const table) {
  constexpr Index taken = Index{block_threads} * shared_width<Own, Flat> * cast_depth;
  int low = 0;
  int count = table.size;
  while (count > 1) {
    int const half = count / 2;
    if (table.entries[low + half].first_block <= blockIdx.x) low += half;
    count -= half;
  }
  FlatEntry const& entry = table.entries[low];
  Index const begin = Index{blockIdx.x - entry.first_block} * taken;
  if constexpr (In) {
    cast_block<Adds>(flat + entry.begin, static_cast<Own const*>(entry.own), begin, entry.elements,
                     table.packed);
  } else {
    cast_block<Adds>(static_cast<Own*>(const_cast<void*>(entry.own)),
                     static_cast<Flat const*>(flat) + entry.begin, begin, entry.elements,
                     table.packed);
  }
}

/// As many pieces as fit a table of this capacity. @return how many that were
template <bool In, bool Adds, int Capacity, class Own, class Flat>
std::size_t flatten_some(cudaStream_t stream, Flat* flat, std::span<FlatPiece const> pieces,
                         char const* name) {
  constexpr int width = shared_width<Own, Flat>;
  constexpr Index taken = Index{block_threads} * width * cast_depth;
  FlatTable<Capacity> table;
  table.size = 0;
  table.packed = true;
  Index grid = 0;
  std::size_t used = 0;
  for (; used < pieces.size() && table.size < Capacity; ++used) {
    FlatPiece const& piece = pieces[used];
    if (piece.elements == 0) continue;
    table.entries[table.size++] = {piece.own, piece.begin, piece.elements,
                                   static_cast<unsigned int>(grid)};
    table.packed = table.packed && aligned<width>(static_cast<Own const*>(piece.own)) &&
                   aligned<width>(flat + piece.begin);
    grid += blocks(piece.elements, taken, name);
  }
  if (grid == 0) return used;
  flatten_kernel<In, Adds, Own><<<blocks(grid, 1, name), block_threads, 0, stream>>>(flat, table);
  launched(name);
  return used;
}

template <bool In, bool Adds, class Own, class Flat>
void flatten_all(cudaStream_t stream, Flat* flat, std::span<FlatPiece const> pieces,
                 char const* name) {
  while (!pieces.empty()) {
    std::size_t const used =
        pieces.size() <= flat_capacity_small
            ? flatten_some<In, Adds, flat_capacity_small, Own>(stream, flat, pieces, name)
            : flatten_some<In, Adds, flat_capacity, Own>(stream, flat, pieces, name);
    pieces = pieces.subspan(used);
  }
}

}  // namespace cuda::detail

/// to[begin + i] = own[i], or += where it adds. One launch for up to 1000 tensors.
template <class G, class T, cuda::RunsKernels D>
void flatten(typename D::Stream& stream, View<G, D> to, OwnBuffers<T const, D> from, bool adds) {
  if (adds) {
    cuda::detail::flatten_all<true, true, T>(stream.native(), to.address(), from.pieces, "flatten");
  } else {
    cuda::detail::flatten_all<true, false, T>(stream.native(), to.address(), from.pieces,
                                              "flatten");
  }
}

/// own[i] = from[begin + i]. One launch for up to 1000 tensors.
template <class T, class P, cuda::RunsKernels D>
void unflatten(typename D::Stream& stream, OwnBuffers<T, D> to, View<P const, D> from) {
  cuda::detail::flatten_all<false, false, T>(stream.native(), const_cast<P*>(from.address()),
                                             to.pieces, "unflatten");
}

}  // namespace zero
