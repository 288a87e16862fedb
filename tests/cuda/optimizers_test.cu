// SPDX-License-Identifier: Apache-2.0
// Every optimizer of the menu, with every storage, has the host's bits; trust ratios as well.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <cuda/values.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace zero_test {
namespace {

using zero::bf16;
using zero::Decision;
using zero::fp16;
using zero::Host;
using zero::Index;
using zero::Segment;
using zero::Stored;
using zero::View;
using zero::cuda::Device;

constexpr Index tensors = 5;
/// Four tensors in two slices of n / 2: the third lies in both.
std::vector<Segment> segments_of(Index n) {
  std::vector<Segment> result;
  Index const ends[] = {64, 4096 + 192, n / 2 + 128, n - 128};
  Index begin = 0;
  for (Index t = 0; t < 4; ++t) {
    Segment s{begin, ends[t], t, 5, t % 2 == 0 ? 0.0f : 1.0f, t == 1 ? 0.25f : 1.0f};
    s.trained = t + 1;
    result.push_back(s);
    begin = ends[t];
  }
  return result;
}

template <class G, class P>
struct Arrays {
  using Storage = zero::StorageOf<P>;
  std::vector<G> gradients;
  std::vector<typename Storage::Master> weights;
  std::vector<typename Storage::State> states;
  std::vector<typename Storage::Parameter> rounded;
  std::vector<double> sums = std::vector<double>(2 * 2 * tensors, 0.0);
};

template <class O, class G, class P>
Arrays<G, P> start(Index n) {
  using Storage = zero::StorageOf<P>;
  Arrays<G, P> a;
  a.gradients = as<G>(spread_values(n, 1));
  std::vector<float> const w = spread_values(n, 2);
  a.weights = as<typename Storage::Master>(w);
  if constexpr (Storage::splits) {
    for (float x : w) a.rounded.push_back(zero::UpperHalf(x).rounded());
  } else {
    a.rounded = as<typename Storage::Parameter>(w);
  }
  std::vector<float> s = spread_values(n * O::num_states, 3);
  for (float& x : s) x = std::abs(x);
  a.states = as<typename Storage::State>(s);
  return a;
}

/// Norms where the optimizer needs them, then the update, on any device.
template <class D, class O, class G, class P>
void apply(typename D::Stream& stream, zero::Update<O, G, P, D> u, View<double, D> sums) {
  if constexpr (zero::HasTrustRatio<O>) {
    measure_norms(stream, u, sums, zero::NormSlices{0, 2, u.weights.size() / 2, tensors});
    u.norms = {sums, 2, tensors};
  }
  update(stream, u);
}

template <class O, class G, class P>
void check_bits(O const& optimizer, bool rounds = true) {
  Index const n = 64 * 129 * 2;
  auto const segments = segments_of(n);
  auto const num_segments = static_cast<Index>(segments.size());
  for (Index updates : {Index{1}, Index{7}, Index{2000}, Index{-2000}}) {
    Decision decision;
    decision.factor = 0.37f;
    decision.learning_rate = 3e-3f;
    decision.updates = std::abs(updates);
    if (updates < 0)  // once with what a decision keeps
      decision.constants.keep(decision.updates, optimizer.constants(decision.updates));

    Arrays<G, P> host = start<O, G, P>(n);
    zero::HostStream host_stream;
    auto const on_host = [&](auto& x) {
      using T = typename std::remove_reference_t<decltype(x)>::value_type;
      return View<T, Host>(x.data(), static_cast<Index>(x.size()));
    };
    zero::Update<O, G, P, Host> u{
        optimizer, on_host(host.gradients),         on_host(host.weights), on_host(host.states),
        {},        {segments.data(), num_segments}, {&decision, 1},        11};
    if (rounds) u.rounded = on_host(host.rounded);
    apply<Host>(host_stream, u, on_host(host.sums));

    Arrays<G, P> gpu = start<O, G, P>(n);
    Device device;
    auto stream = device.stream();
    GuardedMemory gradients(device, stream, gpu.gradients);
    GuardedMemory weights(device, stream, gpu.weights);
    GuardedMemory states(device, stream, gpu.states);
    GuardedMemory rounded(device, stream, gpu.rounded);
    GuardedMemory sums(device, stream, gpu.sums);
    GuardedMemory table(device, stream, segments);
    GuardedMemory decisions(device, stream, std::vector<Decision>{decision});
    zero::Update<O, G, P, Device> v{optimizer, gradients.read(), weights.view(),   states.view(),
                                    {},        table.read(),     decisions.read(), 11};
    if (rounds) v.rounded = rounded.view();
    apply<Device>(stream, v, sums.view());
    CHECK(same_bits(weights.values(), host.weights));
    CHECK(same_bits(states.values(), host.states));
    CHECK(same_bits(rounded.values(), host.rounded));
    CHECK(same_bits(sums.values(), host.sums));
    CHECK(weights.intact());
    CHECK(states.intact());
    CHECK(rounded.intact());
    CHECK(sums.intact());
  }
}

template <class O>
void check_storages(O const& optimizer) {
  check_bits<O, float, float>(optimizer, false);
  check_bits<O, bf16, bf16>(optimizer);
  check_bits<O, float, bf16>(optimizer);
  check_bits<O, fp16, fp16>(optimizer);
  check_bits<O, bf16, Stored<bf16, bf16>>(optimizer);
  check_bits<O, bf16, Stored<bf16, float, true>>(optimizer);
  check_bits<O, bf16, Stored<bf16, bf16, true>>(optimizer);
}

TEST_CASE("AdamW, in every storage") { check_storages(zero::AdamW{.weight_decay = 0.1f}); }
TEST_CASE("Adam, in every storage") { check_storages(zero::Adam{}); }
TEST_CASE("Lion, in every storage") { check_storages(zero::Lion{}); }
TEST_CASE("Adagrad, in every storage") { check_storages(zero::Adagrad{}); }
TEST_CASE("Sgd, in every storage") { check_storages(zero::Sgd{}); }
TEST_CASE("Lamb, in every storage, norms of tensors included") { check_storages(zero::Lamb{}); }

TEST_CASE("norms of a tensor whose tiles take two launches have the host's bits") {
  zero::Lamb const lamb{.weight_decay = 0.1f};
  Index const n = Index{4096} * 4096 + Index{64} * 77;
  std::vector<float> const g = spread_values(n, 1);
  std::vector<float> w = spread_values(n, 2);
  std::vector<float> s(zero::at(2 * n), 0.25f);
  std::vector<zero::Segment> const segments{{0, n, 0, 0, 1.0f, 1.0f}};
  Decision decision;
  decision.updates = 3;
  std::vector<double> expected(2, 0.0);
  zero::HostStream host_stream;
  zero::Update<zero::Lamb, float, float, Host> const u{
      lamb, {g.data(), n},        {w.data(), n}, {s.data(), 2 * n},
      {},   {segments.data(), 1}, {&decision, 1}};
  measure_norms(host_stream, u, View<double, Host>(expected.data(), 2),
                zero::NormSlices{0, 1, n, 1});

  Device device;
  auto stream = device.stream();
  GuardedMemory gradients(device, stream, g);
  GuardedMemory weights(device, stream, w);
  GuardedMemory states(device, stream, s);
  GuardedMemory table(device, stream, segments);
  GuardedMemory decisions(device, stream, std::vector<Decision>{decision});
  GuardedMemory sums(device, stream, std::vector<double>(2, 0.0));
  zero::Update<zero::Lamb, float, float, Device> const v{
      lamb, gradients.read(), weights.view(), states.view(), {}, table.read(), decisions.read()};
  measure_norms(stream, v, sums.view(), zero::NormSlices{0, 1, n, 1});
  CHECK(expected[0] > 0);
  CHECK(same_bits(sums.values(), expected));
}

TEST_CASE("norms of a tensor of more than 2^31 elements, in two slices and several launches") {
  zero::Lamb const lamb{.weight_decay = 1};
  Device device;
  auto stream = device.stream();
  Index const n = (Index{1} << 31) + 64 * 34;
  auto g_bytes = device.allocate(n * 2, "test");
  auto w_bytes = device.allocate(n * 4, "test");
  auto s_bytes = device.allocate(n * 8, "test");
  View<bf16, Device> const g{reinterpret_cast<bf16*>(g_bytes.address()), n};
  View<float, Device> const w{reinterpret_cast<float*>(w_bytes.address()), n};
  View<float, Device> const s{reinterpret_cast<float*>(s_bytes.address()), 2 * n};
  fill_zero(stream, g);
  fill_zero(stream, s);
  auto const put = [&](auto view, double value) {
    initialise(stream, view, zero::Initial::constant(value), 0, 0, Index{0});
  };
  put(w, 1);  // as a direction it is 1 as well, without gradient and states
  Segment segment{0, n, 0, 0, 1.0f, 1.0f};
  Decision decision;
  decision.updates = 1;
  GuardedMemory table(device, stream, std::vector<Segment>{segment});
  GuardedMemory decisions(device, stream, std::vector<Decision>{decision});
  GuardedMemory sums(device, stream, std::vector<double>(4, 0.0));
  zero::Update<zero::Lamb, bf16, float, Device> const of_all{
      lamb, g, w, s, {}, table.read(), decisions.read()};
  auto const measured = [&] {
    measure_norms(stream, of_all, sums.view(), zero::NormSlices{0, 2, n / 2, 1});
    return sums.values();
  };
  double const half = static_cast<double>(n / 2);
  CHECK(measured() == std::vector<double>(4, half));
  // Each of these is counted once, with all that belongs to it: two in the first slice.
  for (Index where : {Index{0}, Index{1} << 30, (Index{1} << 31) - 1, Index{1} << 31, n - 1}) {
    put(g.sub(where, 1), 0.5);
    put(w.sub(where, 1), 3);
    put(s.sub(where, 1), 0.25);
    put(s.sub(n + where, 1), 4);
  }
  float states[] = {0.25f, 4.0f};
  double const direction = lamb.direction(lamb.constants(1), 3.0f, 0.5f, states, 1.0f);
  double const more = direction * direction - 1;
  CHECK(std::abs(more) > 0.1);
  std::vector<double> const found = measured();
  CHECK(found[0] == half + 2 * 8);
  CHECK(found[2] == half + 3 * 8);
  // Sums below 2^32 are rounded to 2^-21, once for each of the five that are not whole and some
  // times where they are added up.
  CHECK(std::abs(found[1] - (half + 2 * more)) < 1e-4);
  CHECK(std::abs(found[3] - (half + 3 * more)) < 1e-4);
}

}  // namespace
}  // namespace zero_test
