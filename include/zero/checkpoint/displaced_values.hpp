// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values whose place a load takes, until it is decided that the load stays: so that what is
// verified goes into the trainer while the next blocks are being read, and comes out again where
// anything fails later, on whatever rank.

#include <zero/checkpoint/load_plan.hpp>
#include <zero/checkpoint/staging_memory.hpp>

#include <exception>
#include <new>
#include <ranges>

namespace zero::detail {

/// What a load has displaced on this rank, kept in host memory in the types that a save would
/// store, from which every bit of weights, parameters and states comes back: 16-bit parameters are
/// their float weights, rounded. Memory: a tile, some words for each tile that was taken, and
/// bytes(), of which the system brings a page when a tile in it is kept: of numbers that are all 0,
/// as the optimizer's are before the first step, none is.
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

  /// Takes the memory, that of put_back() too.
  /// @param memory null: of its own, as long as this is there; else outlives this
  /// @throws OutOfMemory; CheckpointError where the memory is in use
  void reserve(StagingMemory* memory) {
    memory_ = StagingMemory::Use(memory == nullptr ? own_ : *memory, bytes_);
    Index longest = 0;
    for (NeededSlice const& need : plan_.needs()) longest = std::max(longest, need.elements);
    longest = std::min(longest, SliceReader::tile);
    try {
      tile_.reserve(at(longest));
      stored_.reserve(at(longest) * 2);  // of a type that is not float
    } catch (std::bad_alloc const&) {
      throw OutOfMemory("checkpoint: the host has no memory for a tile of " +
                        std::to_string(longest) + " elements");
    }
  }
  /// Puts values into the trainer and keeps those that were there. Waits.
  /// @param need,first,values as SliceReader hands them out; no element twice
  /// @throws what has failed in the trainer, which ends the work of all ranks; OutOfMemory where
  /// there is none to note what is taken, and then nothing was
  void exchange(std::size_t need, Index first, std::span<float const> values) {
    Stretch const stretch{need, first, std::ssize(values)};
    on_trainer([&] { read(stretch); });
    try {
      keep(stretch);
    } catch (std::bad_alloc const&) {
      NeededSlice const& of = plan_.needs()[need];
      throw OutOfMemory("checkpoint: the host has no memory to note that " + of.kind +
                        " of tensor '" + of.tensor + "' was taken from the trainer");
    }
    on_trainer([&] { write(stretch, values); });
  }
  /// Rethrows what exchange() has met in the trainer itself, if anything.
  void rethrow_of_trainer() const {
    if (of_trainer_) std::rethrow_exception(of_trainer_);
  }
  /// Puts everything back that exchange() has taken. Waits, also until files have taken what was
  /// put back to them; only of parameters of trained tensors in files the last blocks may still be
  /// under way, and what fails there is told by what next uses the trainer.
  void put_back() {
    for (auto const& [stretch, kept] : std::views::reverse(taken_)) {
      tile_.assign(at(stretch.elements), 0.0f);
      if (kept) to_floats(places_[stretch.need].type, place(stretch), tile_);
      write(stretch, tile_);
    }
    for (Taken const& taken : taken_) {  // before a block is read its file has taken it
      if (is_in_file(taken.stretch)) read(taken.stretch);
    }
    taken_.clear();
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

  /// A failure in f is the trainer's, and ends the work of all ranks.
  template <class F>
  void on_trainer(F f) {
    x_.guarded([&] {
      try {
        f();
      } catch (...) {
        of_trainer_ = std::current_exception();
        throw;
      }
    });
  }
  std::byte* place(Stretch const& s) const {
    Place const& of = places_[s.need];
    Index const skipped = s.first - plan_.target(s.need).piece.first;
    return memory_.bytes().data() + of.begin + skipped * bytes_of_type(of.type);
  }
  /// Notes that the trainer's values in the tile are taken; with the stretch before, if it goes on
  /// where that one ends: hand-outs may be of an element each. So of elements that come in their
  /// order there are at most two stretches a tile.
  void keep(Stretch const& s) {
    bool const zero = are_zero(std::as_bytes(std::span(tile_)));
    if (!taken_.empty()) {
      auto& [last, kept] = taken_.back();
      bool const goes_on = last.need == s.need && last.first + last.elements == s.first &&
                           last.elements + s.elements <= SliceReader::tile;
      if (goes_on && (kept || zero)) {
        if (kept) store(s);
        last.elements += s.elements;
        return;
      }
    }
    if (!zero) store(s);
    taken_.push_back({s, !zero});
  }
  void store(Stretch const& s) {
    std::string_view const type = places_[s.need].type;
    memory_.bytes().expect(place(s) - memory_.bytes().data(), s.elements * bytes_of_type(type));
    if (type == "F32") {
      std::memcpy(place(s), tile_.data(), tile_.size() * sizeof(float));
    } else {
      from_floats(type, tile_, stored_);  // exact: such a number is kept here in that type
      std::ranges::copy(stored_, place(s));
    }
  }
  /// The first byte is, and each is as the one before.
  static bool are_zero(std::span<std::byte const> bytes) {
    return bytes.empty() || (bytes[0] == std::byte{0} &&
                             std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
  }
  bool is_in_file(Stretch const& s) const {
    LoadPlan::Target const& of = plan_.target(s.need);
    Shares const& shares = x_.shares();
    return of.trainable
               ? shares.facts().optimizer_tier == Tier::nvme && shares.offloads(of.piece.unit)
               : shares.facts().parameter_tier == Tier::nvme &&
                     shares.stores_parameters(of.piece.unit);
  }
  /// Into the tile.
  void read(Stretch const& s) {
    LoadPlan::Target const& of = plan_.target(s.need);
    FoundTensor const tensor{of.piece.unit, of.piece.tensor,
                             x_.layout()[of.piece.unit].tensors[at(of.piece.tensor)]};
    tile_.resize(at(s.elements));
    x_.read(of.number(), tensor, {}, of.begin(s.first), s.elements, tile_.data());
  }
  void write(Stretch const& s, std::span<float const> values) {
    LoadPlan::Target const& to = plan_.target(s.need);
    x_.write(to.number(), to.piece.unit, to.trainable, {}, to.begin(s.first), values);
  }

  TrainerAccess& x_;
  LoadPlan const& plan_;
  std::vector<Place> places_;  // by need
  Index bytes_ = 0;
  StagingMemory own_;
  StagingMemory::Use memory_;
  std::vector<Taken> taken_;
  std::vector<float> tile_;
  std::vector<std::byte> stored_;
  std::exception_ptr of_trainer_;
};

}  // namespace zero::detail
