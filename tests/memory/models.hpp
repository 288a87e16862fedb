// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the memory proofs train.

#include <zero/model/visit.hpp>

#include <string>
#include <utility>
#include <vector>

namespace memory {

using zero::Index;
using zero::Phase;

inline zero::Tensor tensor(std::string name, std::vector<Index> shape, bool trainable = true) {
  return {.name = std::move(name), .shape = std::move(shape), .trainable = trainable};
}

/// Sizes that nothing divides, an empty tensor, a frozen one, a unit of one element.
inline zero::Units odd_units() {
  return {{"a", {tensor("a.0", {13, 70}), tensor("a.1", {65})}},
          {"b", {tensor("b.0", {300}), tensor("b.1", {77}, false)}},
          {"c", {tensor("c.0", {0}), tensor("c.1", {1})}},
          {"d", {tensor("d.0", {64, 3}), tensor("d.1", {3})}}};
}

/// Units of one tensor of n elements each.
inline zero::Units equal_units(int count, Index n) {
  zero::Units units;
  for (int u = 0; u < count; ++u)
    units.push_back({"u" + std::to_string(u), {tensor("t" + std::to_string(u), {n})}});
  return units;
}

/// A small GPT: an embedding that is also the head, blocks, a final norm.
inline zero::Units gpt_units(int layers, Index width, Index vocabulary, Index context) {
  zero::Units units{
      {"embedding", {tensor("wte", {vocabulary, width}), tensor("wpe", {context, width})}}};
  for (int l = 0; l < layers; ++l) {
    std::string const h = "h." + std::to_string(l);
    units.push_back(
        {h,
         {tensor(h + ".ln_1.weight", {width}), tensor(h + ".ln_1.bias", {width}),
          tensor(h + ".attn.weight", {width, 3 * width}), tensor(h + ".attn.bias", {3 * width}),
          tensor(h + ".proj.weight", {width, width}), tensor(h + ".proj.bias", {width}),
          tensor(h + ".ln_2.weight", {width}), tensor(h + ".ln_2.bias", {width}),
          tensor(h + ".fc.weight", {width, 4 * width}), tensor(h + ".fc.bias", {4 * width}),
          tensor(h + ".out.weight", {4 * width, width}), tensor(h + ".out.bias", {width})}});
  }
  units.push_back({"ln_f", {tensor("ln_f.weight", {width}), tensor("ln_f.bias", {width})}});
  return units;
}

/// Forward, the embedding again as the head, and all the way back.
inline zero::Schedule tied_schedule(int num_units) {
  zero::Schedule schedule = zero::default_schedule(num_units);
  schedule.insert(schedule.begin() + num_units, {{0, Phase::forward}, {0, Phase::backward}});
  return schedule;
}

}  // namespace memory
