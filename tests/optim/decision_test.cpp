// SPDX-License-Identifier: Apache-2.0
#include <zero/device/host.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/decision.hpp>
#include <zero/optim/optimizer.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using zero::Decision;
using zero::DecisionInputs;
using zero::Index;

struct Record {
  double squares = 0;
  Index bad_unit = -1;
  double hash = 7;
  double loss_mark = 0;
};

std::vector<double> laid_out(std::vector<Record> const& records) {
  std::vector<double> words;
  for (Record const& r : records)
    words.insert(words.end(),
                 {r.squares, static_cast<double>(r.bad_unit + 1), r.hash, r.loss_mark});
  return words;
}

/// A rate that tells which update it was asked for.
float rate(Index t) { return static_cast<float>(t) / 8.0f; }

Decision decided(std::vector<Record> const& records, DecisionInputs inputs, Decision before = {}) {
  inputs.ranks = std::ssize(records);
  zero::decide(before, laid_out(records).data(), inputs, rate);
  return before;
}

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_CASE("the norm is that of the mean gradient, over all ranks") {
  Decision const d = decided({{9}, {16}}, {.contributions = 1});
  CHECK(d.norm == 5);
  CHECK(d.clip_factor == 1);
  CHECK(d.factor == 1);
  CHECK(d.skip == 0);
  Decision const mean = decided({{9}, {16}}, {.contributions = 10});
  CHECK(mean.norm == 0.5);
  CHECK(mean.factor == 0.1f);
}

TEST_CASE("the loss scale is taken out of norm and factor") {
  Decision before;
  before.loss_scale = 1024;
  Decision const d = decided({{9.0 * 1024 * 1024}}, {.contributions = 2}, before);
  CHECK(d.norm == 1.5);
  CHECK(d.factor == 1.0f / 2048);
  CHECK(d.loss_scale == 1024);
}

TEST_CASE("clipping scales to the limit as torch's clip_grad_norm_ does, and never up") {
  Decision const d = decided({{400}}, {.clip = 1, .contributions = 2});
  CHECK(d.norm == 10);
  CHECK(d.clip_factor == 1 / (10 + 1e-6));
  CHECK(d.factor == static_cast<float>(0.5 / (10 + 1e-6)));
  CHECK(d.clipped_norm() == doctest::Approx(1).epsilon(1e-6));
  CHECK(d.clipped_norm() < 1);

  CHECK(decided({{400}}, {.clip = 20.1}).clip_factor == 1);
  CHECK(decided({{400}}, {.clip = 0}).clip_factor == 1);
  CHECK(decided({{0}}, {.clip = 1}).clip_factor == 1);
  CHECK(decided({{0}}, {.clip = 1}).norm == 0);
  // Around the limit: torch clamps clip / (norm + 1e-6) to 1.
  for (double norm : {0.999998, 0.999999, 0.9999995, 1.0, 1.0000001}) {
    CAPTURE(norm);
    CHECK(decided({{norm * norm}}, {.clip = 1}).clip_factor ==
          doctest::Approx(std::min(1.0, 1.0 / (norm + 1e-6))).epsilon(1e-12));
  }
}

TEST_CASE("good steps count updates, which is what the rate is asked for") {
  Decision d;
  for (Index t = 1; t <= 3; ++t) {
    d = decided({{1}}, {}, d);
    CHECK(d.updates == t);
    CHECK(d.skipped == 0);
    CHECK(d.learning_rate == rate(t));
  }
}

TEST_CASE("a bad gradient skips: updates stay, skips count, the largest mark names the unit") {
  Decision d = decided({{1}, {1}}, {});
  d = decided({{1}, {std::nan(""), 5}, {infinity, 3}, {infinity, 4}}, {.clip = 1}, d);
  CHECK(d.skip == 1);
  CHECK(d.updates == 1);
  CHECK(d.skipped == 1);
  CHECK(d.bad_unit == 5);  // backward comes there first
  CHECK(!std::isfinite(d.norm));
  CHECK(d.learning_rate == rate(1));

  // The next good one goes on as if nothing had been.
  d = decided({{1}, {1}}, {}, d);
  CHECK(d.skip == 0);
  CHECK(d.updates == 2);
  CHECK(d.skipped == 1);
  CHECK(d.bad_unit == -1);
  CHECK(d.norm == std::sqrt(2.0));
}

TEST_CASE("of bad units on all ranks the one that backward is done with first is named") {
  // Backward ends with unit 3, then 1, 4, 0: so many visits are left, each one included.
  auto const bad = [](Index unit, Index left) {
    return Record{infinity, zero::unit_mark(unit, left)};
  };
  for (bool swapped : {false, true}) {
    CHECK(
        decided({bad(swapped ? 1 : 4, swapped ? 3 : 2), bad(swapped ? 4 : 1, swapped ? 2 : 3)}, {})
            .bad_unit == 1);
  }
  CHECK(decided({bad(4, 2), {1}, bad(0, 1)}, {}).bad_unit == 4);
  CHECK(decided({bad(0, 1), bad(3, 4), bad(4, 2)}, {}).bad_unit == 3);
  // Numbers that a double still holds exactly.
  Index const most = zero::unit_mark_range - 1;
  CHECK(decided({bad(most, most), bad(most - 1, most)}, {}).bad_unit == most);
  CHECK(decided({bad(most, most - 1), bad(0, most)}, {}).bad_unit == 0);
}

TEST_CASE("unit 0 can be the bad one") {
  Decision const d = decided({{infinity, 0}}, {});
  CHECK(d.skip == 1);
  CHECK(d.bad_unit == 0);
}

TEST_CASE("a first step that skips leaves no update") {
  Decision const d = decided({{infinity, 0}}, {});
  CHECK(d.updates == 0);
  CHECK(d.skipped == 1);
  CHECK(d.learning_rate == rate(1));
}

TEST_CASE("a decision keeps its update's constants, where they are small") {
  zero::AdamW const adamw{};
  auto const made = [](auto optimizer) {
    Decision d;
    for (int step = 0; step < 3; ++step)
      zero::decide(d, laid_out({{1}}).data(), {},
                   zero::LearningRateOf<decltype(optimizer)>{optimizer});
    return d.constants;
  };
  zero::KeptConstants const kept = made(adamw);
  zero::BiasCorrections corrections{};
  std::memcpy(&corrections, kept.words, sizeof corrections);
  CHECK(kept.update == 3);
  CHECK(corrections.m_correction == adamw.constants(3).m_correction);
  CHECK(corrections.v_correction == adamw.constants(3).v_correction);
  CHECK(decided({{1}}, {}).constants.update == 0);  // of a rate alone there are none

  struct Large : zero::AdamW {
    struct Constants : zero::BiasCorrections {
      double more[4];
    };
    Constants constants(Index t) const { return {zero::AdamW::constants(t), {}}; }
  };
  CHECK(made(Large{}).update == 0);
}

/// A user's own, whose formulas hold from update 1 on.
struct CountsFromOne {
  static constexpr int num_states = 0;
  static void require(Index t) {
    if (t < 1) throw std::logic_error("update " + std::to_string(t));
  }
  float learning_rate(Index t) const {
    require(t);
    return 1.0f / static_cast<float>(t);
  }
  float constants(Index t) const {
    require(t);
    return 1.0f / static_cast<float>(t);
  }
  float direction(float c, float, float gradient, float*, float) const { return c * gradient; }
};

TEST_CASE("an optimizer is asked for updates from 1 on, though the first steps skip") {
  zero::HostStream stream;
  CountsFromOne const optimizer;
  Decision d;
  std::vector<float> weights(64, 1.0f);
  std::vector<float> const gradients(64, 0.5f);
  zero::Segment const all{0, 64, 0, 0, 1, 1};
  auto const step = [&](std::vector<Record> const& records) {
    zero::decide(d, laid_out(records).data(), {.ranks = std::ssize(records)},
                 zero::LearningRateOf<CountsFromOne>{optimizer});
    zero::update(
        stream,
        zero::Update<CountsFromOne, float, float, zero::Host>{
            optimizer, {gradients.data(), 64}, {weights.data(), 64}, {}, {}, {&all, 1}, {&d, 1}});
  };
  step({{infinity, 0}});
  step({{1}, {std::nan(""), 3}});
  CHECK(d.learning_rate == 1);
  CHECK(weights[0] == 1);
  step({{1}});
  CHECK(weights[63] == 0.5f);
  step({{1}});
  CHECK(d.learning_rate == 0.5f);
  CHECK(weights[0] == 0.375f);
}

TEST_CASE("a rank that issued other collectives is named, and nothing is updated") {
  Decision d = decided({{1}, {1}, {1, -1, 8}, {1, -1, 9}}, {});
  CHECK(d.diverged_rank == 2);
  CHECK(d.skip == 1);
  CHECK(d.updates == 0);
  // Rank 0 is what others are held against.
  d = decided({{1, -1, 8}, {1}, {1}}, {}, d);
  CHECK(d.diverged_rank == 1);
  d = decided({{1}, {1}}, {}, d);
  CHECK(d.diverged_rank == -1);
  CHECK(d.skip == 0);
}

TEST_CASE("a record starts at zero with the hash of the collectives, kept to what a double holds") {
  zero::HostStream stream;
  double words[4] = {5, 6, 7, 8};
  std::uint64_t const hash = 0xfedcba9876543210u;
  zero::start_record(stream, zero::View<double, zero::Host>(words, 4), hash);
  CHECK(words[0] == 0);
  CHECK(words[1] == 0);
  CHECK(static_cast<std::uint64_t>(words[2]) == hash >> 11);
  CHECK(words[3] == 0);
  // Hashes that differ in a kept bit differ as doubles, large as they are.
  double other[4];
  zero::start_record(stream, zero::View<double, zero::Host>(other, 4), hash ^ (1u << 11));
  CHECK(other[2] != words[2]);
}

TEST_CASE("the decision is made where the stream runs") {
  zero::HostStream stream;
  std::vector<double> const records = laid_out({{9}, {16}});
  Decision d;
  zero::decide(stream, zero::View<double const, zero::Host>(records.data(), std::ssize(records)),
               zero::View<Decision, zero::Host>(&d, 1), DecisionInputs{.ranks = 2}, rate);
  CHECK(d.norm == 5);
  CHECK(d.updates == 1);
}

}  // namespace
