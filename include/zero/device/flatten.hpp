// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors that lie in buffers of a model's own, brought into a unit's flat range and back, and cast
// on the way: for models that cannot compute in the range itself.

#include <zero/device/host_elementwise.hpp>

#include <span>

namespace zero {

/// One tensor: its own buffer and where it starts in the flat range.
struct FlatPiece {
  void const* own = nullptr;  ///< the tensor's own buffer, [elements]
  Index begin = 0;            ///< elements from the start of the range
  Index elements = 0;         ///< of the tensor
};

/// Tensors of type T in the memory of D, const where they may only be read. Not owned.
template <class T, class D>
struct OwnBuffers {
  std::span<FlatPiece const> pieces{};  ///< in order of `begin`

  /// A piece's own buffer.
  View<T, D> view(FlatPiece const& piece) const {
    // Made from views of T by whoever fills the pieces in. NOLINTNEXTLINE(*-const-cast)
    return {static_cast<T*>(const_cast<void*>(piece.own)), piece.elements};
  }
};

/// to[begin + i] = own[i], or += where it adds, through float, rounded once; what no piece covers
/// is left alone. Devices that run kernels do it in one launch.
template <class G, class T, RunsHostCode D>
void flatten(typename D::Stream& stream, View<G, D> to, OwnBuffers<T const, D> from, bool adds) {
  for (FlatPiece const& piece : from.pieces) {
    View<G, D> const part = to.sub(piece.begin, piece.elements);
    if (adds) {
      add(stream, part, from.view(piece));
    } else {
      assign(stream, part, from.view(piece));
    }
  }
}

/// own[i] = from[begin + i], through float, rounded once.
template <class T, class P, RunsHostCode D>
void unflatten(typename D::Stream& stream, OwnBuffers<T, D> to, View<P const, D> from) {
  for (FlatPiece const& piece : to.pieces)
    assign(stream, to.view(piece), from.sub(piece.begin, piece.elements));
}

/// A device that brings tensors of type T into gradients of type G.
template <class D, class T, class G>
concept CanFlatten = Device<D> &&
    requires(typename D::Stream& s, View<G, D> to, OwnBuffers<T const, D> from) {
  flatten(s, to, from, true);
};
/// A device that brings parameters of type P into tensors of type T.
template <class D, class T, class P>
concept CanUnflatten = Device<D> &&
    requires(typename D::Stream& s, OwnBuffers<T, D> to, View<P const, D> from) {
  unflatten(s, to, from);
};

static_assert(CanFlatten<Host, float, bf16> && CanUnflatten<Host, float, bf16>);

}  // namespace zero
