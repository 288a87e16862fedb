// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ten elements of the adam table as a Training.

#include <cases/train.hpp>
#include <optim/trajectories.hpp>
#include <support/adam_table.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace cases {

inline zero::AdamW table_adamw() {
  return {.lr = static_cast<float>(adam_table::rates.lr),
          .beta1 = static_cast<float>(adam_table::rates.beta1),
          .beta2 = static_cast<float>(adam_table::rates.beta2),
          .eps = static_cast<float>(adam_table::rates.eps),
          .weight_decay = static_cast<float>(adam_table::rates.weight_decay)};
}

inline zero::Adam table_adam() {
  zero::AdamW const same = table_adamw();
  return {.lr = same.lr,
          .beta1 = same.beta1,
          .beta2 = same.beta2,
          .eps = same.eps,
          .weight_decay = same.weight_decay};
}

/// The table's steps [first, first + count) as rank `rank` contributes them: rank and micro-batch
/// each give their own share, and all shares have the mean 1.
inline Steps table_steps(int rank, int world, Index accumulation = 1, int first = 0,
                         int count = adam_table::num_steps) {
  Steps steps;
  for (int s = first; s < first + count; ++s) {
    MicroBatches& micro_batches = steps.emplace_back();
    for (Index a = 0; a < accumulation; ++a) {
      float const share =
          rank_share(rank, world) * rank_share(static_cast<int>(a), static_cast<int>(accumulation));
      GivenGradients::Batch& batch = micro_batches.emplace_back();
      for (double g : adam_table::gradients[at(s)]) batch.push_back(static_cast<float>(g) * share);
    }
  }
  return steps;
}

/// @param sizes of the tensors of each unit, ten elements in all
inline Training table_training(int stage, int world,
                               std::vector<std::vector<Index>> const& sizes = {{10}},
                               Index accumulation = 1) {
  return {.stage = stage,
          .world = world,
          .units = make_units(sizes, [](Index i) { return adam_table::initial[at(i)]; }),
          .optimizer = table_adamw(),
          .options = {.accumulation = accumulation},
          .steps = [=](int rank) { return table_steps(rank, world, accumulation); }};
}

/// Largest distance of weights and moments from the table over all steps.
/// @param clip the largest norm; 0: not clipped
inline double distance_from_table(Outcome const& outcome, double clip = 0) {
  adam_table::Reference reference(static_cast<int>(outcome.last().weights.size()));
  double largest = 0;
  for (int s = 0; s < std::ssize(outcome.steps); ++s) {
    reference.step(s, clip);
    std::vector<double> weights, m, v;
    for (adam_table::Element const& e : reference.elements()) {
      weights.push_back(e.weight);
      m.push_back(e.m);
      v.push_back(e.v);
    }
    AfterStep const& after = outcome.steps[at(s)];
    largest = std::max({largest, largest_difference(after.weights, weights),
                        largest_difference(after.m, m), largest_difference(after.v, v)});
  }
  return largest;
}

/// The same from a trajectory that stands in the table; elements go round it.
inline double distance_from(Outcome const& outcome, adam_table::Trajectory const& table) {
  double largest = 0;
  for (std::size_t s = 0; s < outcome.steps.size(); ++s) {
    AfterStep const& after = outcome.steps[s];
    std::vector<double> weights, m, v;
    for (std::size_t i = 0; i < after.weights.size(); ++i) {
      adam_table::Row const& row = table[s][i % adam_table::num_elements];
      weights.push_back(row.weight);
      if (!after.m.empty()) m.push_back(row.m);
      if (!after.v.empty()) v.push_back(row.v);
    }
    largest = std::max({largest, largest_difference(after.weights, weights),
                        largest_difference(after.m, m), largest_difference(after.v, v)});
  }
  return largest;
}

/// Whether every rank sees the same parameters, has the same hash and made the same decisions.
inline bool ranks_agree(Outcome const& outcome) {
  for (std::size_t r = 0; r < outcome.parameters.size(); ++r) {
    if (!same_bits(outcome.parameters[r], outcome.parameters[0])) return false;
    if (outcome.parameters_hash[r] != outcome.parameters_hash[0]) return false;
    for (AfterStep const& after : outcome.steps) {
      zero::Decision const& mine = after.ranks[r].decision;
      zero::Decision const& first = after.ranks[0].decision;
      if (std::memcmp(&mine.norm, &first.norm, sizeof mine.norm) != 0 ||
          mine.factor != first.factor || mine.skip != first.skip || mine.updates != first.updates ||
          mine.skipped != first.skipped || mine.bad_unit != first.bad_unit ||
          mine.learning_rate != first.learning_rate || mine.loss_scale != first.loss_scale)
        return false;
    }
  }
  return true;
}

/// Whether two runs went through the same weights and moments, bit for bit.
inline bool same_trajectory(Outcome const& a, Outcome const& b) {
  if (a.steps.size() != b.steps.size()) return false;
  for (std::size_t s = 0; s < a.steps.size(); ++s) {
    if (!same_bits(a.steps[s].weights, b.steps[s].weights) ||
        !same_bits(a.steps[s].m, b.steps[s].m) || !same_bits(a.steps[s].v, b.steps[s].v))
      return false;
  }
  return true;
}

}  // namespace cases
