// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which slices a rank's file holds, from the manifest alone: what a save writes, and so where a
// load looks first. Headers have the last word: nothing in the format asks for this cut.

#include <zero/checkpoint/rank_file.hpp>
#include <zero/shard/layout.hpp>

namespace zero::detail {

/// The model of a manifest, as far as a layout needs it.
inline Units units_of(Manifest const& m) {
  Units units;
  for (CheckpointUnit const& unit : m.units) {
    Unit& to = units.emplace_back(Unit{unit.name, {}});
    for (CheckpointTensor const& t : unit.tensors) {
      Tensor tensor;
      tensor.name = t.name;
      tensor.shape = t.shape;
      tensor.trainable = t.trainable;
      to.tensors.push_back(std::move(tensor));
    }
  }
  return units;
}

/// The slices of a rank, in the order of their bytes.
/// @param state_type, parameter_type as files call them
inline std::vector<StoredSlice> slices_of_rank(Manifest const& m, Layout const& layout, Index rank,
                                               std::string_view state_type,
                                               std::string_view parameter_type) {
  std::vector<StoredSlice> slices;
  auto const add = [&](std::string const& kind, bool trainable, std::string_view type) {
    for (int u = 0; u < layout.size(); ++u) {
      Index const begin =
          trainable ? layout.slice_begin(u, rank) : layout.frozen_slice_begin(u, rank);
      Index const count = trainable ? layout.slice(u) : layout.frozen_slice(u);
      layout.pieces(u, trainable, begin, count, [&](PlacedTensor const&, Piece const& p) {
        CheckpointTensor const& t = m.units[at(u)].tensors[at(p.tensor_index)];
        slices.push_back({kind, t.name, t.shape, p.first, p.elements, std::string(type), 0});
      });
    }
  };
  add(std::string(checkpoint_kind::master), true, "F32");
  for (std::string const& state : m.optimizer.states)
    add(std::string(checkpoint_kind::state) + state, true, state_type);
  add(std::string(checkpoint_kind::parameter), false, parameter_type);
  return slices;
}

/// The cut that a save makes of a checkpoint's tensors.
class ExpectedSlices {
 public:
  /// @param manifest outlives this @throws InvalidArgument for units that no trainer has
  explicit ExpectedSlices(Manifest const& manifest)
      : manifest_(manifest), layout_(units_of(manifest), manifest.world) {
    for (int u = 0; u < layout_.size(); ++u) {
      for (std::size_t i = 0; i < layout_[u].tensors.size(); ++i)
        places_.emplace(manifest_.units[at(u)].tensors[i].name, Place{u, i});
    }
  }

  /// Whether a file holds these slices and no others, in this order, of whatever types.
  bool are(std::vector<StoredSlice> const& slices, std::size_t file) const {
    auto const same = [](StoredSlice const& a, StoredSlice const& b) {
      return a.kind == b.kind && a.tensor == b.tensor && a.first == b.first &&
             a.elements == b.elements;
    };
    return std::ranges::equal(
        slices, slices_of_rank(manifest_, layout_, static_cast<Index>(file), {}, {}), same);
  }
  /// Calls f(file) for each file with elements of [first, first + elements) of a tensor.
  template <class F>
  void for_each_file(std::string const& tensor, Index first, Index elements, F f) const {
    auto const found = places_.find(tensor);
    if (found == places_.end() || elements == 0) return;
    auto const [u, i] = found->second;
    PlacedTensor const& t = layout_[u].tensors[i];
    Index const slice = t.trainable ? layout_.slice(u) : layout_.frozen_slice(u);
    Index const last = (t.begin + first + elements - 1) / slice;
    for (Index rank = (t.begin + first) / slice; rank <= last; ++rank) f(at(rank));
  }

 private:
  struct Place {
    int unit;
    std::size_t tensor;
  };

  Manifest const& manifest_;
  Layout layout_;
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace zero::detail
