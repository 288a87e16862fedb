// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sum of one element's gradients over ranks and micro-batches, written out for any arithmetic:
// in float it is what the library must give to the bit, in Tracked it is the true sum with a bound
// on that float's distance. Faults can be planted in it.

#include <equivalence/plain_loop.hpp>
#include <equivalence/tracked.hpp>

#include <vector>

namespace zero_test {

/// Where a sum is added and rounded on its way.
struct Path {
  bool halves = false;       ///< gradients and wire are bf16
  bool accumulates = false;  ///< float accumulators hold the sums
  bool boundary = true;      ///< micro-batches are added before ranks are
};

enum class Fault {
  none,
  sixteen_bit_sum,  ///< running sums are kept in 16 bits
  rounded_twice,    ///< the sum, rounded, is turned into a mean and that is rounded again
  rounded_early,    ///< what goes on the wire has been rounded to 16 bits
  rank_missing,
  rank_twice
};

inline float to_16_bits(float x) { return static_cast<float>(PlainHalf(x)); }
inline Tracked to_16_bits(Tracked const& x) { return x.rounded(u16); }

/// What running sums are kept in.
template <class T>
T kept(T const& sum, Fault fault) {
  return fault == Fault::sixteen_bit_sum ? to_16_bits(sum) : sum;
}

/// In rank order, in float, rounded once where the wire is short; a single rank has no wire.
template <class T>
T over_ranks(std::vector<T> const& values, Path path, Fault fault) {
  std::size_t const world = values.size();
  if (world == 1) return values[0];
  auto const sent = [&](std::size_t r) {
    return fault == Fault::rounded_early ? to_16_bits(values[r]) : values[r];
  };
  T sum = sent(0);
  for (std::size_t r = 1; r < world; ++r) {
    if (fault == Fault::rank_missing && r + 1 == world) continue;
    sum = kept(sum + sent(r), fault);
    if (fault == Fault::rank_twice && r + 1 == world) sum = kept(sum + sent(r), fault);
  }
  return path.halves ? to_16_bits(sum) : sum;
}

/// @param given [micro-batch][rank]
template <class T>
T reduced(std::vector<std::vector<T>> const& given, Path path, Fault fault = Fault::none) {
  std::size_t const world = given[0].size();
  T sum{};
  if (path.accumulates && path.boundary) {
    std::vector<T> of_rank = given[0];
    for (std::size_t r = 0; r < world; ++r) {
      for (std::size_t m = 1; m < given.size(); ++m)
        of_rank[r] = kept(of_rank[r] + given[m][r], fault);
      if (path.halves && world > 1) of_rank[r] = to_16_bits(of_rank[r]);
    }
    sum = over_ranks(of_rank, path, fault);
  } else {
    sum = over_ranks(given[0], path, fault);
    for (std::size_t m = 1; m < given.size(); ++m)
      sum = kept(sum + over_ranks(given[m], path, fault), fault);
  }
  if (fault == Fault::rounded_twice) {
    float const count = static_cast<float>(world * given.size());
    sum = to_16_bits(sum * T(1 / count)) * T(count);
  }
  return sum;
}

/// The greatest error in parts of its bound.
class Ratio {
 public:
  void add(double found, Tracked const& expected) {
    double const distance = std::fabs(found - expected.value);
    double const bound = expected.error * slack;
    if (distance == 0) return;
    double const ratio = bound > 0 ? distance / bound : HUGE_VAL;
    if (!(ratio <= greatest_)) greatest_ = ratio;
  }
  double greatest() const { return greatest_; }

 private:
  double greatest_ = 0;
};

}  // namespace zero_test
