// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who owns what. The only object that adds a size to an offset; everything else asks it.
// A unit is [trainable | frozen]; each tensor starts at a multiple of 64 elements; each part is
// padded to a multiple of world x 64 and cut into `world` equal slices, the r-th of which rank r
// owns at every stage. So stages share one owner map, and nothing has to divide by anything.

#include <zero/core/hash.hpp>
#include <zero/core/segment.hpp>
#include <zero/model/unit.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <vector>

namespace zero {

/// A tensor's place in the trainable, or frozen, part of its unit.
struct PlacedTensor {
  Index begin = 0;        ///< elements from the start of the part
  Index elements = 0;     ///< without padding
  Index number = 0;       ///< of the tensor in the model, in order of description
  bool trainable = true;  ///< in the trainable part
  float decay = 1;        ///< multiplies weight decay
  float lr_scale = 1;     ///< multiplies the learning rate
  Index trained = 0;      ///< its number among the tensors that are trained
};

/// A unit's parts and tensors.
struct PlacedUnit {
  std::string name;                   ///< of the model's unit
  Index trainable = 0;                ///< padded elements of the trainable part
  Index frozen = 0;                   ///< padded elements of the frozen part
  std::vector<PlacedTensor> tensors;  ///< in the model's order
};

/// A stretch of one tensor inside a range of a part.
struct Piece {
  Index tensor_index = 0;  ///< of the tensor in its unit
  Index first = 0;         ///< first element, counted in the tensor
  Index begin = 0;         ///< where it starts, counted in the range
  Index elements = 0;      ///< how many
};

/// Offsets and owners of every element of a model over `world` shards. Memory: tensors and units,
/// not ranks.
class Layout {
 public:
  /// @param units valid units (validate)
  /// @param world number of shards, at least 1
  /// @throws InvalidArgument as validate(units)
  Layout(Units const& units, Index world) : world_(world) {
    if (world < 1 || world > std::numeric_limits<int>::max()) {
      throw InvalidArgument("Layout: a world has 1 to 2^31 - 1 ranks, not " +
                            std::to_string(world));
    }
    validate(units);
    for (Unit const& unit : units) {
      PlacedUnit placed{unit.name, 0, 0, {}};
      placed.tensors.reserve(unit.tensors.size());
      for (Tensor const& tensor : unit.tensors) {
        Index& end = tensor.trainable ? placed.trainable : placed.frozen;
        described_.add(tensor.name).add(tensor.initial.hash());
        for (Index extent : tensor.shape) described_.add(extent);
        placed.tensors.push_back({end, tensor.elements(), tensors_++, tensor.trainable,
                                  tensor.decay, tensor.lr_scale, trained_tensors_});
        trained_tensors_ += tensor.trainable ? 1 : 0;
        end = round_up(end + placed.tensors.back().elements, alignment_elements);
      }
      placed.trainable =
          round_up(placed.trainable, checked_product(alignment_elements, world, "padding"));
      placed.frozen = round_up(placed.frozen, alignment_elements * world);
      trainable_ += placed.trainable;
      frozen_ += placed.frozen;
      units_.push_back(std::move(placed));
    }
  }

  int size() const { return static_cast<int>(units_.size()); }         ///< units
  Index world() const { return world_; }                               ///< ranks that own slices
  Index tensors() const { return tensors_; }                           ///< of all units
  Index trained_tensors() const { return trained_tensors_; }           ///< that have gradients
  PlacedUnit const& operator[](int u) const { return units_[at(u)]; }  ///< unit u, from 0

  /// Padded elements: of all trainable parts, of all frozen parts, of one whole unit.
  Index trainable() const { return trainable_; }
  Index frozen() const { return frozen_; }  ///< padded, of all units
  /// Of both parts, padded.
  Index elements(int u) const { return units_[at(u)].trainable + units_[at(u)].frozen; }

  /// Elements of one rank's slice of a unit's trainable, or frozen, part.
  Index slice(int u) const { return units_[at(u)].trainable / world_; }
  Index frozen_slice(int u) const { return units_[at(u)].frozen / world_; }  ///< of each rank
  /// Where rank r's slice starts in the trainable, or frozen, part.
  Index slice_begin(int u, Index rank) const { return rank * slice(u); }
  /// In the frozen part.
  Index frozen_slice_begin(int u, Index rank) const { return rank * frozen_slice(u); }

  /// Where tensor i of a unit starts in the whole unit.
  Index offset(int u, Index i) const {
    PlacedTensor const& t = units_[at(u)].tensors[at(i)];
    return t.begin + (t.trainable ? 0 : units_[at(u)].trainable);
  }

  /// Calls f(PlacedTensor, Piece) for each stretch of a tensor in [begin, begin + count) of a part.
  template <class F>
  void pieces(int u, bool trainable, Index begin, Index count, F f) const {
    std::vector<PlacedTensor> const& tensors = units_[at(u)].tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      PlacedTensor const& t = tensors[i];
      if (t.trainable != trainable) continue;
      Index const from = std::max(t.begin, begin);
      Index const to = std::min(t.begin + t.elements, begin + count);
      if (from < to) f(t, Piece{static_cast<Index>(i), from - t.begin, from - begin, to - from});
    }
  }

  /// The segments of elements [begin, begin + count) of a unit's trainable part; offsets count from
  /// `begin`.
  std::vector<Segment> segments(int u, Index begin, Index count) const {
    std::vector<Segment> result;
    pieces(u, true, begin, count, [&](PlacedTensor const& t, Piece const& p) {
      Index const end = std::min(round_up(p.begin + p.elements, alignment_elements), count);
      result.push_back({p.begin, end, t.number, p.first, t.decay, t.lr_scale, t.trained});
    });
    return result;
  }
  /// Most segments that any range of a unit can have.
  Index max_segments(int u) const {
    auto const& t = units_[at(u)].tensors;
    return std::count_if(t.begin(), t.end(),
                         [](PlacedTensor const& x) { return x.trainable && x.elements > 0; });
  }

  /// A hash of names, shapes, initial values (but for functions), places, decays and rates: equal
  /// on ranks that agree in these, and different, but for a collision of 64 bits, on others.
  std::uint64_t hash() const {
    Hash h = described_;
    h.add(world_);
    for (PlacedUnit const& unit : units_) {
      h.add(unit.name).add(unit.trainable).add(unit.frozen);
      for (PlacedTensor const& t : unit.tensors) {
        h.add(t.begin).add(t.elements).add(Index{t.trainable});
        h.add(std::uint64_t{std::bit_cast<std::uint32_t>(t.decay)})
            .add(std::uint64_t{std::bit_cast<std::uint32_t>(t.lr_scale)});
      }
    }
    return h.value();
  }

 private:
  Index world_;
  Hash described_{};  // what of the tensors is not kept
  std::vector<PlacedUnit> units_;
  Index trainable_ = 0;
  Index frozen_ = 0;
  Index tensors_ = 0;
  Index trained_tensors_ = 0;
};

}  // namespace zero
