// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one rank keeps below the device: every buffer of host memory and every file, named and sized
// before anything is allocated. What is allocated is exactly this.

#include <zero/core/argument.hpp>
#include <zero/optim/decision.hpp>
#include <zero/policy/offload.hpp>
#include <zero/shard/layout.hpp>
#include <zero/tier/block_plan.hpp>

#include <array>
#include <string>
#include <vector>

namespace zero {

/// Which units have their state below the device: so many, spread over the model, that the share of
/// the elements up to any unit is as near to the ratio as units allow.
/// @param elements of each unit, in order
/// @param ratio 0 to 1
inline std::vector<bool> units_below(std::vector<Index> const& elements, double ratio) {
  std::vector<bool> below;
  Index seen = 0;
  Index taken = 0;
  for (Index n : elements) {
    seen += n;
    double const wanted = ratio * static_cast<double>(seen) - static_cast<double>(taken);
    below.push_back(2 * wanted >= static_cast<double>(n));
    taken += below.back() ? n : 0;
  }
  return below;
}

/// @throws InvalidArgument naming the option, what was found and what was expected
inline void validate(OffloadOptions const& o) {
  std::string const name = "Options::offload.";
  require_argument(o.tile_elements >= 0, name + "tile_elements", o.tile_elements,
                   "a number of elements, or 0");
  require_argument(o.ratio >= 0 && o.ratio <= 1, name + "ratio", o.ratio, "0 to 1");
  require_argument(o.buffer_count >= 3, name + "buffer_count", Index{o.buffer_count},
                   "at least 3 tiles: one that is read, one that is updated, one that is written");
  require_argument(o.max_in_cpu_elements >= 0, name + "max_in_cpu_elements", o.max_in_cpu_elements,
                   "a number of elements, or 0");
  require_argument(o.host_limit_bytes >= 0, name + "host_limit_bytes", o.host_limit_bytes,
                   "a number of bytes, or 0");
  require_argument(o.io_block_bytes >= 4096 && o.io_block_bytes % 4096 == 0,
                   name + "io_block_bytes", o.io_block_bytes, "a multiple of 4096 bytes");
  require_argument(o.io_threads >= 1 && o.io_threads <= 256, name + "io_threads",
                   Index{o.io_threads}, "1 to 256 threads");
}

/// A stretch of a unit's owned elements that is updated at once; its weights and states are one
/// block.
struct Tile {
  int unit = 0;             ///< of the model
  Index begin = 0;          ///< first element, in the rank's owned elements
  Index elements = 0;       ///< a multiple of 64
  Index first_segment = 0;  ///< where its segments may start in the table of all tiles
};

/// The buffers of one rank below the device, in bytes.
struct TierPlan {
  std::vector<Tile> tiles{};                  ///< of the units that are offloaded, in order
  std::vector<Index> first_tile{};            ///< of each unit, and one past the last
  BlockPlan state{};                          ///< a block a tile: weights, states, split parameters
  BlockPlan parameters{};                     ///< two blocks a unit: trainable and frozen slice
  PlannedBuffer gradients{"host gradients"};  ///< reduced slices, one slot a unit
  PlannedBuffer staging{"host staging"};      ///< gradients on their way down, parameters up
  PlannedBuffer tables{"host tables"};        ///< decisions, flag, sums of squares, norms, segments
  double ratio = 1;                           ///< OffloadOptions::ratio
  double share = 1;    ///< of optimizer state that is offloaded, as near to it as units allow
  bool locks = false;  ///< all of the host memory: OffloadOptions::pin_memory, or beside a GPU
  static constexpr Index gradient_staging = 2;   ///< slots of `staging`
  static constexpr Index parameter_staging = 3;  ///< slots of `staging` behind these

  TierPlan() = default;
  /// Of one rank.
  /// @param layout,shares what is owned and offloaded: a Shares
  /// @param pins CanPin<Device>: host memory is locked whatever is asked for
  /// @throws InvalidArgument as validate
  template <class Shares>
  TierPlan(Layout const& layout, Shares const& shares, bool pins = false) {
    auto const& f = shares.facts();
    if (f.optimizer_tier == Tier::device && f.parameter_tier == Tier::device) return;
    OffloadOptions const& options = shares.offload();
    validate(options);
    locks = pins || options.pin_memory != MemoryLock::none;
    state.kind = "optimizer state";
    parameters.kind = "parameters";
    bool const state_stays = f.optimizer_tier != Tier::nvme;
    state.memory.kind = state_stays ? "host optimizer state" : "host state tiles";
    parameters.memory.kind =
        f.parameter_tier != Tier::nvme ? "host parameters" : "host parameter tiles";
    Index const weight_bytes = f.has_master ? f.master_bytes : Index{sizeof(float)};
    bool const splits = f.has_master && f.master_bytes < Index{sizeof(float)};
    Index const element_bytes =
        weight_bytes + f.num_states * f.state_bytes + (splits ? f.parameter_bytes : 0);
    Index const tile = tile_elements(layout, shares);
    Index largest = 0;  // tile
    Index segments = 0;
    bool goes_up = false;  // parameters that lie on the device
    Index all = 0;
    Index offloaded = 0;
    Index in_cpu = options.max_in_cpu_elements;
    for (int u = 0; u < layout.size(); ++u) {
      first_tile.push_back(static_cast<Index>(tiles.size()));
      Index const owned = shares.offloads(u) ? shares.owned(u) : 0;
      all += shares.owned(u);
      offloaded += owned;
      // Norms of whole tensors are added in an order that tiles would change.
      Index const step = f.has_trust_ratio ? std::max(owned, Index{1}) : tile;
      for (Index begin = 0; begin < owned; begin += step) {
        Index const n = std::min(step, owned - begin);
        tiles.push_back({u, begin, n, segments});
        segments += layout.max_segments(u);
        state.add(n * element_bytes, state_stays);
        largest = std::max(largest, n);
      }
      gradients.add(owned * (shares.accumulates() ? Index{sizeof(float)} : f.gradient_bytes));
      goes_up = goes_up || (owned > 0 && !shares.stores_parameters(u));
      bool const stores = shares.stores_parameters(u);
      for (Index n : {layout.slice(u), layout.frozen_slice(u)}) {
        bool const stays = f.parameter_tier != Tier::nvme || n <= in_cpu;
        if (stores && stays) in_cpu -= n;
        parameters.add(stores ? n * f.parameter_bytes : 0, stays);
      }
    }
    first_tile.push_back(static_cast<Index>(tiles.size()));
    if (f.optimizer_tier != Tier::device && all > 0) {
      ratio = options.ratio;
      share = static_cast<double>(offloaded) / static_cast<double>(all);
    }
    state.add_ring(options.buffer_count);
    parameters.add_ring(options.buffer_count);
    for (Index i = 0; i < gradient_staging; ++i) staging.add(largest * f.gradient_bytes);
    for (Index i = 0; i < parameter_staging; ++i)
      staging.add(goes_up ? largest * f.parameter_bytes : 0);
    tables.add(sizeof(Decision));
    tables.add(sizeof(std::int32_t));
    tables.add(2 * Index{sizeof(double)});
    tables.add(layout.size() * norm_record_doubles * Index{sizeof(double)});
    tables.add(f.has_trust_ratio
                   ? layout.world() * layout.trained_tensors() * 2 * Index{sizeof(double)}
                   : 0);
    tables.add(segments * Index{sizeof(Segment)});
    tables.add(shares.mixes() ? layout.size() * norm_record_doubles * Index{sizeof(double)} : 0);
    tables.add(sizeof(Decision));
    tables.add(f.checks_gradients ? 0 : Index{sizeof(Decision)});
    Tier const of_files[] = {f.optimizer_tier, f.parameter_tier};
    for (Tier tier : of_files)  // whose files' streams look at the flag
      tables.add(tier == Tier::nvme ? Index{sizeof(std::int32_t)} : 0);
  }

  /// Most elements of a tile, a multiple of 64: OffloadOptions::tile_elements. 0: 2^24 or, in host
  /// memory, a thirty-second of what the rank keeps there, if that is more. A GPU takes about a
  /// thousand pieces of work of a stream ahead: with many tiles, what enqueues the next step's
  /// forward pass waits until most of them are updated. (A tile is never more than a unit.)
  template <class Shares>
  static Index tile_elements(Layout const& layout, Shares const& shares) {
    Index tile = shares.offload().tile_elements;
    if (tile == 0) {
      Index kept = 0;
      for (int u = 0; u < layout.size(); ++u) kept += shares.offloads(u) ? shares.owned(u) : 0;
      tile = Index{1} << 24;
      if (shares.facts().optimizer_tier == Tier::host) tile = std::max(tile, kept / 32);
    }
    return round_up(tile, alignment_elements);
  }
  /// All buffers of host memory, in the order in which they are shown.
  std::array<PlannedBuffer const*, 5> buffers() const {
    return {&parameters.memory, &gradients, &state.memory, &staging, &tables};
  }
  /// Of host memory, in all.
  Index host_bytes() const {
    Index n = 0;
    for (PlannedBuffer const* b : buffers()) n += b->bytes;
    return n;
  }
  /// Of host memory that is to be locked.
  Index locked_bytes() const { return locks ? host_bytes() : 0; }
  /// Of files, in all.
  Index nvme_bytes() const { return state.file_bytes + parameters.file_bytes; }
  /// "locked: 640 bytes a rank, 1280 bytes a process of 2 ranks, 2560 bytes a host of 4 ranks":
  /// a limit of locked memory counts a process, the memory that there is a host.
  /// @param of_process,of_host ranks of each
  std::string locked_text(int of_process, int of_host) const {
    auto const of = [&](char const* what, int ranks) {
      return ", " + std::to_string(ranks * locked_bytes()) + " bytes a " + what + " of " +
             std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
    };
    return "locked: " + std::to_string(locked_bytes()) + " bytes a rank" +
           of("process", of_process) + of("host", of_host);
  }
  /// "host parameters 128 bytes, ..., in all 640 bytes of host memory and 0 bytes in files", and
  /// with a ratio below 1 what share of the state whole units make of it.
  std::string text() const {
    std::string s;
    for (PlannedBuffer const* b : buffers())
      s += std::string(b->kind) + " " + std::to_string(b->bytes) + " bytes, ";
    return s + "in all " + std::to_string(host_bytes()) + " bytes of host memory and " +
           std::to_string(nvme_bytes()) + " bytes in files" +
           (ratio == 1
                ? ""
                : "; of the optimizer state " + std::to_string(share) +
                      " below the device, by whole units, for a ratio of " + std::to_string(ratio));
  }
};

}  // namespace zero
