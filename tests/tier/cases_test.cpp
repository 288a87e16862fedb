// SPDX-License-Identifier: Apache-2.0
// Cases that people have hit with offloaded state: docs/cases.md.
#include <doctest/doctest.h>
#include <support/adam_table.hpp>
#include <tier/run.hpp>

#include <atomic>
#include <cmath>
#include <filesystem>

namespace {

using namespace tier_test;

std::vector<Place> offloaded() {
  return {{1, Tier::host},
          {2, Tier::host},
          {3, Tier::host},
          {3, Tier::host, Tier::host},
          {3, Tier::nvme, Tier::nvme}};
}

zero::Units const& ten() {
  static zero::Units const all{
      {"a", {{.name = "a.w", .shape = {7}, .initial = zero::Initial::constant(1)}}},
      {"b", {{.name = "b.w", .shape = {3}, .initial = zero::Initial::constant(1)}}}};
  return all;
}
zero::Units const& one() {
  static zero::Units const all{{"a", {{.name = "w", .shape = {1}}}}};
  return all;
}

double largest_difference(Tensors const& a, Tensors const& b) {
  double largest = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    for (std::size_t i = 0; i < a[t].size(); ++i)
      largest = std::fmax(largest, std::fabs(double{a[t][i]} - double{b[t][i]}));
  }
  return largest;
}

Index open_files() {
  Index n = 0;
  for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

}  // namespace

TEST_CASE("F01: stages 1, 2 and 3 train with the optimizer's state in host memory") {
  for (Place const& place : offloaded()) {
    for (int world : {1, 2}) {
      Setup setup{.place = place, .model = &ten(), .world = world, .steps = 5};
      Outcome const outcome = train_floats(setup, 0.01f, false);
      setup.place = {place.stage};
      Outcome const expected = train_floats(setup, 0.01f, false);
      for (std::size_t s = 0; s < 5; ++s)  // the row's bound; the bits are equal as well
        CHECK(largest_difference(outcome.steps[s].weights, expected.steps[s].weights) <= 2e-6);
      CHECK(difference(outcome, expected) == "");
      CHECK(fault(outcome) == "");
      for (Numbers const& n : outcome.ranks) CHECK(n.state_bytes == 0);
      for (Numbers const& n : expected.ranks) CHECK(n.state_bytes > 0);
    }
  }
}

TEST_CASE("A05: offload, accumulation and clipping together are what they are without offload") {
  Setup setup{
      .place = {2, Tier::host}, .model = &ten(), .world = 2, .steps = 2, .micro_batches = 2};
  setup.options = {.accumulation = 2, .clip = 1};
  setup.gradient = [](int step, Index micro_batch, int rank, Index element) {
    return 4 * gradient(step, micro_batch, rank, element);
  };
  Outcome const outcome = train_floats(setup, 0.01f, false);
  setup.place = {2};
  CHECK(difference(outcome, train_floats(setup, 0.01f, false)) == "");
  CHECK(outcome.steps[1].decisions[0].norm > 1);  // it clips
}

TEST_CASE("L06: a rank that overflows makes all skip, with offload as without") {
  for (Place const& place : offloaded()) {
    Setup setup{.place = place, .world = 4, .steps = 6, .bad_step = 2};
    Outcome const outcome = train_floats(setup, 0.01f, false);
    CHECK(outcome.steps[2].weights == outcome.steps[1].weights);
    CHECK(outcome.steps[2].states[0] == outcome.steps[1].states[0]);
    CHECK(outcome.steps[2].states[1] == outcome.steps[1].states[1]);
    for (zero::Decision const& d : outcome.steps[5].decisions) {
      CHECK(d.updates == 5);
      CHECK(d.skipped == 1);
    }
    setup.place = {place.stage};
    CHECK(difference(outcome, train_floats(setup, 0.01f, false)) == "");
  }
}

TEST_CASE("M04: live bytes and open files are equal at steps 10 and 1000, with offload") {
  for (Place const& place : offloaded()) {
    Setup setup{.place = place, .model = &ten(), .steps = 1000};
    Index bytes = 0;
    Index files = 0;
    setup.after_step = [&](int, int step, Index live) {
      if (step == 9) {
        bytes = live;
        files = open_files();
      }
      if (step != 999) return;
      CHECK(live == bytes);
      CHECK(open_files() == files);
    };
    train_floats(setup, 0.01f, false);
  }
}

TEST_CASE(
    "B02: one element, one rank, gradient 2: descent of rate 1 moves it by -2, with offload") {
  for (Place const& place : offloaded()) {
    Setup setup{.place = place, .model = &one(), .steps = 1};
    setup.gradient = [](int, Index, int, Index) { return 2.0f; };
    setup.options.clip = 0;
    CHECK(train_floats(setup, 1, true).steps[0].weights[0][0] == -2.0f);
  }
}
