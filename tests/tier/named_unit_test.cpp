// SPDX-License-Identifier: Apache-2.0
// The unit in which a gradient is not finite is named by backward's own order, wherever state lies.
#include <zero/zero.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace {

using zero::at;
using zero::Index;

/// Three units in an order of their own: forward 1, 2, 0, and backward the other way.
struct Permuted {
  using Batch = std::vector<int>;  ///< units whose gradient is not finite
  zero::Units units() const {
    return {{"a", {{"a.w", {70}}}}, {"b", {{"b.w", {300}}}}, {"c", {{"c.w", {65}}}}};
  }
  zero::Schedule schedule() const {
    using enum zero::Phase;
    return {{1, forward}, {2, forward}, {0, forward}, {0, backward}, {2, backward}, {1, backward}};
  }
  template <class Pass>
  void operator()(Pass& pass, Batch const& bad) {
    for (int u : {1, 2, 0}) auto const lease = pass.forward(u);
    if constexpr (Pass::trains) {
      for (int u : {0, 2, 1}) {
        auto const [w, g] = pass.backward(u);
        for (float& x : g[0].span()) x += 1;
        for (int b : bad) {
          if (b == u) g[0].span().back() = std::numeric_limits<float>::infinity();
        }
      }
    }
  }
};

/// @param options of a trainer that keeps things as S says
template <class S>
void check_named(zero::Options const& options = {}) {
  zero::launch<zero::Threads>(2, [&](auto ranks) {
    zero::Trainer trainer{Permuted{}, ranks, zero::AdamW{}, options, S{}};
    // What each rank has, and the unit that backward is done with first of all of those.
    struct Row {
      std::vector<int> bad[2];
      Index named;
    };
    for (Row const& row : {Row{{{1, 2, 0}, {}}, 0}, Row{{{1, 2}, {}}, 2}, Row{{{1}, {2}}, 2},
                           Row{{{0}, {2}}, 0}, Row{{{}, {1}}, 1}, Row{{{}, {}}, -1}}) {
      trainer.step(row.bad[at(ranks.rank())]);
      zero::Decision const d = trainer.decision();
      CHECK(d.bad_unit == row.named);
      CHECK(d.skip == (row.named < 0 ? 0 : 1));
    }
  });
}

}  // namespace

TEST_CASE("backward's order names the unit, with state on the device, below it and in both") {
  using zero::OnHost;
  check_named<zero::Sharded<0>>();
  check_named<zero::Sharded<2>>();
  check_named<zero::Sharded<2, zero::Offload<OnHost>>>();
  zero::Options both;
  both.offload.ratio = 0.5;
  check_named<zero::Sharded<3, zero::Offload<OnHost, OnHost>>>();
  check_named<zero::Sharded<3, zero::Offload<OnHost, zero::OnDevice>>>(both);
}
