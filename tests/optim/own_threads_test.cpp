// SPDX-License-Identifier: Apache-2.0
// Threads that share a rank's updates: within a trainer, asked for by launch or by the device, with
// the bits of one thread.

#include <zero/zero.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace zero_test {
namespace {

/// So large that every thread has a part: least work is shared from some thousand elements on.
struct Wide {
  using Batch = float;
  static constexpr zero::Index elements = 100'000;

  zero::Units units() const { return {{"wide", {{"w", {elements}, zero::Initial::normal(0.5)}}}}; }
  template <class Pass>
  double operator()(Pass& pass, Batch const& shift) {
    double loss = 0;
    {
      auto const w = pass.forward(0);
      for (auto x : w[0].span()) loss += static_cast<double>(static_cast<float>(x));
    }
    if constexpr (Pass::trains) {
      auto const [w, g] = pass.backward(0);
      for (zero::Index i = 0; i < elements; ++i) {
        std::size_t const k = zero::at(i);
        g[0].span()[k] = typename Pass::Gradient(std::sin(shift + static_cast<float>(i % 977)) +
                                                 static_cast<float>(w[0].span()[k]));
      }
    }
    return loss;
  }
};

template <class C, class Precision>
std::uint64_t trained(C communicator, Precision precision) {
  zero::Trainer trainer{Wide{}, communicator, zero::AdamW{.lr = 0.01f}, zero::Sharded<1>{},
                        precision};
  for (int step = 0; step < 4; ++step)
    trainer.step(static_cast<float>(step + 10 * communicator.rank()));
  return zero::parameters_hash(trainer);
}

template <class Precision>
std::uint64_t launched(int ranks, int threads) {
  std::uint64_t hash = 0;
  zero::launch<zero::Threads>(ranks,
                              [&](auto communicator) {
                                std::uint64_t const mine = trained(communicator, Precision{});
                                if (communicator.rank() == 0) hash = mine;
                              },
                              {.threads = threads});
  return hash;
}

TEST_CASE("a rank's own threads, asked for by launch, give the bits of one") {
  for (int ranks : {1, 2}) {
    for (int threads : {2, 3, 5}) {
      CHECK(launched<zero::Fp32>(ranks, threads) == launched<zero::Fp32>(ranks, 1));
      CHECK(launched<zero::Bf16Mixed>(ranks, threads) == launched<zero::Bf16Mixed>(ranks, 1));
    }
  }
}

TEST_CASE("a single rank trains on a device with threads") {
  std::uint64_t const one = trained(zero::SingleRank<>{}, zero::Bf16Mixed{});
  CHECK(trained(zero::SingleRank<>{zero::Host(3)}, zero::Bf16Mixed{}) == one);
}

TEST_CASE("two trainers in two threads that share a host's threads have the bits of one alone") {
  std::uint64_t const one = trained(zero::SingleRank<>{}, zero::Bf16Mixed{});
  zero::Host const host(3);
  std::uint64_t hashes[2] = {};
  auto const train = [&](std::uint64_t& hash) {
    hash = trained(zero::SingleRank<>{zero::Host(host)}, zero::Bf16Mixed{});
  };
  std::thread other(train, std::ref(hashes[1]));
  train(hashes[0]);
  other.join();
  CHECK(hashes[0] == one);
  CHECK(hashes[1] == one);
}

TEST_CASE("no threads are refused") {
  std::string text;
  try {
    launched<zero::Fp32>(1, 0);
  } catch (zero::InvalidArgument const& e) {
    text = e.what();
  }
  CHECK(text == "HostWorkers: 0 threads; expected at least 1");
}

TEST_CASE("a LAMB that corrects its rate has a finite one before its first update") {
  zero::Lamb const lamb{.lr = 0.5f, .correction = zero::LambCorrection::rate};
  CHECK(std::isfinite(lamb.learning_rate(0)));
  CHECK(lamb.learning_rate(0) == lamb.learning_rate(1));
}

}  // namespace
}  // namespace zero_test
