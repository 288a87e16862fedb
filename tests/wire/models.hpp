// SPDX-License-Identifier: Apache-2.0
#pragma once
// Units and schedules whose traffic differs: plain, tied, frozen, held, recomputed.

#include <zero/model/visit.hpp>

#include <string>
#include <vector>

namespace wire {

using zero::Index;
using zero::Phase;

struct Described {
  std::string name;
  zero::Units units;
  zero::Schedule schedule;
};

inline zero::Tensor tensor(std::string name, std::vector<Index> shape, bool trainable = true) {
  return {.name = std::move(name), .shape = std::move(shape), .trainable = trainable};
}

/// Sizes that nothing divides, an empty tensor and a unit of one element.
inline zero::Units plain_units() {
  return {{"a", {tensor("a.0", {13, 7}), tensor("a.1", {65})}},
          {"b", {tensor("b.0", {300})}},
          {"c", {tensor("c.0", {0}), tensor("c.1", {1})}},
          {"d", {tensor("d.0", {64, 3}), tensor("d.1", {3})}},
          {"e", {tensor("e.0", {129})}}};
}

/// Of these, "b" is frozen as a whole and "d" in part; "f" has nothing in it at all.
inline zero::Units frozen_units() {
  zero::Units units = plain_units();
  units[1].tensors[0].trainable = false;
  units[3].tensors[0].trainable = false;
  units.push_back({"f", {tensor("f.0", {0, 5}, false)}});
  return units;
}

inline std::vector<Described> models() {
  zero::Schedule tied = zero::default_schedule(5);
  tied.insert(tied.begin() + 5, {{0, Phase::forward}, {0, Phase::backward}});
  zero::Schedule held = zero::default_schedule(5);
  for (zero::Visit& visit : held) visit.held = 1;
  zero::Schedule recomputed;
  for (int u = 0; u < 5; ++u) recomputed.push_back({u, Phase::forward, u % 2});
  for (int u = 4; u >= 0; --u) {
    recomputed.push_back({u, Phase::forward, 1});
    recomputed.push_back({u, Phase::backward});
  }
  return {{"plain", plain_units(), {}},
          {"tied", plain_units(), tied},
          {"frozen", frozen_units(), {}},
          {"held", plain_units(), held},
          {"recomputed", frozen_units(), [&] {
             recomputed.push_back({5, Phase::forward});
             return recomputed;
           }()}};
}

}  // namespace wire
