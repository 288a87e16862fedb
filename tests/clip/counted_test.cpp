// SPDX-License-Identifier: Apache-2.0
// What the norm counts: each trainable element once, and nothing else.
#include <archetypes/rig.hpp>
#include <clip/oracle.hpp>
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using zero::Index;

double norm_of(rig::Setup const& setup, int world, Index micro_batches = 1) {
  auto const all = clip::decisions(setup, world, micro_batches);
  for (zero::Decision const& d : all) CHECK(d.norm == all[0].norm);
  CHECK(all[0].skip == 0);
  return all[0].norm;
}

float one(rig::Batch const&, int, Index, Index) { return 1.0f; }

}  // namespace

TEST_CASE("padding does not count, though its memory held other units' gradients before") {
  // Gradients are 1, so the norm is the root of the number of elements. Units of very different
  // sizes share slots; memory starts as NaN; a unit's padding lies where others had gradients.
  zero::Units const units{{"a", {clip::tensor("a", {1000})}},
                          {"b", {clip::tensor("b.0", {1}), clip::tensor("b.1", {1})}},
                          {"c", {clip::tensor("c", {900})}},
                          {"d", {clip::tensor("d", {1})}},
                          {"e", {clip::tensor("e", {65})}}};
  double const expected = std::sqrt(1000.0 + 2 + 900 + 1 + 65);
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2, 3, 8}) {
      for (Index accumulation : {1, 2}) {
        for (zero::Fill fill : {zero::Fill::add, zero::Fill::overwrite}) {
          for (Index bucket : {0, 2000}) {
            rig::Setup setup{.units = units, .stage = stage, .gradient = one, .fill = fill};
            setup.options.accumulation = accumulation;
            setup.options.bucket = bucket;
            CAPTURE(setup);
            CAPTURE(world);
            CHECK(clip::last_places(norm_of(setup, world, accumulation), expected) < 4);
          }
        }
      }
    }
  }
}

TEST_CASE("padding stays 0 in parameters while they are trained") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool bf16 : {false, true}) {
      rig::Setup setup{.units = clip::units(), .stage = stage, .bf16 = bf16, .gradient = one};
      setup.optimizer.lr = 0.1f;
      setup.optimizer.weight_decay = 0.5f;
      for (zero::Unit& unit : setup.units) {
        for (zero::Tensor& tensor : unit.tensors) tensor.initial = zero::Initial::constant(1);
      }
      std::atomic<int> zero = 0;
      zero::launch<zero::Threads>(3, [&](auto communicator) {
        zero::CollectiveLog log;
        auto const trainer = rig::make(setup, rig::Ranks(communicator), log);
        for (int s = 0; s < 3; ++s) trainer->step(rig::Batch{communicator.rank(), 0});
        bool const trained = trainer->tensor(0, 0)[0] != 1.0f;
        if (trainer->padding_is_zero() && trained) ++zero;
      });
      CAPTURE(setup);
      CHECK(zero == 3);
    }
  }
}

TEST_CASE("a tied unit counts once, with the sum of its visits") {
  zero::Units const units{{"a", {clip::tensor("a", {200})}}, {"b", {clip::tensor("b", {100})}}};
  zero::Schedule const tied{{0, zero::Phase::forward},  {1, zero::Phase::forward},
                            {0, zero::Phase::forward},  {0, zero::Phase::backward},
                            {1, zero::Phase::backward}, {0, zero::Phase::backward}};
  // Gradient 2 for each of 200 elements, 1 for each of 100: neither 1 twice nor 2 twice.
  double const expected = std::sqrt(200.0 * 4 + 100.0);
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2, 3}) {
      for (zero::Fill fill : {zero::Fill::add, zero::Fill::overwrite}) {
        rig::Setup const setup{
            .units = units, .schedule = tied, .stage = stage, .gradient = one, .fill = fill};
        CAPTURE(setup);
        CAPTURE(world);
        CHECK(clip::last_places(norm_of(setup, world), expected) < 4);
      }
    }
  }
}

TEST_CASE("frozen tensors do not count, and are offered no gradient") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2, 3}) {
      rig::Setup setup{.units = clip::units(), .stage = stage, .bf16 = true};
      setup.gradient = [](rig::Batch const&, int unit, Index t, Index) {
        bool const frozen = unit == 4 || (unit == 1 && t == 1);
        if (frozen) throw std::logic_error("a frozen tensor was offered a gradient");
        return 1.0f;
      };
      for (zero::Unit& unit : setup.units) {
        for (zero::Tensor& tensor : unit.tensors) tensor.initial = zero::Initial::constant(7);
      }
      double const with = norm_of(setup, world);
      CHECK(clip::last_places(with, std::sqrt(910.0 + 65 + 300 + 1 + 1 + 192 + 3)) < 4);
    }
  }
}

TEST_CASE("units kept resident count as all others do") {
  for (Index threshold : {0, 300, 100000}) {
    rig::Setup setup{.units = clip::units(), .stage = 3, .gradient = clip::whole_numbers()};
    setup.options.persistence_threshold = threshold;
    for (int world : {2, 3})
      CHECK(clip::last_places(norm_of(setup, world), clip::norm(setup, world, 1)) < 8);
  }
}

TEST_CASE("a step that follows others counts its own gradients only") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Index accumulation : {1, 2}) {
      rig::Setup setup{.units = clip::units(), .stage = stage};
      setup.options.accumulation = accumulation;
      setup.options.clip = 1;
      setup.gradient = [](rig::Batch const& batch, int, Index, Index) {
        return batch.number >= 10 ? 1.0f : 100.0f;
      };
      double const expected = std::sqrt(910.0 + 65 + 300 + 1 + 1 + 192 + 3);
      zero::launch<zero::Threads>(2, [&](auto communicator) {
        zero::CollectiveLog log;
        auto const trainer = rig::make(setup, rig::Ranks(communicator), log);
        std::vector<rig::Batch> large, small;
        for (Index m = 0; m < accumulation; ++m) {
          large.push_back({0, m});
          small.push_back({0, 10 + m});
        }
        for (int s = 0; s < 3; ++s) trainer->step(large);
        trainer->step(small);
        auto const decision = trainer->decision();
        if (std::abs(decision.norm - expected) > 1e-12 * expected || decision.updates != 4)
          throw std::runtime_error("norm " + std::to_string(decision.norm));
      });
    }
  }
}
