// SPDX-License-Identifier: Apache-2.0
// A step that breaks off when a part of the state below the device has been updated: nothing of
// that becomes a checkpoint, and nothing is loaded over it.

#include <zero/checkpoint.hpp>
#include <zero/zero.hpp>

#include <checkpoint/memory_files.hpp>
#include <doctest/doctest.h>

namespace checkpoints {
namespace {

struct Fails {};

/// Visits six units, and throws before a backward visit where it is told to.
struct Chain {
  using Batch = int;
  int fails_at = -1;

  static zero::Units units() {
    zero::Units all;
    for (char const* name : {"a", "b", "c", "d", "e", "f"})
      all.push_back({name, {{std::string(name) + ".w", {640}, zero::Initial::normal(1)}}});
    return all;
  }
  template <class Pass>
  void operator()(Pass& pass, int) const {
    for (int u = 0; u < 6; ++u) pass.forward(u).end();
    if constexpr (Pass::trains) {
      for (int u = 6; u-- > 0;) {
        if (u == fails_at) throw Fails{};
        auto const lease = pass.backward(u);
      }
    }
  }
};

}  // namespace

TEST_CASE("a trainer that broke off behind early updates saves nothing and loads nothing") {
  MemoryFiles files;
  zero::Host device;
  zero::Trainer trainer{Chain{},
                        zero::SingleRank(device),
                        zero::AdamW{},
                        zero::Options{},
                        zero::Bf16Mixed{},
                        zero::Sharded<3, zero::Offload<zero::OnHost>>{},
                        zero::UncheckedGradients{}};
  trainer.step(0);
  zero::save(trainer, "run", {.files = &files});
  trainer.model().fails_at = 5;  // nothing is updated yet
  CHECK_THROWS_AS(trainer.step(0), Fails);
  zero::save(trainer, "run", {.files = &files});
  trainer.model().fails_at = 0;
  CHECK_THROWS_AS(trainer.step(0), Fails);
  auto const before = zero::find_checkpoint("run", files).folder;
  CHECK_THROWS_AS(zero::save(trainer, "run", {.files = &files}), zero::Error);
  CHECK_THROWS_AS(zero::load(trainer, "run", {.files = &files}), zero::Error);
  CHECK(zero::find_checkpoint("run", files).folder == before);
}

}  // namespace checkpoints
