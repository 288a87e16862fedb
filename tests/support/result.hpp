// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run of the test model leaves behind: the trajectory as full tensors, put together from all
// ranks, and the numbers that ranks counted.

#include <zero/core/size.hpp>
#include <zero/optim/decision.hpp>
#include <zero/step/context.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace zero_test {

/// The type of parameters and gradients. Where a bool stands for it: whether it is bf16.
enum class Type { fp32, bf16, fp16 };
struct OfType {
  Type type = Type::fp32;
  OfType(Type t) : type(t) {}
  OfType(bool bf16) : type(bf16 ? Type::bf16 : Type::fp32) {}
  /// What a parameter of this type holds of a weight.
  float stored(float weight) const;
};

/// Elements by tensor, in the order of the model's description; empty where a tensor has none.
using Tensors = std::vector<std::vector<float>>;

/// What is trained, after a step.
struct Snapshot {
  int step = 0;  ///< steps made before it
  Tensors weights;
  std::array<Tensors, 2> moments;
  Tensors gradients;  ///< sums over ranks and micro-batches, as the update read them
};

/// What a step told every rank.
struct StepResult {
  std::vector<double> losses;       ///< by rank
  std::vector<double> evaluations;  ///< by rank
  std::vector<double> generations;  ///< by rank, the losses of three rounds in one pass
  std::vector<zero::Decision> decisions;
};

/// What one rank counted.
struct RankNumbers {
  zero::Index planned_bytes = 0;
  zero::Index peak_bytes = 0;        ///< of the ledger, over the whole run
  zero::Index late_allocations = 0;  ///< after step 1
  zero::Index extra_slots = 0;
  zero::Index reductions_in_evaluations = 0;
  zero::Index gathers_in_evaluations = 0;
  zero::Index wire_elements = 0;           ///< sent in the last step
  zero::Index planned_wire_elements = -1;  ///< -1: not known
  zero::Deviations deviations{};
  std::uint64_t parameters_hash = 0;
  double mean_loss = 0;  ///< of the trainer
  bool padding_is_zero = true;
  bool readers_agree = true;  ///< the trainer's readers with the slots
};

struct Result {
  std::vector<StepResult> steps;
  std::vector<Snapshot> snapshots;  ///< after each step that is watched, and the last one
  Tensors frozen;
  std::vector<Tensors> replicas;  ///< by rank, read through leases at the end
  std::vector<RankNumbers> ranks;
  std::vector<std::string> errors;  ///< by rank; empty where it came to its end
  double error_seconds = 0;         ///< from the start until every rank had failed
};

/// The first thing in which two trajectories differ, in words; empty where they are equal bit for
/// bit. Counted numbers are not compared.
std::string difference(Result const& a, Result const& b);

/// What is wrong with one run by itself, in words; empty: nothing. Ranks agree in decisions, hashes
/// and replicas; replicas are the weights; padding is 0; and, where passes kept the order, the plan
/// is the peak, nothing was allocated after step 1 and the wire carried what was planned.
std::string fault(Result const& result, OfType type);

/// The hash of all weights as docs/concepts.md defines it, from full tensors.
std::uint64_t hash_of(Result const& result, OfType type);

}  // namespace zero_test
