// SPDX-License-Identifier: Apache-2.0
// Weights and states 2^28 bytes apart, which caches of some processors take for one another: what
// an update then does by way of copies has the bits of the arithmetic, element by element.
#include <zero/core/noise.hpp>
#include <zero/optim/adagrad.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/sgd.hpp>

#include <doctest/doctest.h>
#include <optim/slice.hpp>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

namespace {

using namespace optim_test;
using zero::bf16;
using zero::Stored;

constexpr Index n = 512, begin = 64, end = 448;

/// What an update reads and writes, states `distance` bytes behind the weights.
template <class O, class P>
struct RowsAt {
  using Update = zero::ElementUpdate<O, bf16, P>;
  using Storage = typename Update::Storage;
  using Master = typename Storage::Master;
  using State = typename Storage::State;
  static constexpr Index state_bytes = O::num_states * n * static_cast<Index>(sizeof(State));

  explicit RowsAt(Index distance)
      : memory(new std::byte[at(distance + state_bytes)]),
        weights(new (memory.get()) Master[at(n)]),
        states(new (memory.get() + distance) State[at(O::num_states * n)]) {
    for (Index i = 0; i < n; ++i) {
      float const w = static_cast<float>(zero::noise_normal(1, 0, i));
      gradients.emplace_back(static_cast<float>(zero::noise_normal(2, 0, i)));
      if constexpr (Storage::splits) {
        rounded.push_back(zero::UpperHalf(w).rounded());
        weights[i] = zero::LowerHalf(w);
      } else {
        rounded.emplace_back(0.0f);
        weights[i] = w;
      }
    }
    for (Index i = 0; i < O::num_states * n; ++i)
      states[i] = State(std::abs(static_cast<float>(zero::noise_normal(3, 0, i))));
  }

  Update update(O const& optimizer, Index t) {
    Update u{
        optimizer, optimizer.constants(t), gradients.data(), weights, states, nullptr, n, 0.37f,
        {5, t}};
    if constexpr (!std::is_same_v<P, float>) u.rounded = rounded.data();
    u.segment = {begin, end, 3, 1000, 0.7f, 1};
    u.rate = 0.013f;
    return u;
  }

  std::unique_ptr<std::byte[]> memory;  // not a vector: most of it is never touched
  Master* weights;
  State* states;
  std::vector<bf16> gradients;
  std::vector<typename Storage::Parameter> rounded;
};

template <class P, class O>
void check(O const& optimizer) {
  using Rows = RowsAt<O, P>;
  Rows one_by_one(4096), found(Index{1} << 28);
  for (Index t = 1; t <= 3; ++t) {
    auto const u = one_by_one.update(optimizer, t);
    for (Index i = begin; i < end; ++i) u(i);
    update_range(found.update(optimizer, t), begin, end);
  }
  CHECK(std::memcmp(found.weights, one_by_one.weights, at(n) * sizeof(typename Rows::Master)) == 0);
  CHECK(std::memcmp(found.states, one_by_one.states, at(Rows::state_bytes)) == 0);
  CHECK(std::memcmp(found.rounded.data(), one_by_one.rounded.data(),
                    at(n) * sizeof(found.rounded[0])) == 0);
}

template <class O>
void check_storages(O const& optimizer) {
  check<float>(optimizer);
  check<bf16>(optimizer);
  check<Stored<bf16, bf16>>(optimizer);
  check<Stored<bf16, float, true>>(optimizer);
}

}  // namespace

TEST_CASE("rows that collide are updated as any others, in every storage") {
  check_storages(zero::Lion{.weight_decay = 0.1f});
  check_storages(zero::Adagrad{.weight_decay = 0.1f});
  check_storages(zero::Sgd{.momentum = 0.9f, .weight_decay = 0.1f});
  check_storages(zero::AdamW{.weight_decay = 0.1f});
  check<zero::fp16>(zero::Lion{.weight_decay = 0.1f});
}
