// SPDX-License-Identifier: Apache-2.0
// How much a step reads from files and writes to them: all of the state once each way.
#include <zero/comm/single_rank.hpp>
#include <zero/device/host.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/step/trainer.hpp>

#include <cases/given_gradients.hpp>
#include <doctest/doctest.h>
#include <tier/io_faults.hpp>
#include <tier/late_writes.hpp>
#include <tier/run.hpp>

#include <map>
#include <mutex>
#include <string>

namespace {

using namespace tier_test;

/// Transfers that count the bytes of each file.
class Counted final : public zero::Transfers {
 public:
  struct Bytes {
    Index read = 0;
    Index written = 0;
  };

  void start(zero::Transfer& transfer) override {
    {
      std::lock_guard const lock(mutex_);
      Bytes& of = files_[transfer.file];
      (transfer.writes ? of.written : of.read) += transfer.bytes;
    }
    made_->start(transfer);
  }
  void wait(zero::Transfer& transfer) noexcept override { made_->wait(transfer); }
  char const* name() const noexcept override { return made_->name(); }

  /// What has been counted since the last call, of all files.
  Bytes taken() {
    std::lock_guard const lock(mutex_);
    Bytes all;
    for (auto const& [file, of] : files_) {
      all.read += of.read;
      all.written += of.written;
    }
    files_.clear();
    return all;
  }

 private:
  std::shared_ptr<zero::Transfers> made_ = make_transfers(4, 4096);
  std::mutex mutex_;
  std::map<int, Bytes> files_;
};

}  // namespace

TEST_CASE("writes as late as they may come, and reads as soon, give the bits of the device") {
  io_faults.clear();
  for (Place const& place : {Place{1, Tier::nvme}, Place{3, Tier::nvme, Tier::nvme},
                             Place{3, Tier::device, Tier::nvme}}) {
    for (int world : {1, 3}) {
      for (int buffers : {3, 4, 6}) {
        Setup setup{.place = place, .world = world, .bad_step = 1};
        Outcome const expected =
            train_mixed({.place = {place.stage}, .world = world, .bad_step = 1});
        setup.options.offload.tile_elements = 64;
        setup.options.offload.buffer_count = buffers;
        setup.options.offload.transfers = std::make_shared<LateWrites>();
        setup.options.prefetch = 2;
        CAPTURE(place.stage);
        CAPTURE(static_cast<int>(place.optimizer));
        CAPTURE(world);
        CAPTURE(buffers);
        CHECK(difference(train_mixed(setup), expected) == "");
      }
    }
  }
}

TEST_CASE("a step reads every tile once and writes it once, with any number of buffers") {
  io_faults.clear();
  zero::Units const units{{"a", {{.name = "a.w", .shape = {3000}}}},
                          {"b", {{.name = "b.w", .shape = {70}}}},
                          {"c", {{.name = "c.w", .shape = {1100}}}}};
  for (int buffers : {3, 4, 7}) {
    CAPTURE(buffers);
    auto const counted = std::make_shared<Counted>();
    zero::Host device;
    zero::SingleRank<zero::Host> communicator(device);
    zero::Options options;
    options.offload.nvme_path = folder();
    options.offload.tile_elements = 128;
    options.offload.buffer_count = buffers;
    options.offload.transfers = counted;
    zero::Trainer trainer{cases::GivenGradients{units},
                          communicator,
                          zero::AdamW{},
                          options,
                          zero::Sharded<1, zero::Offload<zero::OnNvme>>{},
                          zero::Bf16Mixed{}};
    Index const bytes = trainer.plan().tiers.nvme_bytes();
    CHECK(trainer.plan().tiers.tiles.size() == 24 + 1 + 9);  // of at most 128 elements
    CHECK(counted->taken().written == bytes);                // the initial state
    Index first = 0;  // tiles that come for the next step while its gradients are made
    for (Index tile = 0; tile + 1 < buffers; ++tile)
      first += zero::BlockPlan::stored_bytes(trainer.plan().tiers.state.blocks[at(tile)].bytes);
    std::vector<std::vector<float>> const batches{std::vector<float>(4170, 0.5f)};
    for (int step = 0; step < 3; ++step) {
      trainer.step(batches);
      trainer.synchronize();
      Counted::Bytes const of_step = counted->taken();
      CHECK(of_step.read == bytes + (step == 0 ? first : 0));
      CHECK(of_step.written == bytes);
    }
  }
}
