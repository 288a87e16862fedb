// SPDX-License-Identifier: Apache-2.0
#pragma once
// Descriptions of test models: what there is to shard, and the order in which a chain uses it.

#include <zero/model/unit.hpp>
#include <zero/model/visit.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace zero_test {

/// A model of the test chain: units and the order in which the chain uses them.
struct ModelSpec {
  std::string name;
  zero::Units units;
  std::vector<int> chain;   ///< unit of each layer
  zero::Schedule schedule;  ///< what is declared

  zero::Index tensors() const {
    zero::Index n = 0;
    for (zero::Unit const& unit : units) n += static_cast<zero::Index>(unit.tensors.size());
    return n;
  }
};

/// Forward along the chain and back, every lease held over `held` further visits.
inline zero::Schedule there_and_back(std::vector<int> const& chain, int held = 0) {
  zero::Schedule schedule;
  for (std::size_t k = 0; k < chain.size(); ++k)
    schedule.push_back({chain[k], zero::Phase::forward, held});
  for (std::size_t k = chain.size(); k-- > 0;)
    schedule.push_back({chain[k], zero::Phase::backward, held});
  return schedule;
}

/// Each unit once, in order.
inline std::vector<int> each_once(zero::Units const& units) {
  std::vector<int> chain;
  for (std::size_t u = 0; u < units.size(); ++u) chain.push_back(static_cast<int>(u));
  return chain;
}

inline ModelSpec spec(std::string name, zero::Units units, std::vector<int> chain = {}) {
  if (chain.empty()) chain = each_once(units);
  zero::Schedule schedule = there_and_back(chain);
  return {std::move(name), std::move(units), std::move(chain), std::move(schedule)};
}

/// A tensor whose part in a layer is of about the layer's own size, whatever its shape.
inline zero::Tensor weight(std::string name, std::vector<zero::Index> shape) {
  zero::Tensor tensor{std::move(name), std::move(shape)};
  double const terms = std::fmax(1.0, static_cast<double>(tensor.elements()) / 5);
  tensor.initial = zero::Initial::uniform(-1 / std::sqrt(terms), 1 / std::sqrt(terms));
  return tensor;
}
inline zero::Tensor frozen(zero::Tensor tensor) {
  tensor.trainable = false;
  return tensor;
}
inline zero::Tensor scaled(zero::Tensor tensor, float decay, float lr_scale) {
  tensor.decay = decay;
  tensor.lr_scale = lr_scale;
  return tensor;
}

/// Sizes that no world divides, several tensors a unit, one of each precision's awkward counts.
inline ModelSpec ragged_sizes() {
  return spec("sizes that do not divide", {{"a", {weight("a.w", {7, 13}), weight("a.b", {13})}},
                                           {"b", {weight("b.w", {5, 11})}},
                                           {"c", {weight("c.w", {63}), weight("c.b", {65})}},
                                           {"d", {weight("d.w", {3, 43}), weight("d.b", {2})}}});
}

/// Tensors without elements: first, last and alone in a unit; a unit without tensors.
inline ModelSpec empty_tensors() {
  return spec("empty tensors", {{"a", {weight("a.e", {0, 4}), weight("a.w", {6, 4})}},
                                {"b", {weight("b.e", {4, 0})}},
                                {"c", {}},
                                {"d", {weight("d.w", {70}), weight("d.e", {0})}},
                                {"e", {frozen(weight("e.f", {0}))}}});
}

/// So little that most ranks of a large world own padding alone.
inline ModelSpec padding_only() {
  return spec("padding-only shards", {{"a", {weight("a.w", {3})}},
                                      {"b", {weight("b.w", {2}), weight("b.b", {1})}},
                                      {"c", {weight("c.w", {65})}}});
}

inline ModelSpec one_element_units() {
  zero::Units units;
  for (char const* name : {"a", "b", "c", "d", "e"})
    units.push_back({name, {weight(std::string(name) + ".w", {})}});
  return spec("one-element units", std::move(units));
}

/// One unit that is larger than the middle bucket and than a rank's part of everything else.
inline ModelSpec one_large() {
  return spec("a tensor larger than a bucket", {{"a", {weight("a.w", {20})}},
                                                {"b", {weight("b.w", {37, 59})}},
                                                {"c", {weight("c.w", {9})}},
                                                {"d", {weight("d.w", {31})}}});
}

/// The first unit again at the end, as a head that is tied to an embedding.
inline ModelSpec tied() {
  return spec("tied",
              {{"embedding", {weight("wte", {11, 7}), weight("wpe", {9})}},
               {"a", {weight("a.w", {8, 9})}},
               {"b", {weight("b.w", {41})}},
               {"norm", {weight("norm.w", {5})}}},
              {0, 1, 2, 3, 0});
}

/// Frozen tensors among trained ones, frozen units at either end and in the middle.
inline ModelSpec frozen_parts() {
  return spec("frozen",
              {{"a", {frozen(weight("a.f", {6, 6}))}},
               {"b", {weight("b.w", {19}), frozen(weight("b.f", {71})), weight("b.b", {4})}},
               {"c", {frozen(weight("c.f", {1})), frozen(weight("c.g", {130}))}},
               {"d", {frozen(weight("d.f", {3})), weight("d.w", {66})}},
               {"e", {frozen(weight("e.f", {2}))}}});
}

inline ModelSpec rates() {
  return spec("decay and rate a tensor",
              {{"a", {scaled(weight("a.w", {29}), 0, 1), scaled(weight("a.b", {64}), 1, 0.25f)}},
               {"b", {scaled(weight("b.w", {3, 67}), 0.5f, 3), scaled(weight("b.b", {1}), 2, 0)}},
               {"c", {weight("c.w", {12})}}});
}

/// All of the above in one model.
inline ModelSpec everything() {
  return spec("everything",
              {{"embedding", {weight("wte", {13, 11}), scaled(weight("wpe", {7}), 0, 0.5f)}},
               {"small", {weight("small.w", {})}},
               {"mixed",
                {weight("mixed.e", {0, 4}), frozen(weight("mixed.f", {69})),
                 weight("mixed.w", {5, 17}), scaled(weight("mixed.b", {17}), 0, 2)}},
               {"frozen", {frozen(weight("frozen.w", {6, 13}))}},
               {"large", {weight("large.w", {23, 31}), scaled(weight("large.b", {1}), 3, 1)}},
               {"empty", {weight("empty.w", {3, 0})}},
               {"norm", {scaled(weight("norm.w", {5}), 0, 1)}}},
              {0, 1, 2, 3, 4, 5, 6, 0});
}

inline std::vector<ModelSpec> all_specs() {
  return {ragged_sizes(), empty_tensors(), padding_only(), one_element_units(), one_large(),
          tied(),         frozen_parts(),  rates(),        everything()};
}

}  // namespace zero_test
