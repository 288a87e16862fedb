// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values whose place a load takes, until it is decided that the load stays: so that what is
// verified goes into the trainer while the next blocks are being read, and comes out again where
// anything fails later, on whatever rank.

#include <zero/checkpoint/aligned_bytes.hpp>
#include <zero/checkpoint/load_plan.hpp>

namespace zero::detail {

/// What a load has displaced on this rank, kept in host memory in the types that a save would
/// store, from which every bit of weights, parameters and states comes back: 16-bit parameters are
/// their float weights, rounded. Memory: a tile, and bytes(), of which the system brings pages as
/// they are written: none for numbers that are all 0, as the optimizer's are before the first step.
class DisplacedValues {
 public:
  /// @param x,plan outlive this; nothing is taken yet
  DisplacedValues(TrainerAccess& x, LoadPlan const& plan) : x_(x), plan_(plan) {
    for (std::size_t need = 0; need < plan_.needs().size(); ++need) {
      LoadPlan::Target const& of = plan_.target(need);
      std::string_view const type = of.state >= 0  ? x_.state_type()
                                    : of.trainable ? std::string_view("F32")
                                                   : x_.parameter_type();
      places_.push_back({bytes_, type});
      bytes_ += of.piece.elements * bytes_of_type(type);
    }
  }

  Index bytes() const { return bytes_; }  ///< of all that a load displaces here

  /// Takes the memory. @throws OutOfMemory
  void reserve() { memory_ = AlignedBytes(bytes_); }
  /// Puts values into the trainer and keeps those that were there. Waits.
  /// @param need,first,values as SliceReader hands them out; no element twice
  void exchange(std::size_t need, Index first, std::span<float const> values) {
    Stretch const stretch{need, first, std::ssize(values)};
    taken_.push_back({stretch, keep(stretch)});
    write(stretch, values);
  }
  /// Puts everything back that exchange() has taken. Waits.
  void put_back() {
    for (; !taken_.empty(); taken_.pop_back()) {
      auto const& [stretch, kept] = taken_.back();
      tile_.assign(at(stretch.elements), 0.0f);
      if (kept) to_floats(places_[stretch.need].type, place(stretch), tile_);
      write(stretch, tile_);
    }
  }

 private:
  struct Place {
    Index begin;  // in memory_
    std::string_view type;
  };
  struct Stretch {
    std::size_t need;
    Index first;  // counted in the tensor
    Index elements;
  };
  struct Taken {
    Stretch stretch;
    bool kept;  // in memory_; else all its bits are 0
  };

  std::byte* place(Stretch const& s) const {
    Place const& of = places_[s.need];
    Index const skipped = s.first - plan_.target(s.need).piece.first;
    return memory_.data() + of.begin + skipped * bytes_of_type(of.type);
  }
  /// @return whether the values stand in memory; else all their bits are 0
  bool keep(Stretch const& s) {
    LoadPlan::Target const& of = plan_.target(s.need);
    FoundTensor const tensor{of.piece.unit, of.piece.tensor,
                             x_.layout()[of.piece.unit].tensors[at(of.piece.tensor)]};
    tile_.resize(at(s.elements));
    x_.read(of.number(), tensor, {}, of.begin(s.first), s.elements, tile_.data());
    if (are_zero(std::as_bytes(std::span(tile_)))) return false;
    std::string_view const type = places_[s.need].type;
    memory_.expect(place(s) - memory_.data(), s.elements * bytes_of_type(type));
    if (type == "F32") {
      std::memcpy(place(s), tile_.data(), tile_.size() * sizeof(float));
    } else {
      from_floats(type, tile_, stored_);  // exact: such a number is kept here in that type
      std::ranges::copy(stored_, place(s));
    }
    return true;
  }
  /// The first byte is, and each is as the one before.
  static bool are_zero(std::span<std::byte const> bytes) {
    return bytes.empty() || (bytes[0] == std::byte{0} &&
                             std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
  }
  void write(Stretch const& s, std::span<float const> values) {
    LoadPlan::Target const& to = plan_.target(s.need);
    x_.write(to.number(), to.piece.unit, to.trainable, {}, to.begin(s.first), values);
  }

  TrainerAccess& x_;
  LoadPlan const& plan_;
  std::vector<Place> places_;  // by need
  Index bytes_ = 0;
  AlignedBytes memory_;
  std::vector<Taken> taken_;
  std::vector<float> tile_;
  std::vector<std::byte> stored_;
};

}  // namespace zero::detail
