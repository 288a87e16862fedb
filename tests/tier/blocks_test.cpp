// SPDX-License-Identifier: Apache-2.0
// A ring of blocks against a list of what was last written to each.
#include <zero/device/host.hpp>
#include <zero/tier/blocks.hpp>

#include <doctest/doctest.h>
#include <tier/io_faults.hpp>
#include <tier/late_writes.hpp>
#include <tier/run.hpp>

#include <memory>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tier_test;
using H = zero::HostSide<zero::Host>;
using zero::BlockUse;

constexpr int num_blocks = 8;

/// Blocks of different sizes in a file, but one that stays in memory.
zero::BlockPlan plan_of(Index ring) {
  zero::BlockPlan plan;
  plan.kind = "blocks";
  plan.memory.kind = "block memory";
  for (Index i = 0; i < num_blocks; ++i) plan.add(4000 * (i + 1), i == 2);
  plan.add_ring(ring);
  return plan;
}

/// @return how often a block did not hold what was last written to it
int misses(Index ring, std::shared_ptr<zero::Transfers> transfers, unsigned seed) {
  zero::Host device;
  H memory(device, zero::MemoryLock::none);
  zero::Ledger files("files");
  zero::BlockPlan const plan = plan_of(ring);
  zero::PlannedBuffer flag{"flag"};
  flag.add(sizeof(std::int32_t));
  zero::SlotArray<H> flags(memory, flag);
  auto stream = device.stream();
  std::int32_t* const raised = flags[0].template on<std::int32_t>(stream).view().address();
  *raised = 0;
  zero::Blocks<zero::Host, Tier::nvme> blocks(memory, plan, {folder(), 0, transfers, &files},
                                              {&flags[0], raised});
  std::mt19937 random(seed);
  auto const below = [&](unsigned n) { return static_cast<int>(random() % n); };
  std::vector<int> written(num_blocks, 0);
  int wrong = 0;
  auto const use_block = [&](int block, BlockUse use, bool reads, bool changes) {
    zero::Slot<H>& slot = blocks.open(block, reads, use);
    if (use == BlockUse::any || *raised == 0) {
      auto const claim = slot.template on<int>(stream);
      std::span<int> const all(claim.view().address(),
                               at(plan.blocks[at(block)].bytes) / sizeof(int));
      for (int const value : all) {
        if (reads && value != written[at(block)]) ++wrong;
      }
      if (changes) {
        ++written[at(block)];
        for (int& value : all) value = written[at(block)];
      }
    }
    blocks.close(block, changes, use);
  };
  for (int block = 0; block < num_blocks; ++block) use_block(block, BlockUse::any, false, true);
  for (int i = 0; i < 600; ++i) {
    if (below(20) == 0) *raised = 1 - *raised;
    BlockUse const use = below(2) == 0 ? BlockUse::any : BlockUse::update;
    for (int n = below(3); n > 0; --n) blocks.expect(below(num_blocks), use);
    bool const reads = below(4) != 0;
    use_block(below(num_blocks), use, reads, !reads || below(2) == 0);
  }
  return wrong;
}

}  // namespace

TEST_CASE("blocks hold what was last written, in any order of use, ahead of it, and over skips") {
  io_faults.clear();
  for (Index ring : {3, 4, 6}) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      CAPTURE(ring);
      CAPTURE(seed);
      CHECK(misses(ring, make_transfers(4, 4096), seed) == 0);
      CHECK(misses(ring, std::make_shared<LateWrites>(), seed) == 0);
    }
  }
}
