// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains given gradients with any optimizer of the menu and any way of storing its numbers, at any
// stage and world, on the test devices, chosen by values. Each device and stage is compiled once,
// in run_as.cpp.

#include <zero/optim/adagrad.hpp>
#include <zero/optim/adam.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/decision.hpp>
#include <zero/optim/lamb.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/sgd.hpp>
#include <zero/policy/options.hpp>

#include <support/model_spec.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace optimizers {

using zero::at;
using zero::Index;

enum class Device { host, late, guarded };

/// Precision and type of the states.
enum class Storage {
  floats,        ///< Fp32
  mixed,         ///< Bf16Mixed
  split,         ///< Bf16Split
  short_states,  ///< Fp32, State<bf16>
  all_short,     ///< Bf16Split, State<bf16>
  half           ///< Fp16Mixed
};

using AnyOptimizer =
    std::variant<zero::AdamW, zero::Adam, zero::Lamb, zero::Lion, zero::Adagrad, zero::Sgd>;

struct Setup {
  AnyOptimizer optimizer = zero::AdamW{};
  Storage storage = Storage::floats;
  Device device = Device::host;
  int stage = 0;
  int world = 1;
  int steps = 3;
  bool same_gradients = false;  ///< rank 0's, on every rank
  int bad_step = -1;            ///< a gradient is infinite in this one
  zero::Options options{.clip = 4};
};

/// Elements by tensor, in order of description; empty where a tensor is frozen.
using Tensors = std::vector<std::vector<float>>;

struct AfterStep {
  Tensors weights;
  std::array<Tensors, 2> states;          ///< empty beyond what the optimizer keeps
  std::vector<zero::Decision> decisions;  ///< by rank
};

/// What one rank counted.
struct Numbers {
  std::uint64_t hash = 0;
  Index planned_bytes = 0;
  Index peak_bytes = 0;
  Index state_bytes = 0;  ///< "optimizer state" of the ledger
  Index late_allocations = 0;
  Index doubles = 0;  ///< sent in the last step in phases clip and update
  Index planned_doubles = 0;
  Index update_collectives = 0;  ///< of phase update, in the last step
};

struct Outcome {
  std::vector<AfterStep> steps;
  std::vector<Numbers> ranks;
  std::vector<Tensors> parameters;  ///< by rank, as a visit shows them at the end
};

/// What is trained: tied, frozen, empty and tiny tensors, some cut by slice borders.
zero::Units const& units();
/// Gradient of a trainable element, counted over all tensors, in a step on one rank.
float gradient(int step, int rank, Index element);

/// @throws what a rank threw
Outcome run(Setup const& setup);

/// One device and stage; see run_as.cpp.
template <int DeviceNumber, int Stage>
Outcome run_as(Setup const& setup);

}  // namespace optimizers
