// SPDX-License-Identifier: Apache-2.0
// At stage 3 a GPT needs room for no whole copy of itself, whatever is done with it.
#include <zero/zero.hpp>

#include <doctest/doctest.h>
#include <gpt2/generate.hpp>
#include <gpt2/model.hpp>
#include <gpt2/units.hpp>

#include <atomic>

namespace {

using gpt2::Index, gpt2::Token;

TEST_CASE("a GPT trains, is evaluated and writes text in less memory than its parameters take") {
  gpt2::Configuration const size{
      .vocabulary = 64, .context = 8, .width = 64, .heads = 2, .layers = 16};
  gpt2::TokenBatch const batch{.length = 4, .inputs = {1, 2, 3, 4}, .targets = {2, 3, 4, 5}};
  Index limit = -1;
  for (auto const& unit : gpt2::units_of(size)) {
    for (auto const& tensor : unit.tensors) limit += tensor.elements() * Index{sizeof(zero::bf16)};
  }
  constexpr int world = 16;
  std::vector<std::vector<Token>> texts(world);
  std::atomic<int> done = 0;
  zero::launch<zero::Threads>(world, [&](auto communicator) {
    zero::Ledger& ledger = communicator.device().ledger();
    ledger.limit_bytes(limit);
    zero::Trainer trainer(gpt2::Gpt2(size), communicator, zero::AdamW{}, zero::Options{.clip = 1},
                          zero::Sharded<3>{}, zero::Bf16Mixed{});
    for (int s = 0; s < 2; ++s) trainer.step(batch);
    trainer.evaluate(batch);
    texts[zero::at(communicator.rank())] =
        gpt2::generate({1}, size.context, {.tokens = 12}, [&](std::span<Token const> seen) {
          std::span<float const> logits;
          trainer.evaluate([&](auto& pass) { logits = trainer.model().next_logits(pass, seen); });
          return logits;
        });
    if (ledger.peak_bytes() <= limit && trainer.decision().updates == 2) ++done;
  });
  CHECK(done == world);
  CHECK(texts[0].size() == 12);
  for (auto const& text : texts) CHECK(text == texts[0]);
}

}  // namespace
