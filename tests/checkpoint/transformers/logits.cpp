// SPDX-License-Identifier: Apache-2.0
// exchange_logits MODEL LAYERS WIDTH HEADS CONTEXT TOKEN...
// Reads a model of transformers at stage 3 on two ranks and prints, for every beginning of the
// tokens, the logits of the token that follows: a line each.
#include <zero/checkpoint.hpp>
#include <zero/launch/threads.hpp>
#include <zero/step/trainer.hpp>

#include <gpt2/model.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  std::vector<zero::Index> numbers;
  for (int i = 2; i < argc; ++i) numbers.push_back(std::stoll(argv[i]));
  if (numbers.size() < 5) return 2;
  gpt2::Configuration const size{.context = numbers[3],
                                 .width = numbers[1],
                                 .heads = numbers[2],
                                 .layers = numbers[0]};
  std::vector<gpt2::Token> tokens;
  for (std::size_t i = 4; i < numbers.size(); ++i)
    tokens.push_back(static_cast<gpt2::Token>(numbers[i]));
  try {
    zero::launch<zero::Threads>(2, [&](zero::ThreadCommunicator<zero::Host> ranks) {
      int const rank = ranks.rank();
      zero::Trainer<gpt2::Gpt2, zero::ThreadCommunicator<zero::Host>, zero::AdamW,
                    zero::Policies<zero::Sharded<3>>>
          trainer(gpt2::Gpt2(size), ranks, zero::AdamW{}, zero::Sharded<3>{});
      zero::load_model(trainer, argv[1]);
      for (std::size_t n = 1; n <= tokens.size(); ++n) {
        trainer.evaluate([&](auto& pass) {
          auto const logits = trainer.model().next_logits(pass, std::span(tokens).first(n));
          if (rank != 0) return;
          for (float x : logits) std::printf("%.9g ", static_cast<double>(x));
          std::printf("\n");
        });
      }
    });
  } catch (std::exception const& e) {
    std::fprintf(stderr, "exchange_logits: %s\n", e.what());
    return 1;
  }
  return 0;
}
