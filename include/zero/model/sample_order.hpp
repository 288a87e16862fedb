// SPDX-License-Identifier: Apache-2.0
#pragma once
// In which order a data set's samples are seen, and which rank sees which: a permutation keyed by
// (seed, epoch), dealt to the ranks one after the other. Nothing is stored: an order takes a few
// words at any number of samples, and a run that resumes starts at any place of an epoch without a
// walk to it.
//
// The permutation is a Feistel network (Luby, Rackoff: How to Construct Pseudorandom Permutations
// from Pseudorandom Functions, SIAM J. Comput. 17, 1988) over the numbers of enough bits, walked
// until it falls below n (Black, Rogaway: Ciphers with Arbitrary Finite Domains, CT-RSA 2002).

#include <zero/core/noise.hpp>
#include <zero/core/size.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace zero {

/// One rank's samples of one epoch, in order: a range of indices in [0, n).
///
/// Entry k is place first + k * world + rank of the epoch's permutation, first being 0 unless a run
/// goes on in the middle of an epoch of which other ranks, maybe of another number, have taken
/// `first` places. So when every rank takes its next
/// m entries, all ranks together take the next m * world places: a step over G samples takes the
/// same samples at every world that divides G. Every rank has floor((n - first) / world) entries,
/// so that none waits in a collective for a rank that has run out; the up to world - 1 samples that
/// are left over differ from epoch to epoch.
///
/// Equal on every rank, machine and run for equal arguments. An entry costs at most two evaluations
/// of the network on average, more below 128 samples, and never allocates.
class SampleOrder {
 public:
  /// Walks through the entries of an order, which outlives it.
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;  ///< standard
    using value_type = Index;                             ///< a sample's index
    using difference_type = std::ptrdiff_t;               ///< of entries
    using pointer = void;                                 ///< there is none
    using reference = Index;                              ///< values are made when asked for

    Iterator() = default;
    /// At an entry of `order`.
    Iterator(SampleOrder const& order, Index entry) : order_(&order), entry_(entry) {}

    Index operator*() const { return (*order_)[entry_]; }  ///< the sample at this entry
    /// To the next entry.
    Iterator& operator++() {
      ++entry_;
      return *this;
    }
    /// To the next entry; returns this one.
    Iterator operator++(int) {
      Iterator const before = *this;
      ++entry_;
      return before;
    }
    /// Of one order.
    bool operator==(Iterator const& other) const { return entry_ == other.entry_; }

   private:
    SampleOrder const* order_ = nullptr;
    Index entry_ = 0;
  };

  /// No samples.
  SampleOrder() = default;
  /// @throws InvalidArgument when n or epoch is negative, rank is not in [0, world), or first not
  /// in [0, n]
  SampleOrder(Index n, int rank, int world, std::uint64_t seed, Index epoch, Index first = 0)
      : n_(n), first_(first), rank_(rank), world_(world) {
    if (n < 0) throw InvalidArgument("sample_order: the number of samples is " + std::to_string(n));
    if (rank < 0 || rank >= world) {
      throw InvalidArgument("sample_order: there is no rank " + std::to_string(rank) +
                            " in a world of " + std::to_string(world));
    }
    if (epoch < 0) throw InvalidArgument("sample_order: the epoch is " + std::to_string(epoch));
    if (first < 0 || first > n) {
      throw InvalidArgument("sample_order: an epoch of " + std::to_string(n) +
                            " samples has no place " + std::to_string(first));
    }
    // Small domains have few permutations: with 8 bits or more even a handful of samples comes in
    // every order.
    auto const bits =
        static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n > 256 ? n - 1 : 255)));
    right_bits_ = bits / 2;
    left_bits_ = bits - right_bits_;
    for (std::size_t round = 0; round < keys_.size(); ++round) {
      keys_[round] = mix(mix(seed, static_cast<std::uint64_t>(epoch)), round);
    }
  }

  /// Number of entries: of samples that this rank sees in the epoch.
  Index size() const { return (n_ - first_) / world_; }
  bool empty() const { return size() == 0; }  ///< no entry
  /// @pre 0 <= entry < size()
  Index operator[](Index entry) const {
    auto place = static_cast<std::uint64_t>(first_ + entry * world_ + rank_);
    do {
      place = permuted(place);
    } while (place >= static_cast<std::uint64_t>(n_));
    return static_cast<Index>(place);
  }
  Iterator begin() const { return {*this, 0}; }     ///< at entry 0
  Iterator end() const { return {*this, size()}; }  ///< behind the last entry

 private:
  /// A bijection of the numbers of left_bits_ + right_bits_ bits: each round changes one half by a
  /// function of the other.
  std::uint64_t permuted(std::uint64_t x) const {
    std::uint64_t const left_mask = (std::uint64_t{1} << left_bits_) - 1;
    std::uint64_t const right_mask = (std::uint64_t{1} << right_bits_) - 1;
    std::uint64_t left = x >> right_bits_;
    std::uint64_t right = x & right_mask;
    for (std::size_t round = 0; round < keys_.size(); round += 2) {
      left ^= mix(keys_[round] ^ right) & left_mask;
      right ^= mix(keys_[round + 1] ^ left) & right_mask;
    }
    return left << right_bits_ | right;
  }

  Index n_ = 0;
  Index first_ = 0;
  int rank_ = 0;
  int world_ = 1;
  int left_bits_ = 0;
  int right_bits_ = 0;
  std::array<std::uint64_t, 6> keys_{};
};

/// One rank's samples of one epoch; see SampleOrder.
/// @param n samples of the data set
/// @param rank, world whose share, of how many ranks
/// @param seed, epoch key of the permutation: another one each epoch
/// @param first places of the epoch that have been taken, by all ranks together
/// @throws InvalidArgument when n or epoch is negative, rank is not in [0, world), or first not in
/// [0, n]
inline SampleOrder sample_order(Index n, int rank, int world, std::uint64_t seed, Index epoch,
                                Index first = 0) {
  return {n, rank, world, seed, epoch, first};
}

static_assert(std::forward_iterator<SampleOrder::Iterator>);

}  // namespace zero
