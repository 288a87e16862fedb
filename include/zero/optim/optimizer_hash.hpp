// SPDX-License-Identifier: Apache-2.0
#pragma once
// What ranks compare of their optimizers before step 1. Not the bytes of the object, whose padding
// may be anything, but what it does: its rate at many updates, and what it makes of many gradients.

#include <zero/core/hash.hpp>
#include <zero/optim/optimizer.hpp>

#include <bit>
#include <cmath>

namespace zero {

/// Equal for equal optimizers. Rates are taken at updates 2^k and 3 x 2^k, directions and states
/// over two updates from gradients of 2^-26 (which shows an epsilon of Adam's size) and 1, followed
/// by gradients of the other sign of many sizes (which show a beta even where only signs count),
/// and trust ratios, where there are such, at norms of many sizes.
/// What none of these show may be added by an optimizer's own `std::uint64_t hash() const`.
template <Optimizer O>
std::uint64_t hash(O const& optimizer) {
  Hash h;
  auto const add = [&h](float x) { h.add(std::uint64_t{std::bit_cast<std::uint32_t>(x)}); };
  h.add(Index{O::num_states});
  for (int k = 0; k < 40; ++k) {
    add(optimizer.learning_rate(Index{1} << k));
    add(optimizer.learning_rate(Index{3} << k));
  }
  for (float first : {1.0f, 0x1p-26f}) {
    for (int k = -64; k <= 64; ++k) {
      float const second = -first * std::exp2(static_cast<float>(k) / 8);
      float states[std::max(O::num_states, 1)] = {};
      add(optimizer.direction(optimizer.constants(1), 0.5f, first, states, 1));
      add(optimizer.direction(optimizer.constants(2), -0.75f, second, states, 2));
      for (float state : states) add(state);
    }
  }
  if constexpr (requires { optimizer.trust_ratio(1.0, 1.0); }) {
    for (int k = -40; k <= 40; ++k) add(optimizer.trust_ratio(std::ldexp(1.0, k), 1.0));
  }
  if constexpr (requires { optimizer.hash(); }) h.add(std::uint64_t{optimizer.hash()});
  return h.value();
}

}  // namespace zero
