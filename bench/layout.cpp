// SPDX-License-Identifier: Apache-2.0
// Layout, schedule and plan of a very large model over very many ranks. None of it may depend on
// the number of ranks: heap bytes are told for each variant.
#include <zero/step/memory_plan.hpp>

#include <bench/harness.hpp>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {

std::atomic<bench::Index> live_bytes = 0;

void* counted(std::size_t bytes) {
  void* const p = std::malloc(bytes);
  if (p == nullptr) throw std::bad_alloc();
  live_bytes += static_cast<bench::Index>(malloc_usable_size(p));
  return p;
}
void forgotten(void* p) noexcept {
  live_bytes -= static_cast<bench::Index>(malloc_usable_size(p));
  std::free(p);
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void operator delete(void* p) noexcept { forgotten(p); }
void operator delete(void* p, std::size_t) noexcept { forgotten(p); }

namespace {

using bench::Index;

/// `tensors` matrices, vectors and norms, evenly over `units` units.
zero::Units describe(Index tensors, Index units) {
  zero::Units all;
  for (Index u = 0; u < units; ++u) {
    all.push_back({"unit." + std::to_string(u), {}});
    for (Index t = u * tensors / units; t < (u + 1) * tensors / units; ++t) {
      Index const width = 64 + t % 1000;
      std::string const name = all.back().name + ".tensor." + std::to_string(t);
      all.back().tensors.push_back(
          {name, t % 3 == 0 ? std::vector{width, 4 * width} : std::vector{width}});
    }
  }
  return all;
}

/// All that a stage 3 context derives from a description.
struct Planned {
  Planned(zero::Units const& units, Index ranks)
      : layout(units, ranks),
        shares(layout, facts(), {}),
        timeline(zero::default_schedule(layout.size()), layout, shares, {}),
        plan(layout, shares, timeline) {}

  static zero::Facts facts() {
    return zero::Facts::of<zero::Policies<zero::Sharded<3>, zero::Bf16Mixed>>(2);
  }

  zero::Layout layout;
  zero::Shares shares;
  zero::Timeline timeline;
  zero::MemoryPlan plan;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Harness harness(argc, argv, "layout",
                         "Layout, schedule and plan at stage 3 against one look at each tensor");
  Index const tensors = harness.number("tensors", 100'000, "tensors of the model");
  Index const units = harness.number("units", 1'000, "units they are in");
  Index const ranks = harness.number("ranks", 4'096, "ranks that shard them");

  /// @param make (Units) -> what is to be kept; called anew in each iteration
  auto const add = [&](bench::Variant const& variant, Index num_tensors, Index num_units,
                       auto make) {
    harness.add(variant, [=](bench::Measure measure) {
      zero::Units const description = describe(num_tensors, num_units);
      Index bytes = 0;
      measure([&] {
        Index const before = live_bytes;
        [[maybe_unused]] auto const kept = make(description);
        bytes = live_bytes - before;
      });
      measure.fact("heap_bytes", bytes);
    });
  };
  add({.name = "look at each tensor"}, tensors, units, [](zero::Units const& description) {
    Index elements = 0;
    for (zero::Unit const& unit : description) {
      for (zero::Tensor const& tensor : unit.tensors) elements += tensor.elements();
    }
    return elements;
  });
  auto const plan = [&](Index t, Index u, Index n, double at_most_seconds) {
    std::string const name = std::to_string(t) + " tensors in " + std::to_string(u) +
                             " units over " + std::to_string(n) + (n == 1 ? " rank" : " ranks");
    add({.name = name, .against = "look at each tensor", .at_most_seconds = at_most_seconds}, t, u,
        [n](zero::Units const& description) { return std::make_unique<Planned>(description, n); });
  };
  plan(tensors, units, ranks, 1.0);
  plan(tensors, units, 1, 0);
  plan(tensors / 2, units / 2, ranks, 0);
  return harness.run();
}
