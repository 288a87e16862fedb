// SPDX-License-Identifier: Apache-2.0
#pragma once
// Unit lists at random, with the sizes at which layouts go wrong: none, one, and around multiples
// of 64.

#include <zero/core/noise.hpp>
#include <zero/model/unit.hpp>

#include <array>
#include <string>

namespace shard_tests {

using zero::at;
using zero::Index;

/// Numbers at random, of one seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(seed) {}
  /// 0 to n - 1
  Index below(Index n) {
    return static_cast<Index>(zero::noise_bits(seed_, 0, next_++) % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t seed_;
  Index next_ = 0;
};

/// One to six units of up to six tensors; one tensor at least can be trained.
inline zero::Units random_units(std::uint64_t seed) {
  constexpr std::array<Index, 14> sizes{0, 0, 1, 2, 5, 63, 64, 65, 127, 128, 129, 640, 1000, 4096};
  Random random(seed);
  zero::Units units;
  Index const num_units = 1 + random.below(6);
  for (Index u = 0; u < num_units; ++u) {
    zero::Unit& unit = units.emplace_back(zero::Unit{"unit_" + std::to_string(u), {}});
    Index const num_tensors = random.below(7);
    for (Index i = 0; i < num_tensors; ++i) {
      Index const size =
          random.below(8) == 0 ? random.below(20'000) : sizes[at(random.below(std::ssize(sizes)))];
      unit.tensors.push_back({.name = unit.name + ".tensor_" + std::to_string(i),
                              .shape = {size},
                              .decay = static_cast<float>(random.below(3)),
                              .lr_scale = static_cast<float>(1 + random.below(3)) / 2.0f,
                              .trainable = random.below(4) != 0});
    }
  }
  units[at(random.below(num_units))].tensors.push_back({.name = "trained", .shape = {17}});
  return units;
}

}  // namespace shard_tests
