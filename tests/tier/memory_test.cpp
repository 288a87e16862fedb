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
#include <malloc.h>
#include <support/death.hpp>
#include <sys/resource.h>
#include <tier/run.hpp>
#include <tier/train.hpp>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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

/// Of this process; 0 where another C library is, or a sanitizer, which looks for leaks itself.
Index allocated_bytes() {
#if defined(__GLIBC__) && !ZERO_TESTS_SANITIZED
  struct mallinfo2 const m = mallinfo2();
  return static_cast<Index>(m.uordblks + m.hblkhd);
#else
  return 0;
#endif
}
constexpr Index least_bytes = 64;  ///< bytes of a slot

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
      Setup setup{.place = {3}, .world = world};
      setup.options.prefetch =
          0;  // of all three: slots of gathers are what parameters leave behind
      Index const none = train_mixed(setup).ranks[0].device.peak;
      setup.place = {3, tier};
      Index const optimizer = train_mixed(setup).ranks[0].device.peak;
      setup.place = {3, tier, tier};
      Index const parameters = train_mixed(setup).ranks[0].device.peak;
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
  CHECK(nvme.host.peak < host.host.peak);
}

TEST_CASE("a hundred trainers, one after the other, leave no memory, no file and no descriptor") {
  for (Place const& place : {Place{1, Tier::host}, Place{3, Tier::nvme, Tier::nvme}}) {
    Setup const setup{.place = place, .steps = 1};
    train_mixed(setup);
    Numbers const one = train_mixed(setup).ranks[0];
    Index const files = open_files();
    // What the C library keeps for threads that come and go settles after some of them; what
    // trainers leave would be left in every round, a hundred of the smallest thing at least.
    Index least_growth = 100 * least_bytes;
    for (int round = 0; round < 3; ++round) {
      Index const bytes = allocated_bytes();
      for (int i = 0; i < 100; ++i) train_mixed(setup);
      MESSAGE("a hundred trainers: ", allocated_bytes() - bytes, " bytes");
      least_growth = std::min(least_growth, allocated_bytes() - bytes);
    }
    CHECK(open_files() == files);
    CHECK(least_growth < 100 * least_bytes);
    CHECK(one.host.peak > least_bytes);
    CHECK(zero::locked_in_process() == 0);
    CHECK(entries(folder()) == 0);
  }
}

TEST_CASE("a ratio below 1 is told with the share that whole units make, and is stage 3's alone") {
  zero::Units units;
  for (std::string const name : {"a", "b", "c"}) units.push_back({name, {{name + ".w", {640}}}});
  using P = zero::Policies<zero::Sharded<3, zero::Offload<zero::OnHost>>, zero::Bf16Mixed>;
  zero::Layout const layout(units, 1);
  for (double ratio : {0.5, 1.0}) {
    zero::Options options;
    options.offload.ratio = ratio;
    zero::Shares const shares(layout, zero::Facts::of<P>(zero::AdamW::num_states), options);
    std::string const text = zero::TierPlan(layout, shares).text();
    // Of three alike the first and the last: 2 / 3.
    CHECK_MESSAGE(has(text,
                      "; of the optimizer state 0.666667 below the device, by whole units, "
                      "for a ratio of 0.500000") == (ratio == 0.5),
                  text);
  }
  for (int stage : {1, 2}) {
    Setup setup{.place = {stage, Tier::host}};
    setup.options.offload.ratio = 0.5;
    std::string said;
    try {
      train_mixed(setup);
    } catch (zero::InvalidArgument const& e) {
      said = e.what();
    }
    CHECK(said == "Options::offload.ratio: found 0.5; expected 1, or stage 3");
  }
}

TEST_CASE("tiles that nobody has sized grow with what a rank keeps in host memory, not in files") {
  // 48 blocks of 2^25 elements behind one of 2^26: 50 x 2^25 in all, and 50 x 2^20 is a
  // thirty-second of them.
  zero::Units units;
  for (int u = 0; u < 49; ++u) {
    std::string const name = "u" + std::to_string(u);
    units.push_back({name, {{name + ".w", {Index{1} << (u == 0 ? 26 : 25)}}}});
  }
  auto const tiles = [&]<class O>(O, Index asked, int world = 1, double ratio = 1) {
    using P = zero::Policies<zero::Sharded<3, zero::Offload<O>>, zero::Bf16Mixed>;
    zero::Options options;
    options.offload.tile_elements = asked;
    options.offload.ratio = ratio;
    zero::Layout const layout(units, world);
    zero::Shares const shares(layout, zero::Facts::of<P>(zero::AdamW::num_states), options);
    std::vector<Index> sizes;
    for (zero::Tile const& tile : zero::TierPlan(layout, shares).tiles)
      sizes.push_back(tile.elements);
    return sizes;
  };
  auto const all = tiles(zero::OnHost{}, 0);
  CHECK(all.size() == 48 + 2);
  CHECK(all[0] == Index{50} << 20);
  CHECK(all[1] == Index{14} << 20);
  CHECK(all[2] == Index{1} << 25);
  // Half of it a rank: of 2^25, 25 x 2^20 and what is left.
  auto const half = tiles(zero::OnHost{}, 0, 2);
  CHECK(half.size() == 48 + 2);
  CHECK(half[0] == Index{25} << 20);
  CHECK(half[2] == Index{1} << 24);
  // A quarter: 25 x 2^19 would be less than 2^24.
  CHECK(tiles(zero::OnHost{}, 0, 4).size() == 49);
  CHECK(tiles(zero::OnHost{}, 0, 4)[0] == Index{1} << 24);
  // Of half the units: the same as a rank of two has, but for whole blocks of 2^25.
  auto const below = tiles(zero::OnHost{}, 0, 1, 0.5);
  CHECK(*std::max_element(below.begin(), below.end()) == Index{25} << 20);
  CHECK(tiles(zero::OnNvme{}, 0).size() == 48 * 2 + 4);
  CHECK(tiles(zero::OnHost{}, Index{1} << 24).size() == 48 * 2 + 4);
  CHECK(tiles(zero::OnHost{}, Index{1} << 40).size() == 49);
  CHECK_THROWS_WITH_AS(
      tiles(zero::OnHost{}, -1),
      "Options::offload.tile_elements: found -1; expected a number of elements, or 0",
      zero::InvalidArgument);
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

namespace {

/// The host as a device that pins, until it has no more room for it.
struct Pinning : zero::Host {
  static inline std::atomic<Index> room = Index{1} << 40;

  static Pinning with_threads(int) { return {}; }
  void pin(std::byte*, Index bytes) {
    if (room.fetch_sub(bytes) < bytes) throw zero::OutOfMemory("no room");
  }
  void unpin(std::byte*) noexcept {}
};
static_assert(zero::CanPin<Pinning>);

}  // namespace

TEST_CASE("beside a device that pins, plan and peak of locked bytes are those of the host") {
  Setup const setup{.place = {3, Tier::host, Tier::host}, .world = 2};
  using Below = zero::Sharded<3, zero::Offload<zero::OnHost, zero::OnHost>>;
  Outcome const outcome =
      train<Pinning, Below, zero::Bf16Mixed, zero::State<float>>(setup, zero::AdamW{});
  CHECK(fault(outcome) == "");
  for (Numbers const& n : outcome.ranks) {
    CHECK(n.locked.planned == n.host.planned);
    CHECK(n.locked.peak == n.locked.planned);
  }
  zero::Units const units{{"a", {{.name = "a.w", .shape = {640}}}}};
  zero::Facts const facts =
      zero::Facts::of<zero::Policies<Below, zero::Bf16Mixed>>(zero::AdamW::num_states);
  for (bool pins : {false, true}) {
    auto const plan =
        zero::plan_memory(units, {{0, zero::Phase::forward}, {0, zero::Phase::backward}}, 1, facts,
                          zero::Options{}, 0, pins);
    CHECK(plan.tiers.locked_bytes() == (pins ? plan.tiers.host_bytes() : 0));
  }

  Pinning::room = 5000;
  Pinning device;
  zero::HostSide<Pinning> side(device, zero::MemoryLock::none);
  auto const first = side.allocate(4000, "host gradients");
  std::string said;
  try {
    auto const second = side.allocate(3000, "host optimizer state");
  } catch (zero::OutOfMemory const& e) {
    said = e.what();
  }
  CHECK_MESSAGE(has(said, "3000 bytes for host optimizer state cannot be locked beside the 4000"),
                said);
  CHECK_MESSAGE(has(said, ": no room; RLIMIT_MEMLOCK of the process"), said);
  CHECK(side.ledger().bytes() == 4000);
  CHECK(side.locked().bytes() == 4000);
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
    expect(has(said,
               "RLIMIT_MEMLOCK of the process, all its ranks together, is 0 bytes, and counts "
               "whole pages of every buffer. Raise it (ulimit -l), "));
    expect(side.ledger().bytes() == 0);
  });
  CHECK(ended_by == 0);
}
#endif
