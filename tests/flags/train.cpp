// SPDX-License-Identifier: Apache-2.0
// A small training with every optimizer and storage of the menu, whose hashes may not depend on how
// the program was compiled. Compiled and run by compare.sh; the model's own arithmetic is the
// user's affair, so gradients are given.
#include <zero/zero.hpp>

#include <cases/given_gradients.hpp>

#include <cstdint>
#include <cstdio>

namespace {

zero::Units units() {
  return {{"a", {{"a.w", {41, 7}, zero::Initial::normal(0.3, 0.1)}, {"a.b", {70}}}},
          {"b", {{"b.w", {129}, zero::Initial::uniform(-0.7, 0.9)}}}};
}

template <class Precision, class State, class O>
void train(char const* name, O const& optimizer) {
  zero::launch<zero::Threads>(2, [&](auto ranks) {
    zero::Trainer trainer{cases::GivenGradients{units()},
                          ranks,
                          optimizer,
                          zero::Options{.clip = 3},
                          zero::Sharded<2>{},
                          Precision{},
                          State{}};
    for (int step = 0; step < 20; ++step) {
      std::vector<float> gradients;
      for (zero::Index i = 0; i < 41 * 7 + 70 + 129; ++i)
        gradients.push_back(static_cast<float>(zero::noise_normal(step, ranks.rank(), i) *
                                               (i % 9 == 0 ? 1e-3 : 1)));
      trainer.step(gradients);
    }
    auto const hash = zero::parameters_hash(trainer);
    if (ranks.rank() == 0)
      std::printf("%s %s %016llx\n", name, Precision::name, static_cast<unsigned long long>(hash));
  });
}

template <class O>
void train(char const* name, O const& optimizer) {
  train<zero::Fp32, zero::State<float>>(name, optimizer);
  train<zero::Bf16Split, zero::State<zero::bf16>>(name, optimizer);
}

}  // namespace

int main() {
  train("adamw", zero::AdamW{.weight_decay = 0.1f});
  train("adam", zero::Adam{.weight_decay = 0.1f});
  train("lamb", zero::Lamb{.weight_decay = 0.1f});
  train("lion", zero::Lion{.weight_decay = 0.1f});
  train("adagrad", zero::Adagrad{.lr_decay = 0.1f, .weight_decay = 0.1f});
  train("sgd", zero::Sgd{.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.1f, .nesterov = true});
}
