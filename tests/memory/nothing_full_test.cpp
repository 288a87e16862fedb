// SPDX-License-Identifier: Apache-2.0
// Where parameters are sharded nothing as large as the model is ever held.
#include <archetypes/rig.hpp>
#include <doctest/doctest.h>
#include <memory/models.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

using zero::Index;

constexpr int num_units = 16;
constexpr Index unit_elements = 64 * 16 * 5;  // no padding up to 16 ranks

rig::Setup setup_of(int stage, bool bf16) {
  return {.units = memory::equal_units(num_units, unit_elements), .stage = stage, .bf16 = bf16};
}

/// Bytes of all parameters of the model.
Index model_bytes(bool bf16) { return num_units * unit_elements * (bf16 ? 2 : 4); }

/// A function of the element that counts its calls and the elements that it was called for.
struct Counted {
  std::mutex mutex;
  Index calls = 0;
  std::set<Index> elements;

  zero::Initial initial() {
    return zero::Initial::function([this](Index element) {
      std::lock_guard const lock(mutex);
      ++calls;
      elements.insert(element);
      return static_cast<float>(element % 1000);
    });
  }
};

/// One tensor of each kind of initial values, trainable and frozen.
zero::Units all_kinds() {
  zero::Units units = memory::odd_units();
  int kind = 0;
  for (zero::Unit& unit : units) {
    for (zero::Tensor& tensor : unit.tensors) {
      switch (kind++ % 4) {
        case 0:
          tensor.initial = zero::Initial::normal(0.5, 0.1);
          break;
        case 1:
          tensor.initial = zero::Initial::uniform(-2, 3);
          break;
        case 2:
          tensor.initial = zero::Initial::function(
              [](Index element) { return 0.001f * static_cast<float>(element); });
          break;
        default:
          tensor.initial = zero::Initial::constant(0.3);
      }
    }
  }
  return units;
}

/// All tensors as a rank's forward visits show them before the first step.
std::vector<std::vector<float>> shown(rig::Trainer& trainer, zero::Units const& units) {
  std::vector<std::vector<float>> all;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t t = 0; t < units[u].tensors.size(); ++t)
      all.push_back(trainer.tensor(static_cast<int>(u), static_cast<Index>(t)));
  }
  return all;
}

}  // namespace

TEST_CASE("stage 3 constructs, trains and evaluates in less memory than its parameters take") {
  struct Case {
    bool bf16;
    int world;
  };
  for (Case const c : {Case{false, 8}, Case{true, 16}}) {
    Index const limit = model_bytes(c.bf16) - 1;
    std::atomic<int> done = 0;
    zero::launch<zero::Threads>(c.world, [&](auto communicator) {
      zero::Ledger& ledger = communicator.device().ledger();
      ledger.limit_bytes(limit);
      zero::CollectiveLog log;
      rig::Setup const setup = setup_of(3, c.bf16);
      auto const trainer = rig::make(setup, rig::Ranks(communicator), log);
      rig::Batch const batch{communicator.rank(), 0};
      for (int s = 0; s < 2; ++s) trainer->step(batch);
      trainer->evaluate(batch);
      std::vector<int> every_unit;
      for (int u = 0; u < num_units; ++u) every_unit.push_back(u);
      trainer->visit(every_unit);
      if (ledger.peak_bytes() <= limit && trainer->decision().updates == 2) ++done;
    });
    CHECK(done == c.world);
  }
}

TEST_CASE("stages 0 to 2 are refused under that limit, with the plan") {
  for (int stage = 0; stage <= 2; ++stage) {
    for (bool bf16 : {false, true}) {
      int const world = bf16 ? 16 : 8;
      zero::Host device;
      device.ledger().limit_bytes(model_bytes(bf16) - 1);
      rig::Setup const setup = setup_of(stage, bf16);
      zero::CollectiveLog log;
      std::string text;
      try {
        rig::make(setup, rig::Ranks(0, world, device), log);
      } catch (zero::OutOfMemory const& e) {
        text = e.what();
      }
      CAPTURE(setup);
      CAPTURE(text);
      auto const says = [&](std::string const& part) { return text.find(part) != text.npos; };
      CHECK(says("stage " + std::to_string(stage) + " on " + std::to_string(world) + " ranks"));
      CHECK(says("limit is " + std::to_string(model_bytes(bf16) - 1) + " bytes"));
      zero::MemoryPlan const plan = zero::plan_memory(setup.units, rig::schedule_of(setup), world,
                                                      rig::facts_of(setup), setup.options);
      for (zero::PlannedBuffer const* buffer : plan.buffers())
        CHECK(says(std::string(buffer->kind) + " " + std::to_string(buffer->bytes) + " bytes"));
      CHECK(says("in all " + std::to_string(plan.total_bytes()) + " bytes"));
      CHECK(device.ledger().allocations() == 0);  // refused before anything is allocated
      CHECK(log.totals().collectives == 0);
    }
  }
}

TEST_CASE("a limit of the plan's own size is enough, one byte less is not") {
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Setup const setup = setup_of(stage, true);
    Index const bytes = zero::plan_memory(setup.units, rig::schedule_of(setup), 4,
                                          rig::facts_of(setup), setup.options)
                            .total_bytes();
    zero::Host device;
    zero::CollectiveLog log;
    device.ledger().limit_bytes(bytes);
    rig::make(setup, rig::Ranks(0, 4, device), log)->step(rig::Batch{});
    device.ledger().limit_bytes(bytes - 1);
    CHECK_THROWS_AS(rig::make(setup, rig::Ranks(0, 4, device), log), zero::OutOfMemory);
  }
}

TEST_CASE("initial values have the same bits at every stage and world, on every rank") {
  zero::Units const units = all_kinds();
  for (bool bf16 : {false, true}) {
    rig::Setup setup{.units = units, .bf16 = bf16};
    setup.options.seed = 11;
    rig::Alone reference(setup, 0, 1);
    auto const expected = shown(reference.trainer(), units);
    std::uint64_t const hash = reference->parameters_hash();
    REQUIRE(expected.size() == 8);
    for (int stage = 0; stage <= 3; ++stage) {
      for (int world : {1, 2, 3, 4, 8}) {
        setup.stage = stage;
        std::atomic<int> equal = 0;
        zero::launch<zero::Threads>(world, [&](auto communicator) {
          zero::CollectiveLog log;
          auto const trainer = rig::make(setup, rig::Ranks(communicator), log);
          bool const same = shown(*trainer, units) == expected;
          bool const zeros = trainer->padding_is_zero();
          if (same && zeros && trainer->parameters_hash() == hash) ++equal;
        });
        CAPTURE(setup);
        CHECK(equal == world);
      }
    }
    // Closed forms: "a.0" is normal, "a.1" uniform, "b.0" a function, "b.1" constant.
    auto const rounded = [&](float x) { return bf16 ? static_cast<float>(zero::bf16(x)) : x; };
    double sum = 0;
    for (float x : expected[0]) sum += static_cast<double>(x);
    CHECK(std::abs(sum / 910 - 0.1) < 5 * 0.5 / std::sqrt(910.0));
    for (float x : expected[1]) CHECK((x >= -2 && x <= 3));
    for (std::size_t i = 0; i < expected[2].size(); ++i)
      CHECK(expected[2][i] == rounded(0.001f * static_cast<float>(i)));
    for (float x : expected[3]) CHECK(x == rounded(0.3f));
  }
}

TEST_CASE("master weights start from the values that were not rounded") {
  rig::Setup setup{.units = all_kinds(), .stage = 3, .bf16 = true};
  rig::Alone alone(setup, 1, 2);
  Index seen = 0;
  alone->read_weights([&](zero::PlacedTensor const& t, Index first, std::span<float const> w) {
    if (t.number != 2) return;  // "b.0", whose element i is 0.001 i
    for (std::size_t i = 0; i < w.size(); ++i) {
      CHECK(w[i] == 0.001f * static_cast<float>(first + static_cast<Index>(i)));
      ++seen;
    }
  });
  CHECK(seen == 300 - 192);  // of 384 with padding, the second half
}

TEST_CASE("at stage 3 an initial function is called for owned elements only") {
  for (bool bf16 : {false, true}) {
    for (int world : {1, 2, 3, 8}) {
      for (int rank = 0; rank < world; ++rank) {
        for (bool trainable : {true, false}) {
          Counted counted;
          rig::Setup setup{.units = memory::equal_units(2, 1000), .stage = 3, .bf16 = bf16};
          setup.units[1].tensors[0].initial = counted.initial();
          setup.units[1].tensors[0].trainable = trainable;
          rig::Alone alone(setup, rank, world);
          Index const slice = zero::round_up(1000, 64 * world) / world;
          Index const begin = std::min<Index>(rank * slice, 1000);
          Index const end = std::min<Index>(begin + slice, 1000);
          std::set<Index> owned;
          for (Index i = begin; i < end; ++i) owned.insert(i);
          CAPTURE(setup);
          CAPTURE(rank);
          CHECK(counted.elements == owned);
          // Once for the parameters, and once for master weights where there are any.
          CHECK(counted.calls == (end - begin) * (bf16 && trainable ? 2 : 1));
        }
      }
    }
  }
}

TEST_CASE("below stage 3 an initial function is called for what is kept: all, and owned masters") {
  for (int stage = 0; stage <= 2; ++stage) {
    Counted counted;
    rig::Setup setup{.units = memory::equal_units(1, 1000), .stage = stage, .bf16 = true};
    setup.units[0].tensors[0].initial = counted.initial();
    rig::Alone alone(setup, 1, 2);
    Index const masters = stage == 0 ? 1000 : 1000 - 512;
    CHECK(counted.calls == 1000 + masters);
    CHECK(counted.elements.size() == 1000);
  }
}
