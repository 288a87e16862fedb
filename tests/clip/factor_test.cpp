// SPDX-License-Identifier: Apache-2.0
#include <archetypes/rig.hpp>
#include <clip/oracle.hpp>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>

namespace {

using zero::Index;
using zero::Reduction;

/// Holds the decision of every rank against the oracle. Norms are sums of squares in another order,
/// so they differ by a few roundings of doubles; the factor is rounded to float once.
void check(rig::Setup const& setup, int world, Index micro_batches) {
  double const norm = clip::norm(setup, world, micro_batches);
  double const limit = static_cast<double>(setup.options.clip);
  double const factor = clip::clip_factor(norm, limit);
  double const mean = 1.0 / static_cast<double>(world * micro_batches);
  CAPTURE(setup);
  CAPTURE(world);
  CAPTURE(micro_batches);
  for (zero::Decision const& d : clip::decisions(setup, world, micro_batches)) {
    CHECK(d.skip == 0);
    CHECK(clip::last_places(d.norm, norm) < 8);
    CHECK(clip::last_places(d.clip_factor, factor) < 12);
    CHECK(d.clip_factor <= 1.0);
    CHECK(std::abs(static_cast<double>(d.factor) - mean * factor) <=
          mean * factor * 1.2e-7 + 1.5e-45);
    if (limit > 0) CHECK(d.clipped_norm() <= limit * (1 + 1e-15));
  }
}

rig::Setup setup_of(int stage, bool bf16, int exponent = 0) {
  return {.units = clip::units(),
          .schedule = clip::tied_schedule(),
          .stage = stage,
          .bf16 = bf16,
          .gradient = clip::whole_numbers(exponent)};
}

}  // namespace

TEST_CASE("norm and factor at every stage, world, accumulation and moment of reduction") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2, 3, 4, 8}) {
      for (Index accumulation : {1, 3}) {
        for (Reduction moment : {Reduction::boundary, Reduction::micro_batch}) {
          for (bool bf16 : {false, true}) {
            rig::Setup setup = setup_of(stage, bf16);
            setup.options.accumulation = accumulation;
            setup.options.reduction = moment;
            setup.options.clip = 1;
            check(setup, world, accumulation);
          }
        }
      }
    }
  }
}

TEST_CASE("every stage reports the same bits at one world and moment") {
  for (int world : {1, 3, 4}) {
    for (Reduction moment : {Reduction::boundary, Reduction::micro_batch}) {
      rig::Setup setup = setup_of(0, true);
      setup.options.accumulation = 3;
      setup.options.reduction = moment;
      setup.options.clip = 2;
      zero::Decision const first = clip::decisions(setup, world, 3)[0];
      for (int stage = 0; stage <= 3; ++stage) {
        setup.stage = stage;
        for (zero::Decision const& d : clip::decisions(setup, world, 3)) {
          CHECK(d.norm == first.norm);
          CHECK(d.clip_factor == first.clip_factor);
          CHECK(d.factor == first.factor);
        }
      }
    }
  }
}

TEST_CASE("the mean is over the micro-batches that were given") {
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Setup setup = setup_of(stage, true);
    setup.options.accumulation = 3;
    setup.options.clip = 0.5f;
    for (Index given : {1, 2}) check(setup, 2, given);
  }
}

TEST_CASE("clip 0 leaves gradients as they are, whatever their norm") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int exponent : {-60, 0, 60}) {
      rig::Setup const setup = setup_of(stage, false, exponent);
      check(setup, 3, 1);
      for (zero::Decision const& d : clip::decisions(setup, 3, 1)) CHECK(d.clip_factor == 1.0);
    }
  }
}

TEST_CASE("gradients whose squares overflow a float have a norm and a factor") {
  // Sums reach 144 x 2^120, just below the largest float; their squares are 10^76.
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool bf16 : {false, true}) {
      for (int world : {1, 3, 8}) {
        rig::Setup setup = setup_of(stage, bf16, 120);
        setup.options.accumulation = 3;
        setup.options.clip = 1;
        check(setup, world, 3);
        setup.options.clip = std::numeric_limits<float>::max();
        check(setup, world, 3);
      }
    }
  }
}

TEST_CASE("gradients whose squares vanish in a float have a norm and a factor") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int exponent : {-120, -149}) {
      bool const bf16 = exponent == -120;  // bf16 holds nothing as small as the other
      rig::Setup setup = setup_of(stage, bf16, exponent);
      setup.options.clip = 1;
      check(setup, 3, 1);
      CHECK(clip::decisions(setup, 3, 1)[2].norm > 0);
      // The 10^-6 in the factor's divisor weighs more than such a norm.
      setup.options.clip = 1e-7f;
      check(setup, 3, 1);
      CHECK(clip::decisions(setup, 3, 1)[2].clip_factor == doctest::Approx(0.1));
    }
  }
}

TEST_CASE("a gradient of zeros has norm 0 and is left alone") {
  for (int stage = 0; stage <= 3; ++stage) {
    rig::Setup setup = setup_of(stage, true);
    setup.gradient = [](rig::Batch const&, int, Index, Index) { return 0.0f; };
    setup.options.clip = 1;
    for (zero::Decision const& d : clip::decisions(setup, 2, 1)) {
      CHECK(d.norm == 0.0);
      CHECK(d.clip_factor == 1.0);
      CHECK(d.skip == 0);
    }
  }
}

TEST_CASE("at the limit, and next to it") {
  // Two elements, 3 and 4 on every rank: the norm of the mean is 5 exactly.
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2, 3, 8}) {
      rig::Setup setup{.units = {{"a", {clip::tensor("a", {1})}}, {"b", {clip::tensor("b", {1})}}},
                       .stage = stage,
                       .gradient = [](rig::Batch const&, int unit, Index, Index) {
                         return unit == 0 ? 3.0f : 4.0f;
                       }};
      auto const decided = [&](float limit) {
        setup.options.clip = limit;
        return clip::decisions(setup, world, 1).back();
      };
      float const above = std::nextafter(5.0f, 6.0f);  // 4.8e-7 above: within the 1e-6
      float const far_above = 5.000002f;
      CAPTURE(setup);
      CAPTURE(world);
      CHECK(clip::last_places(decided(5.0f).norm, 5.0) < 4);
      CHECK(clip::last_places(decided(5.0f).clip_factor, 5.0 / (5.0 + 1e-6)) < 4);
      CHECK(decided(5.0f).clip_factor < 1.0);
      CHECK(decided(above).clip_factor < 1.0);
      CHECK(clip::last_places(decided(above).clip_factor,
                              static_cast<double>(above) / (5.0 + 1e-6)) < 4);
      CHECK(decided(far_above).clip_factor == 1.0);
      CHECK(clip::last_places(decided(1.0f).clip_factor, 1.0 / (5.0 + 1e-6)) < 4);
    }
  }
}

TEST_CASE("gradients that are no whole numbers: within the roundings that were made") {
  // Each rank's element is rounded to the gradient's type as it is added (2 visits at most, 1 for
  // most units), sums over micro-batches and ranks are made in float and rounded once: no more than
  // V + 1 roundings to the type and N A + 1 to float, of numbers no larger than S, the sum of
  // magnitudes. So each element is off by at most ((V + 1) u_type + (N A + 1) u_float) S, and the
  // norm of the mean by at most that times the norm of S / (N A).
  constexpr int world = 4;
  constexpr Index A = 3;
  auto const gradient = [](rig::Batch const& batch, int unit, Index t, Index element) {
    return static_cast<float>(
        zero::noise_normal(3, unit * 100 + t * 10 + batch.rank * 1000 + batch.number, element));
  };
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool bf16 : {false, true}) {
      rig::Setup setup = setup_of(stage, bf16);
      setup.options.accumulation = A;
      setup.options.reduction = Reduction::boundary;
      setup.gradient = gradient;
      double const exact = clip::norm(setup, world, A);
      setup.gradient = [&](auto&&... key) { return std::abs(gradient(key...)); };
      double const magnitude = clip::norm(setup, world, A);
      setup.gradient = gradient;
      double const u_float = std::ldexp(1.0, -24);
      double const u_type = bf16 ? std::ldexp(1.0, -9) : u_float;
      double const bound = (3 * u_type + (world * A + 1) * u_float) * magnitude;
      double const error = std::abs(clip::decisions(setup, world, A)[1].norm - exact);
      CAPTURE(setup);
      INFO("error / bound = ", error / bound);
      CHECK(error <= bound);
    }
  }
}
