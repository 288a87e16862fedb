// SPDX-License-Identifier: Apache-2.0
// Finite gradients whose sum is not: in float, or only once it is rounded to bf16.
//
// The largest bf16 is M = 0x7f7f = (2 - 2^-7) 2^127; its last place is 2^120. M + 2^119 is half way
// to 2^128 and ties to even, away from M: infinity. In float M + 2^119 is finite, since float goes
// on to (2 - 2^-23) 2^127. M + 2^118 rounds back to M.

#include <support/agreement.hpp>

#include <cmath>
#include <vector>

namespace zero_test {
namespace {

float const most = std::ldexp(2.0f - 0x1p-7f, 127);
float const half_place = 0x1p119f;
float const quarter_place = 0x1p118f;

/// Element 5 of the third unit's first tensor: `values` [micro-batch][rank], 0 beyond; in step 2.
Config with_values(Family const& family, std::vector<std::vector<float>> const& values) {
  Config config;
  config.model = ragged_sizes();
  config = family.applied_to(config);
  config.options.clip = 1;
  config.alter = [values](Batch& batch) {
    if (batch.step != 1) return;
    auto const micro = zero::at(batch.micro);
    auto const rank = zero::at(batch.rank);
    bool const given = micro < values.size() && rank < values[micro].size();
    batch.poisons.push_back({2, 0, 5, given ? values[micro][rank] : 0.0f});
  };
  return config;
}

void check_skips(Config config, bool skips) {
  Result const reference = reference_of(config);
  INFO(describe(config));
  zero::Decision const& d = reference.steps[1].decisions[0];
  CHECK(d.skip == (skips ? 1 : 0));
  CHECK(d.bad_unit == (skips ? 2 : -1));
  CHECK(std::isfinite(d.norm) == !skips);
  // What is not skipped is clipped, and nothing of it is lost.
  for (float w : reference.snapshots.back().weights[3]) CHECK(std::isfinite(w));
  for (int stage : {1, 2, 3}) {
    config.stage = stage;
    check_against(reference, config);
  }
}

TEST_CASE("a sum over ranks that is finite in float and not in bf16 skips in bf16 alone") {
  for (bool bf16 : {false, true}) {
    check_skips(with_values({2, bf16}, {{most, half_place}}), bf16);
    check_skips(with_values({3, bf16}, {{half_place, 0, most}}), bf16);
    check_skips(with_values({2, bf16}, {{most, quarter_place}}), false);
  }
}

TEST_CASE("a sum over ranks that is not finite in float skips in both precisions") {
  for (bool bf16 : {false, true}) {
    check_skips(with_values({2, bf16}, {{most, most}}), true);
    check_skips(with_values({4, bf16}, {{-most, 0, -most, 0}}), true);
    // Ranks are added in order: the way counts, not the end.
    check_skips(with_values({3, bf16}, {{most, most, -most}}), true);
    check_skips(with_values({3, bf16}, {{most, -most, most}}), false);
  }
}

TEST_CASE("micro-batches are added in float and rounded once, for the wire") {
  auto const boundary = zero::Reduction::boundary;
  auto const micro_batch = zero::Reduction::micro_batch;
  std::vector<std::vector<float>> const on_one_rank{{most}, {half_place}};
  for (bool bf16 : {false, true}) {
    // At the boundary the rank's own sum goes on the wire; a rank alone has none.
    check_skips(with_values({2, bf16, 3, boundary}, on_one_rank), bf16);
    check_skips(with_values({1, bf16, 3, boundary}, on_one_rank), false);
    // With every micro-batch what goes on the wire is finite, and so is the float sum of it.
    check_skips(with_values({2, bf16, 3, micro_batch}, on_one_rank), false);
    check_skips(with_values({1, bf16, 3, micro_batch}, on_one_rank), false);
    // And where one micro-batch's sum over ranks is not.
    check_skips(with_values({2, bf16, 3, micro_batch}, {{0}, {most, half_place}}), bf16);
    check_skips(with_values({1, bf16, 3, micro_batch}, {{most}, {most}}), true);
  }
}

}  // namespace
}  // namespace zero_test
