// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trains given gradients with state in any tier, and says what came of it: chosen by values, each
// kind of trainer compiled once, in product.cpp, hostile.cpp and pairs_*.cpp.

#include <zero/optim/decision.hpp>
#include <zero/policy/options.hpp>
#include <zero/policy/sharded.hpp>

#include <support/model_spec.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace tier_test {

using zero::at;
using zero::Index;
using zero::Tier;

/// Where a trainer keeps what.
struct Place {
  int stage = 3;
  Tier optimizer = Tier::device;
  Tier parameters = Tier::device;
};

/// Tied, frozen, empty and tiny tensors, some cut by slice borders.
zero::Units const& units();
/// Gradient of a trainable element, counted over all tensors, in a micro-batch of a rank.
float gradient(int step, Index micro_batch, int rank, Index element);

struct Setup {
  Place place{};
  zero::Units const* model = &units();
  float (*gradient)(int step, Index micro_batch, int rank, Index element) = &tier_test::gradient;
  /// Called on each rank's thread after a step with the live bytes of all memories, if given.
  std::function<void(int rank, int step, Index live_bytes)> after_step{};
  int world = 1;
  int steps = 3;
  int bad_step = -1;  ///< a gradient is not finite in this one
  float bad_value = std::numeric_limits<float>::infinity();  ///< which it is instead
  int bad_rank = -1;                                         ///< whose it is; -1: the last one's
  Index bad_element = 0;                                     ///< counted over all tensors
  Index micro_batches = 1;  ///< of each step but the first, which has Options::accumulation
  zero::Options options{.clip = 4};
};

/// Elements by tensor, in order of description; empty where a tensor is frozen.
using Tensors = std::vector<std::vector<float>>;

struct AfterStep {
  Tensors weights;
  std::array<Tensors, 2> states;          ///< empty beyond what the optimizer keeps
  std::vector<zero::Decision> decisions;  ///< by rank
};

/// Bytes of one kind of memory of one rank.
struct Bytes {
  Index planned = 0;
  Index peak = 0;
  Index now = 0;
};

struct Numbers {
  std::uint64_t hash = 0;
  Index state_bytes = 0;  ///< "optimizer state" on the device
  Bytes device{};
  Bytes host{};
  Bytes nvme{};
  Bytes locked{};
  Index late_allocations = 0;  ///< in steps after the first, of all memories
  Index collectives = 0;       ///< of the last step
  Index wire_elements = 0;     ///< of the last step
  Index padding = 0;           ///< elements of it that are not 0, as leases show it at the end
};

struct Outcome {
  std::vector<AfterStep> steps;
  std::vector<Numbers> ranks;
  std::vector<Tensors> parameters;  ///< by rank, as a visit shows them at the end
};

/// A folder for files, of this process, made by the first call and removed at its end.
std::string const& folder();
/// The number of entries in a folder.
Index entries(std::string const& path);

/// The first thing in which two trajectories differ, in words; empty where they are equal bit for
/// bit.
std::string difference(Outcome const& a, Outcome const& b);
/// What is wrong with a run by itself, in words: ranks that disagree, a peak that is not the plan,
/// memory taken in a step after the first; empty: nothing.
std::string fault(Outcome const& outcome);

/// AdamW, bf16, on the host, at any place.
Outcome train_mixed(Setup const& setup);
/// AdamW, or descent without momentum, in float on the host, at places of stages 1 to 3 that have
/// optimizer state on the host, both kinds of state there or in files.
Outcome train_floats(Setup const& setup, float learning_rate, bool descends);
/// AdamW, bf16 and float, on a device that runs work late or guards its memory, at places that
/// hostile_places() lists.
Outcome train_late(Setup const& setup, bool bf16);
Outcome train_guarded(Setup const& setup, bool bf16);
std::vector<Place> hostile_places();

/// One row of the pairwise table.
struct Pair {
  std::string optimizer;
  std::string storage;
  Place place{};
  Outcome (*offloaded)(Setup const&) = nullptr;
  Outcome (*reference)(Setup const&) = nullptr;  ///< stage 0, on the device
};
std::vector<Pair> pairs_0();
std::vector<Pair> pairs_1();
std::vector<Pair> pairs_2();

}  // namespace tier_test
