// SPDX-License-Identifier: Apache-2.0
#pragma once
// Blocks of state that are kept below the device: how large each is, which stay in host memory and
// where the others lie in a file. Known before anything is allocated.

#include <zero/device/slot_array.hpp>
#include <zero/policy/sharded.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace zero {

/// A set of blocks and the memory that they need: a slot for each that stays in host memory, then,
/// where there are others, a ring of slots, each as large as the largest of them.
struct BlockPlan {
  /// Where one block is.
  struct Block {
    Index bytes = 0;    ///< that are used
    Index slot = -1;    ///< of the host memory, where it stays there
    Index offset = -1;  ///< in the file, where it does not
  };
  /// What a file is read and written in multiples of.
  static constexpr Index sector_bytes = 4096;
  /// At the end of a block in a file: which block it is, and its how-manieth version. A file that
  /// was cut and has grown again holds zeros there.
  static constexpr Index stamp_bytes = 16;
  /// Of a block in a file.
  static constexpr Index stored_bytes(Index bytes) {
    return bytes == 0 ? 0 : round_up(bytes + stamp_bytes, sector_bytes);
  }

  PlannedBuffer memory{};       ///< of the host
  std::vector<Block> blocks{};  ///< in order
  Index file_bytes = 0;         ///< 0: there is no file
  Index ring = 0;               ///< slots behind those of blocks that stay
  std::string_view kind{};      ///< "optimizer state", in messages

  /// Appends a block. @param bytes of it @param stays in host memory
  void add(Index bytes, bool stays) {
    Block block{bytes, -1, -1};
    if (stays) {
      block.slot = static_cast<Index>(memory.slots.size());
      memory.add(bytes);
    } else {
      block.offset = file_bytes;
      file_bytes += stored_bytes(bytes);
    }
    blocks.push_back(block);
  }
  /// Adds the ring, once all blocks are there. @param count slots, at least 3
  void add_ring(Index count) {
    Index largest = 0;
    for (Block const& b : blocks) largest = std::max(largest, b.offset >= 0 ? b.bytes : 0);
    if (largest == 0) return;
    // Unbuffered transfers need memory that starts at a sector.
    memory.bytes = round_up(memory.bytes, sector_bytes);
    for (Index i = 0; i < count; ++i) memory.add(stored_bytes(largest));
    ring = count;
  }
};

}  // namespace zero
