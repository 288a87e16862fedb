// SPDX-License-Identifier: Apache-2.0
// Blocks that pass through a ring: whoever opens one finds what was last kept of it, whatever steps
// are skipped and whatever is replaced between them.
#include <zero/core/noise.hpp>
#include <zero/device/host.hpp>
#include <zero/tier/blocks.hpp>

#include <doctest/doctest.h>
#include <tier/io_faults.hpp>
#include <tier/run.hpp>

#include <array>

namespace {

using namespace tier_test;
using zero::BlockUse;

using H = zero::HostSide<zero::Host>;
using Version = std::array<Index, 2>;  // of which block, and how often it was changed

/// Blocks in a file, used as an optimizer uses its tiles, and what each of them must hold.
class Tiles {
 public:
  Tiles(Index ring, Index count) : ring_(ring), expected_(at(count)) {
    plan_.kind = "tiles";
    plan_.memory.kind = "tile ring";
    for (Index t = 0; t < count; ++t) plan_.add(5000, false);  // two sectors, the stamp in the last
    plan_.add_ring(ring);
    *flag_.on(stream_).view().address() = 0;
    blocks_.emplace(memory_, plan_, zero::FileSystem{folder(), 0, make_transfers(3, 4096), &files_},
                    flag_);
    for (Index t = 0; t < count; ++t) use(t, false, BlockUse::any);
  }

  /// Opens a block, sees that it is the newest, and changes it.
  void use(Index t, bool reads, BlockUse use) {
    zero::Slot<H>& slot = blocks_->open(t, reads, use);
    {
      auto claim = slot.on<Version>(stream_);
      Version* const found = claim.view().address();
      if (!skipped_) {
        if (reads && *found != expected_[at(t)]) ++wrong_;
        expected_[at(t)] = {t, expected_[at(t)][1] + 1};
        *found = expected_[at(t)];
      }
    }
    blocks_->close(t, true, use);
  }
  void step(bool skipped) {
    skipped_ = skipped;
    *flag_.raised = skipped ? 1 : 0;
    for (Index t = 0; t + 1 < ring_; ++t) blocks_->expect(t, BlockUse::update);
    for (Index t = 0; t < size(); ++t) {
      use(t, true, BlockUse::update);
      blocks_->expect(t + ring_ - 1, BlockUse::update);
    }
    for (Index t = 0; t + 1 < ring_; ++t) blocks_->expect(t, BlockUse::any);
    skipped_ = false;
  }
  /// Replaces one, whatever has become of the step.
  void assign(Index t) { use(t, true, BlockUse::any); }

  Index size() const { return static_cast<Index>(expected_.size()); }
  /// Times that a block was not the newest.
  int wrong() const { return wrong_; }

 private:
  Index ring_;
  std::vector<Version> expected_;
  zero::Host device_;
  H memory_{device_, zero::MemoryLock::none};
  zero::Ledger files_{"files"};
  zero::BlockPlan plan_{};
  zero::HostSideBuffer<zero::Host> flag_bytes_ = memory_.allocate(4, "flag");
  zero::Slot<H> flag_slot_{flag_bytes_.address(), 4, memory_.event()};
  zero::StopFlag<zero::Host> flag_{&flag_slot_,
                                   reinterpret_cast<std::int32_t*>(flag_bytes_.address())};
  zero::HostStream stream_ = memory_.stream();
  std::optional<zero::Blocks<zero::Host, Tier::nvme>> blocks_;
  bool skipped_ = false;
  int wrong_ = 0;
};

}  // namespace

TEST_CASE("a block that is replaced beside a skipped step is the newest in the step after it") {
  io_faults.clear();
  SUBCASE("in a ring of 4") {
    Tiles tiles(4, 6);
    tiles.step(false);
    tiles.step(true);
    tiles.assign(1);
    tiles.step(true);
    tiles.step(false);
    CHECK(tiles.wrong() == 0);
  }
  SUBCASE("in a ring of 3") {
    Tiles tiles(3, 4);
    tiles.step(true);
    tiles.assign(1);
    tiles.step(true);
    tiles.step(false);
    CHECK(tiles.wrong() == 0);
  }
  SUBCASE("by replacements alone") {
    Tiles tiles(5, 8);
    tiles.step(true);
    for (Index t : {5, 2, 0, 6, 2, 6}) tiles.assign(t);
    tiles.step(false);
    CHECK(tiles.wrong() == 0);
  }
}

TEST_CASE("good and skipped steps and replacements in any order find the newest of each block") {
  io_faults.clear();
  for (int seed = 0; seed < 40; ++seed) {
    auto drawn = [seed, n = Index{0}](Index below) mutable {
      double const x = zero::noise_uniform(11, seed, n++);
      return std::min(static_cast<Index>(x * static_cast<double>(below)), below - 1);
    };
    Index const ring = 3 + drawn(3);
    Tiles tiles(ring, 1 + drawn(ring + 5));
    for (int action = 0; action < 60; ++action) {
      Index const kind = drawn(4);
      if (kind < 2) {
        tiles.step(kind == 0);
      } else {
        tiles.assign(drawn(tiles.size()));
      }
    }
    CAPTURE(seed);
    CHECK(tiles.wrong() == 0);
  }
}

TEST_CASE("a block that another slot still writes is read once it is written") {
  io_faults.clear();
  // 4 tiles in 3 slots: after a step, tile 0 is expected in the slot of tile 1, whose write is held
  // up, and tile 1 in the slot of tile 2.
  for (long call = 0; call < 16; ++call) {
    Tiles tiles(3, 4);
    tiles.step(false);
    io_faults.clear();
    io_faults.late = call;
    io_faults.late_ms = 30;  // much longer than all other calls together
    tiles.step(false);
    tiles.step(false);
    io_faults.clear();
    CAPTURE(call);
    CHECK(tiles.wrong() == 0);
  }
}
