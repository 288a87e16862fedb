// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sets of runs that must agree bit for bit, and the check that they do.

#include <doctest/doctest.h>
#include <support/runner.hpp>

#include <optional>
#include <vector>

namespace zero_test {

/// Buckets: every unit alone; a few small ones together, and less than one_large's; all together.
inline std::vector<zero::Index> const& buckets() {
  static std::vector<zero::Index> const all{0, 600, zero::Index{1} << 20};
  return all;
}

/// Runs it and checks it by itself and against the reference.
inline Result check_against(Result const& reference, Config const& config) {
  Result result = run(config);
  std::string const differs = difference(reference, result);
  CHECK_MESSAGE(differs.empty(), describe(config) << ": " << differs);
  std::string const wrong = fault(result, config.type());
  CHECK_MESSAGE(wrong.empty(), describe(config) << ": " << wrong);
  return result;
}

/// Stage 0 on the host, with no bucket, nothing resident and nothing ahead.
inline Result reference_of(Config config) {
  config.stage = 0;
  config.device = OnDevice::host;
  config.loop = Loop::trainer;
  config.options.bucket = 0;
  config.options.prefetch = 0;
  config.options.persistence_threshold = 0;
  Result result = run(config);
  std::string const wrong = fault(result, config.type());
  CHECK_MESSAGE(wrong.empty(), describe(config) << ": " << wrong);
  return result;
}

/// What the bits of a run may depend on: runs that differ in nothing else agree.
struct Family {
  int world = 1;
  bool bf16 = false;
  zero::Index accumulation = 1;
  std::optional<zero::Reduction> reduction{};

  Config applied_to(Config config) const {
    config.world = world;
    config.bf16 = bf16;
    config.options.accumulation = accumulation;
    config.options.reduction = reduction;
    return config;
  }
};

/// Both precisions; accumulation 1, where there is one moment of reduction, and 3 with both.
inline std::vector<Family> families(std::vector<int> const& worlds) {
  std::vector<Family> all;
  for (int world : worlds) {
    for (bool bf16 : {false, true}) {
      all.push_back({world, bf16, 1, std::nullopt});
      all.push_back({world, bf16, 3, zero::Reduction::boundary});
      all.push_back({world, bf16, 3, zero::Reduction::micro_batch});
    }
  }
  return all;
}

/// Every stage, prefetch 0 to 3 and bucket.
/// @param ahead prefetch below stage 3, too, where nothing is gathered
inline void check_all(Config config, bool ahead = true) {
  Result const reference = reference_of(config);
  for (int stage : {0, 1, 2, 3}) {
    config.stage = stage;
    for (int prefetch : {0, 1, 2, 3}) {
      if (stage < 3 && prefetch > 0 && !ahead) break;
      config.options.prefetch = prefetch;
      for (zero::Index bucket : buckets()) {
        config.options.bucket = bucket;
        check_against(reference, config);
      }
    }
  }
}

/// Every stage, with the pair of prefetch and bucket of this turn. families() gives six kinds a
/// world: where `turn` counts families, 12 worlds bring each kind at each stage to each of the 12
/// pairs.
inline void check_in_turn(Config config, int turn, std::vector<int> const& stages = {0, 1, 2, 3}) {
  Config on_host = config;
  Result const reference = reference_of(on_host);
  for (int stage : stages) {
    config.stage = stage;
    int const pair = turn + turn / 6;
    config.options.prefetch = pair % 4;
    config.options.bucket = buckets()[static_cast<std::size_t>(pair % 3)];
    check_against(reference, config);
  }
}

}  // namespace zero_test
