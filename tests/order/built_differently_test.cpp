// SPDX-License-Identifier: Apache-2.0
// Everything that ranks must have alike is compared before step 1, and the first difference named.

#include <doctest/doctest.h>
#include <order/visits_model.hpp>

#include <functional>
#include <utility>
#include <vector>

namespace zero_test {
namespace {

template <int Stage>
void differs(std::string const& what, std::function<void(zero::Options&)> const& change) {
  for (int culprit : {1, 2}) {
    std::string const text = failure_of(3, [&](auto ranks) {
      zero::Options options{.accumulation = 2, .clip = 1};
      if (ranks.rank() == culprit) change(options);
      zero::Trainer trainer{VisitsModel{}, ranks, zero::AdamW{}, options, zero::Sharded<Stage>{}};
    });
    CHECK(text == "ranks were built differently: rank " + std::to_string(culprit) +
                      " differs from rank 0 in " + what);
  }
}

TEST_CASE("every option that differs on a rank is named") {
  std::vector<std::pair<char const*, std::function<void(zero::Options&)>>> const changes{
      {"accumulation", [](zero::Options& o) { o.accumulation = 3; }},
      {"clip", [](zero::Options& o) { o.clip = std::nextafter(1.0f, 2.0f); }},
      {"reduction", [](zero::Options& o) { o.reduction = zero::Reduction::micro_batch; }},
      {"prefetch", [](zero::Options& o) { o.prefetch = 2; }},
      {"overlap", [](zero::Options& o) { o.overlap = false; }},
      {"bucket", [](zero::Options& o) { o.bucket = zero::Index{1} << 40; }},
      {"persistence_threshold", [](zero::Options& o) { o.persistence_threshold = 1; }},
      {"release_after_forward", [](zero::Options& o) { o.release_after_forward = false; }},
      {"seed", [](zero::Options& o) { o.seed = 2; }}};
  for (auto const& [name, change] : changes) {
    differs<0>(std::string("Options::") + name, change);
    if (name != std::string("reduction")) differs<3>(std::string("Options::") + name, change);
  }
  differs<3>("Options::reduction",
             [](zero::Options& o) { o.reduction = zero::Reduction::boundary; });
}

TEST_CASE("a model of other sizes, or another policy, is named") {
  std::string const layout = failure_of(2, [](auto ranks) {
    zero::Trainer trainer{VisitsModel{.elements = 100 + ranks.rank()}, ranks, zero::AdamW{}};
  });
  CHECK(layout == "ranks were built differently: rank 1 differs from rank 0 in the model's layout");
  std::string const policy = failure_of(2, [](auto ranks) {
    if (ranks.rank() == 0) {
      zero::Trainer trainer{VisitsModel{}, ranks, zero::AdamW{}, zero::Sharded<1>{}};
    } else {
      zero::Trainer trainer{VisitsModel{}, ranks, zero::AdamW{}, zero::Sharded<2>{}};
    }
  });
  CHECK(policy == "ranks were built differently: rank 1 differs from rank 0 in the policy");
}

}  // namespace
}  // namespace zero_test
