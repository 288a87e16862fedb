// SPDX-License-Identifier: Apache-2.0
#pragma once
// The norm and the clip factor in double, from the gradients that the model adds and from nothing
// of the library.

#include <archetypes/rig.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace clip {

using zero::Index;
using zero::Phase;

inline zero::Tensor tensor(std::string name, std::vector<Index> shape, bool trainable = true) {
  return {.name = std::move(name), .shape = std::move(shape), .trainable = trainable};
}

/// Sizes that nothing divides, so that padding stands everywhere; an empty tensor; "b.1" and the
/// whole of "e" are frozen; "a" is visited twice by tied_schedule.
inline zero::Units units() {
  return {{"a", {tensor("a.0", {13, 70}), tensor("a.1", {65})}},
          {"b", {tensor("b.0", {300}), tensor("b.1", {77}, false), tensor("b.2", {1})}},
          {"c", {tensor("c.0", {0}), tensor("c.1", {1})}},
          {"d", {tensor("d.0", {64, 3}), tensor("d.1", {3})}},
          {"e", {tensor("e.0", {100}, false)}}};
}
inline zero::Schedule tied_schedule() {
  zero::Schedule schedule = zero::default_schedule(5);
  schedule.insert(schedule.begin() + 5, {{0, Phase::forward}, {0, Phase::backward}});
  return schedule;
}

/// A whole number from -3 to 3, other for each key; times 2^exponent.
///
/// Sums over at most 8 ranks, 3 micro-batches and 2 visits stay below 256 of these, which every
/// type of gradient holds exactly; so does every order of adding. What the library reports then
/// differs from the oracle by the rounding of doubles alone.
inline rig::GradientOf whole_numbers(int exponent = 0) {
  float const scale = std::ldexp(1.0f, exponent);
  return [scale](rig::Batch const& batch, int unit, Index t, Index element) {
    Index const key = 1000003 * (unit * 7 + t) + 31 * element + 17 * batch.rank + 5 * batch.number;
    return scale * static_cast<float>(static_cast<Index>(zero::mix(zero::at(key)) % 7) - 3);
  };
}

/// L2 norm of the mean over ranks and micro-batches of what a step adds: each trainable element
/// once, with the sum of all its visits.
inline double norm(rig::Setup const& setup, int world, Index micro_batches) {
  std::vector<int> visits(setup.units.size(), 0);
  for (zero::Visit const& visit : rig::schedule_of(setup))
    visits[zero::at(visit.unit)] += visit.phase == Phase::backward ? 1 : 0;
  double squares = 0;
  for (std::size_t u = 0; u < setup.units.size(); ++u) {
    for (std::size_t t = 0; t < setup.units[u].tensors.size(); ++t) {
      zero::Tensor const& tensor = setup.units[u].tensors[t];
      if (!tensor.trainable) continue;
      for (Index i = 0; i < tensor.elements(); ++i) {
        double sum = 0;
        for (int rank = 0; rank < world; ++rank) {
          for (Index m = 0; m < micro_batches; ++m) {
            sum += visits[u] * static_cast<double>(setup.gradient({rank, m}, static_cast<int>(u),
                                                                  static_cast<Index>(t), i));
          }
        }
        squares += sum * sum;
      }
    }
  }
  return std::sqrt(squares) / static_cast<double>(world * micro_batches);
}

/// What the gradient is multiplied by so that its norm is at most `limit`; 0: no limit.
inline double clip_factor(double norm, double limit) {
  return limit == 0 ? 1.0 : std::min(1.0, limit / (norm + 1e-6));
}

/// The decisions of all ranks after one step.
inline std::vector<zero::Decision> decisions(rig::Setup const& setup, int world,
                                             Index micro_batches) {
  std::vector<zero::Decision> result(zero::at(world));
  zero::launch<zero::Threads>(world, [&](auto communicator) {
    int const rank = communicator.rank();
    zero::CollectiveLog log;
    auto const trainer = rig::make(setup, rig::Ranks(communicator), log);
    std::vector<rig::Batch> batches;
    for (Index m = 0; m < micro_batches; ++m) batches.push_back({rank, m});
    trainer->step(batches);
    result[zero::at(rank)] = trainer->decision();
  });
  return result;
}

/// |a - b| in units of b's last place in double, about.
inline double last_places(double a, double b) {
  if (a == b) return 0;
  return std::abs(a - b) / (std::abs(b) * 2.2204460492503131e-16);
}

}  // namespace clip
