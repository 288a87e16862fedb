// SPDX-License-Identifier: Apache-2.0
// What tiers take is what the plan says, falls from tier to tier on the device, and is given back.
#include <zero/core/error.hpp>
#include <zero/device/host.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/step/shares.hpp>
#include <zero/tier/host_side.hpp>
#include <zero/tier/tier_plan.hpp>
#include <zero/tier/tiers.hpp>

#include <doctest/doctest.h>
#include <support/death.hpp>
#include <sys/resource.h>
#include <tier/run.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace {

using namespace tier_test;

Index open_files() {
  Index n = 0;
  for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

std::string refusal(Setup const& setup) {
  try {
    train_mixed(setup);
  } catch (zero::OutOfMemory const& e) {
    return e.what();
  }
  return {};
}

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("device memory falls strictly: nothing offloaded, the optimizer, parameters as well") {
  for (int world : {1, 2, 4}) {
    for (Tier tier : {Tier::host, Tier::nvme}) {
      Index const none = train_mixed({.place = {3}, .world = world}).ranks[0].device.peak;
      Index const optimizer =
          train_mixed({.place = {3, tier}, .world = world}).ranks[0].device.peak;
      Setup both{.place = {3, tier, tier}, .world = world};
      both.options.prefetch = 0;
      Index const parameters = train_mixed(both).ranks[0].device.peak;
      CHECK(optimizer < none);
      CHECK(parameters < optimizer);
    }
  }
}

TEST_CASE("host memory holds what files do not: less of it on NVMe") {
  Setup setup{.place = {3, Tier::host, Tier::host}};
  setup.options.offload.tile_elements = 64;
  Numbers const host = train_mixed(setup).ranks[0];
  CHECK(host.nvme.peak == 0);
  setup.place = {3, Tier::nvme, Tier::host};
  setup.options.offload.buffer_count = 3;
  Numbers const nvme = train_mixed(setup).ranks[0];
  CHECK(nvme.nvme.peak > 0);
}

TEST_CASE("a hundred trainers, one after the other, leave no memory, no file and no descriptor") {
  for (Place const& place : {Place{1, Tier::host}, Place{3, Tier::nvme, Tier::nvme}}) {
    Setup const setup{.place = place, .steps = 1};
    train_mixed(setup);
    Index const files = open_files();
    for (int i = 0; i < 100; ++i) train_mixed(setup);
    CHECK(open_files() == files);
    CHECK(entries(folder()) == 0);
  }
}

TEST_CASE("a limit of host memory is held against the plan, whose buffers are named") {
  Setup setup{.place = {3, Tier::host, Tier::host}};
  Index const needed = train_mixed(setup).ranks[0].host.planned;
  setup.options.offload.host_limit_bytes = needed;
  CHECK(refusal(setup) == "");
  setup.options.offload.host_limit_bytes = needed - 1;
  std::string const said = refusal(setup);
  CHECK_MESSAGE(has(said, "the plan needs " + std::to_string(needed) +
                              " bytes of host memory a rank; OffloadOptions::host_limit_bytes is " +
                              std::to_string(needed - 1)),
                said);
  CHECK_MESSAGE(has(said, "host optimizer state "), said);
}

TEST_CASE("a plan that this machine has no memory for is refused before any of it is taken") {
  zero::Units const units{{"a", {{.name = "a.w", .shape = {Index{1} << 42}}}}};
  using P =
      zero::Policies<zero::Sharded<3, zero::Offload<zero::OnHost, zero::OnHost>>, zero::Bf16Mixed>;
  zero::Layout const layout(units, 1);
  zero::Shares const shares(layout, zero::Facts::of<P>(zero::AdamW::num_states), zero::Options{});
  zero::TierPlan const plan(layout, shares);
  zero::Host device;
  std::string said;
  try {
    zero::Tiers<zero::Host, P, zero::Shares> const tiers(device, layout, shares, plan, 0);
  } catch (zero::OutOfMemory const& e) {
    said = e.what();
  }
  CHECK_MESSAGE(has(said, "the plan needs " + std::to_string(plan.host_bytes()) +
                              " bytes of host memory a rank; this machine has "),
                said);
  // 2^42 elements: a weight and two states in float below the device, and the parameters.
  CHECK_MESSAGE(has(said, "host optimizer state " + std::to_string(Index{12} << 42)), said);
  CHECK_MESSAGE(has(said, "host parameters " + std::to_string(Index{2} << 42)), said);
}

TEST_CASE("locked memory is what was asked for, to the byte") {
  zero::Host device;
  zero::HostSide<zero::Host> side(device, zero::MemoryLock::required);
  {
    auto const buffer = side.allocate(5000, "host optimizer state");
    CHECK(side.locked().bytes() == 5000);
    CHECK(side.ledger().bytes() == 5000);
  }
  CHECK(side.locked().bytes() == 0);
  CHECK(side.locked().peak_bytes() == 5000);
}

TEST_CASE("plan and ledgers tell locked bytes of a rank, and of a process and a host with them") {
  Setup setup{.place = {3, Tier::host, Tier::host}, .world = 3};
  setup.options.offload.pin_memory = zero::MemoryLock::required;
  Index of_process = 0;
  setup.after_step = [&](int rank, int, Index) {
    if (rank == 0) of_process = std::max(of_process, zero::locked_in_process().load());
  };
  Outcome const outcome = train_mixed(setup);
  Index sum = 0;
  for (Numbers const& n : outcome.ranks) {
    CHECK(n.locked.planned == n.host.planned);
    CHECK(n.locked.peak == n.locked.planned);
    CHECK(n.locked.now == n.locked.planned);
    sum += n.locked.peak;
  }
  CHECK(of_process == sum);
  CHECK(zero::locked_in_process() == 0);  // the trainers are gone
  setup.options.offload.pin_memory = zero::MemoryLock::none;
  CHECK(train_mixed(setup).ranks[0].locked.planned == 0);

  zero::TierPlan plan;
  plan.staging.add(1024);
  CHECK(plan.locked_text(1, 8) ==
        "locked: 0 bytes a rank, 0 bytes a process of 1 rank, 0 bytes a host of 8 ranks");
  plan.locks = true;
  CHECK(plan.locked_text(2, 8) ==
        "locked: 1024 bytes a rank, 2048 bytes a process of 2 ranks, 8192 bytes a host of 8 ranks");
}

#if !ZERO_TESTS_SANITIZED  // a sanitizer makes mlock do nothing, and succeed
TEST_CASE("where a limit forbids it, locking is an error with limit and need, or is left out") {
  // A process of its own, which gives up what the superuser may do.
  int const ended_by = zero_test::signal_of([] {
    auto const expect = [](bool holds) {
      if (!holds) std::raise(SIGKILL);
    };
    rlimit const none{0, 0};
    expect(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    if (geteuid() == 0) expect(setuid(65534) == 0);
    zero::Host device;
    {
      zero::HostSide<zero::Host> side(device, zero::MemoryLock::attempt);
      auto const buffer = side.allocate(5000, "host optimizer state");
      expect(side.locked().bytes() == 0);
      expect(side.ledger().bytes() == 5000);
    }
    zero::HostSide<zero::Host> side(device, zero::MemoryLock::required);
    std::string said;
    try {
      auto const buffer = side.allocate(5000, "host optimizer state");
    } catch (zero::OutOfMemory const& e) {
      said = e.what();
    }
    expect(has(said, "5000 bytes for host optimizer state cannot be locked"));
    expect(has(said, "RLIMIT_MEMLOCK of the process, all its ranks together, is 0 bytes"));
    expect(side.ledger().bytes() == 0);
  });
  CHECK(ended_by == 0);
}
#endif
