// SPDX-License-Identifier: Apache-2.0
// Reduced gradients against sums in double, where every rank's own gradients are known exactly: the
// model writes numbers c with |c| <= 1 that the gradient type holds. What is left is the error of
// the reduction, and its bound is sharp.
//
// N ranks, A micro-batches, C = sum of all |c| <= N A, S the sum; u = 2^-24 of float, h = 2^-8 of
// bf16; a sum of k floats in any order is off by at most (k - 1) u times the sum of magnitudes, to
// first order in u.
//   fp32:  N A - 1 additions on the longest way:              (N A - 1) u C
//          N = 8, A = 3:  23 x 2^-24 x 24 = 3.3e-5 at most, 1.4e-6 C
//   bf16, A = 1: float additions of exact bf16 numbers, then one rounding:
//                                                             h |S| + (N - 1) u C
//   bf16, micro-batch: that for each S_m, then A - 1 float additions:
//                                                             h (|S_1| + ... + |S_A|) + (N + A) u C
//   bf16, boundary: each rank's sum s_r is rounded for the wire, and their sum once more:
//                                       h (|s_1| + ... + |s_N|) + h |S| (1 + h) + (N + A) u C
//          N = 8, A = 3, worst case |s_r| = 3: 2^-8 x 24 x 2 = 0.19 where S is up to 24
// The test computes these element by element, with the running rules of tracked.hpp, which are
// never above these to first order. Coarse gradients, multiples of 1/64 of which three add up
// exactly in bf16, take the terms of s_r and of u out of the bound. What each fault adds:
//   a sum kept in 16 bits: h times every partial sum, which are not small where S is
//   rounded twice: another h |S|, so up to twice the bound where the bound is h |S|
//   rounded early: h |c| in fp32, 2^16 times u
//   a rank missing or twice: |c|, or |s_r|, itself

#include <equivalence/reduction.hpp>
#include <support/agreement.hpp>

#include <cstdio>
#include <string>

namespace zero_test {
namespace {

using Values = std::vector<std::vector<float>>;

/// [micro-batch][rank], of one element.
Values contributions(Config const& config, Given given, int step, zero::Index tensor,
                     zero::Index element) {
  Values values(zero::at(config.options.accumulation));
  for (std::size_t m = 0; m < values.size(); ++m) {
    for (int r = 0; r < config.world; ++r) {
      Batch const batch{r, step, static_cast<int>(m)};
      values[m].push_back(config.bf16 ? given_gradient<zero::bf16>(batch, tensor, element, given)
                                      : given_gradient<float>(batch, tensor, element, given));
    }
  }
  return values;
}

/// The same, to be followed. Fine ones are said to be off by next to nothing, so that what is
/// measured is the general rule, and not that some sums happen to be exact.
std::vector<std::vector<Tracked>> followed(Values const& given, Given kind) {
  std::vector<std::vector<Tracked>> result;
  for (auto const& ranks : given) {
    auto& row = result.emplace_back();
    for (float c : ranks)
      row.emplace_back(static_cast<double>(c), kind == Given::coarse ? 0 : 0x1p-200);
  }
  return result;
}

/// The bound of the head of this file, for one element.
double closed_form(Values const& given, Path path) {
  double const micro_batches = static_cast<double>(given.size());
  double const ranks = static_cast<double>(given[0].size());
  double magnitudes = 0, sum = 0, by_micro_batch = 0, by_rank = 0;
  for (auto const& row : given) {
    double s = 0;
    for (float c : row)
      s += static_cast<double>(c), magnitudes += std::fabs(static_cast<double>(c));
    sum += s;
    by_micro_batch += std::fabs(s);
  }
  for (std::size_t r = 0; r < given[0].size(); ++r) {
    double s = 0;
    for (auto const& row : given) s += static_cast<double>(row[r]);
    by_rank += std::fabs(s);
  }
  double const additions = (ranks * micro_batches - 1) * u32 * magnitudes;
  if (!path.halves || ranks == 1) return additions;
  if (!path.accumulates) return u16 * std::fabs(sum) + additions * (1 + u16);
  if (!path.boundary) return u16 * by_micro_batch + additions * (1 + 3 * u16);
  return u16 * by_rank + u16 * (std::fabs(sum) + u16 * by_rank) + additions * (1 + 3 * u16);
}

struct Found {
  Ratio error;       ///< of the library, in parts of the running bound
  Ratio closed;      ///< the same, in parts of the closed form
  Ratio fault[6];    ///< of each fault
  bool bits = true;  ///< the library gives the bits of the sum written out
};

Found measure(Config const& config, Given kind, Result const& result) {
  Found found;
  Path const path{
      config.bf16, config.options.accumulation > 1,
      config.options.reduction.value_or(zero::Reduction::boundary) == zero::Reduction::boundary};
  for (Snapshot const& snapshot : result.snapshots) {
    for (std::size_t t = 0; t < snapshot.gradients.size(); ++t) {
      for (std::size_t i = 0; i < snapshot.gradients[t].size(); ++i) {
        Values const given =
            contributions(config, kind, snapshot.step - 1, static_cast<zero::Index>(t),
                          static_cast<zero::Index>(i));
        Tracked const expected = reduced(followed(given, kind), path);
        float const got = snapshot.gradients[t][i];
        found.error.add(static_cast<double>(got), expected);
        found.closed.add(static_cast<double>(got), {expected.value, closed_form(given, path)});
        found.bits = found.bits && got == reduced(given, path);
        for (std::size_t k = 1; k < 6; ++k)
          found.fault[k].add(static_cast<double>(reduced(given, path, static_cast<Fault>(k))),
                             expected);
      }
    }
  }
  return found;
}

/// Whether a fault must show. In bf16 at the boundary a second rounding hides behind those of the
/// ranks' own sums, unless the gradients are coarse, whose sums are exact; and coarse partial sums
/// lose nothing in 16 bits.
bool must_show(Config const& config, Given given, Fault fault) {
  int const terms = config.world * static_cast<int>(config.options.accumulation);
  bool const power_of_two = (terms & (terms - 1)) == 0;
  switch (fault) {
    case Fault::sixteen_bit_sum:
      return given == Given::fine && (!config.bf16 || terms > 2);
    case Fault::rounded_twice:
      return config.bf16 && !power_of_two &&
             (given == Given::coarse || config.options.reduction != zero::Reduction::boundary);
    case Fault::rounded_early:
      return given == Given::fine && !config.bf16;
    default:
      return true;
  }
}

Director giving(ModelSpec const& model, Given given) {
  Script script = in_order(model);
  script.given = given;
  return [script](Batch const&, bool) { return script; };
}

void check(Config config, Given given) {
  config.direct = giving(config.model, given);
  Result const reference = reference_of(config);
  for (int stage : {1, 2, 3}) {
    config.stage = stage;
    check_against(reference, config);
  }
  Found const found = measure(config, given, reference);
  std::string const where = describe(config) + (given == Given::fine ? ", fine" : ", coarse") +
                            ": error/bound " + std::to_string(found.error.greatest());
  std::printf("%s, /closed form %.4f; of faults %.1f %.1f %.1f %.1f %.1f\n", where.c_str(),
              found.closed.greatest(), found.fault[1].greatest(), found.fault[2].greatest(),
              found.fault[3].greatest(), found.fault[4].greatest(), found.fault[5].greatest());
  CHECK_MESSAGE(found.bits, where << ": not the bits of the sum written out");
  CHECK_MESSAGE(found.error.greatest() <= 1, where);
  CHECK_MESSAGE(found.closed.greatest() <= 1, where);
  for (std::size_t k = 1; k < 6; ++k) {
    if (!must_show(config, given, static_cast<Fault>(k))) continue;
    CHECK_MESSAGE(found.fault[k].greatest() > 1, where << ": fault " << k << " is not seen");
  }
}

TEST_CASE("reduced gradients are within the bound of exact sums, and planted faults are not") {
  for (Family const& family : families({2, 3, 4, 8})) {
    Config config;
    config.model = ragged_sizes();
    config.steps = 2;
    for (Given given : {Given::fine, Given::coarse}) check(family.applied_to(config), given);
  }
}

TEST_CASE("gradients of one rank are its own, to the bit") {
  for (Family const& family : families({1})) {
    Config config;
    config.model = everything();
    config.steps = 2;
    config.model.chain = {0, 1, 2, 3, 4, 5, 6};  // each unit once: one contribution an element
    config.model.schedule = there_and_back(config.model.chain);
    config = family.applied_to(config);
    config.direct = giving(config.model, Given::fine);
    CHECK(measure(config, Given::fine, run(config)).bits);
  }
}

}  // namespace
}  // namespace zero_test
