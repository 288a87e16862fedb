// SPDX-License-Identifier: Apache-2.0
// The update kernel against AdamW in double, element by element, and against the host's bits; the
// decision on the GPU against the host's.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <cuda/values.hpp>

#include <doctest/doctest.h>
#include <support/rounding.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace zero_test {
namespace {

using zero::AdamW;
using zero::bf16;
using zero::Decision;
using zero::fp16;
using zero::Index;
using zero::Segment;
using zero::cuda::Device;

template <class G, class P>
struct State {
  std::vector<G> gradients;
  std::vector<float> weights;
  std::vector<float> states;
  std::vector<P> rounded;
};

/// n elements in tensors of several sizes, decays and rates, and padding that no segment covers.
std::vector<Segment> segments_of(Index n) {
  std::vector<Segment> result;
  Index const sizes[] = {64, 192, 64, 1024, 4096 + 64, 64, 100032};
  Index begin = 0;
  for (Index t = 0; begin + 64 < n; ++t) {
    Index const size = std::min(sizes[t % 7], n - 64 - begin);
    result.push_back(
        {begin, begin + size, t, 0, t % 3 == 0 ? 0.0f : 1.0f, t % 4 == 1 ? 0.25f : 1.0f});
    begin += size;
  }
  if (n == 64) result.push_back({0, 64, 0, 0, 1.0f, 1.0f});
  return result;
}

template <class G, class P>
State<G, P> start(Index n, std::vector<Segment> const& segments) {
  State<G, P> s{as<G>(spread_values(n, 1)), spread_values(n, 2), spread_values(2 * n, 3),
                std::vector<P>(zero::at(n))};
  for (Index i = n; i < 2 * n; ++i) s.states[zero::at(i)] = std::abs(s.states[zero::at(i)]);
  Index const covered = segments.empty() ? 0 : segments.back().end;
  for (Index i = covered; i < n; ++i) {
    s.gradients[zero::at(i)] = G(0.0f);
    s.weights[zero::at(i)] = s.states[zero::at(i)] = s.states[zero::at(n + i)] = 0;
  }
  return s;
}

template <class G, class P>
State<G, P> on_gpu(AdamW const& adamw, State<G, P> s, std::vector<Segment> const& segments,
                   Decision const& decision, bool rounds) {
  Device device;
  auto stream = device.stream();
  GuardedMemory<G> gradients(device, stream, s.gradients);
  GuardedMemory<float> weights(device, stream, s.weights);
  GuardedMemory<float> states(device, stream, s.states);
  GuardedMemory<P> rounded(device, stream, static_cast<Index>(s.rounded.size()));
  auto const bytes = [](auto const& x) { return static_cast<Index>(x.size() * sizeof(x[0])); };
  auto table = device.allocate(bytes(segments), "test");
  auto decisions = device.allocate(sizeof(Decision), "test");
  zero::View<Segment, Device> const segment_view{reinterpret_cast<Segment*>(table.address()),
                                                 static_cast<Index>(segments.size())};
  zero::View<Decision, Device> const decision_view{reinterpret_cast<Decision*>(decisions.address()),
                                                   1};
  copy_in(stream, segment_view, segments.data());
  copy_in(stream, decision_view, &decision);
  update(stream,
         zero::Update<AdamW, G, P, Device>{adamw, gradients.read(), weights.view(), states.view(),
                                           rounds ? rounded.view() : zero::View<P, Device>(),
                                           segment_view, decision_view});
  s.weights = weights.values();
  s.states = states.values();
  if (rounds) s.rounded = rounded.values();
  CHECK(weights.intact());
  CHECK(states.intact());
  CHECK(rounded.intact());
  return s;
}

template <class G, class P>
State<G, P> on_host(AdamW const& adamw, State<G, P> s, std::vector<Segment> const& segments,
                    Decision const& decision, bool rounds) {
  using zero::Host;
  using zero::View;
  auto const n = static_cast<Index>(s.weights.size());
  zero::HostStream stream;
  update(stream, zero::Update<AdamW, G, P, Host>{
                     adamw,
                     {s.gradients.data(), n},
                     {s.weights.data(), n},
                     {s.states.data(), 2 * n},
                     rounds ? View<P, Host>{s.rounded.data(), n} : View<P, Host>(),
                     {segments.data(), static_cast<Index>(segments.size())},
                     {&decision, 1}});
  return s;
}

/// Worst error over bound. The bound, with u = 2^-24: m is two products and a sum of them, so it is
/// off by 3 u (|beta1 m| + |(1 - beta1) g|), v likewise with one product more; the gradient is off
/// by u from the factor. The quotient goes through the correction, a root, a sum and a division, 6
/// u of its size beyond m and half of v's; decay adds 3 u of its term; the rate's product 1 u, the
/// weight's own sum u |w'|.
template <class G, class P>
double worst(AdamW const& a, State<G, P> const& before, State<G, P> const& after,
             std::vector<Segment> const& segments, Decision const& decision) {
  double const u = std::ldexp(1.0, -24);
  auto const n = before.weights.size();
  double const t = static_cast<double>(decision.updates);
  double const b1 = a.beta1;
  double const b2 = a.beta2;
  double result = 0;
  for (Segment const& s : segments) {
    for (auto i = zero::at(s.begin); i < zero::at(s.end); ++i) {
      double const g =
          static_cast<double>(decision.factor) * static_cast<float>(before.gradients[i]);
      double const m0 = before.states[i];
      double const v0 = before.states[n + i];
      double const w0 = before.weights[i];
      double const one_b1 = 1.0f - a.beta1;  // as the formula's constants are, in float
      double const one_b2 = 1.0f - a.beta2;
      double const m = b1 * m0 + one_b1 * g;
      double const v = b2 * v0 + one_b2 * g * g;
      double const m_size = std::abs(b1 * m0) + std::abs(one_b1 * g);
      double const root = std::sqrt(v / (1 - std::pow(b2, t))) + a.eps;
      double const correction = 1 / (1 - std::pow(b1, t));
      double const step = m * correction / root;
      double const step_size = m_size * correction / root;
      double const decay = static_cast<double>(a.weight_decay) * s.decay * w0;
      double const rate = static_cast<double>(decision.learning_rate) * s.lr_scale;
      double const w = w0 - rate * (step + decay);
      double const bound_w =
          rate * u * ((3 + 1 + 2 + 6) * step_size + 4 * std::abs(decay) + std::abs(step + decay)) +
          u * std::abs(w) + 1e-42;
      result = std::max(result, std::abs(after.states[i] - m) / (4 * u * m_size + 1e-44));
      result = std::max(result, std::abs(after.states[n + i] - v) / (6 * u * v + 1e-44));
      result = std::max(result, std::abs(after.weights[i] - w) / bound_w);
    }
  }
  return result;
}

template <class G, class P>
void check_update(bool rounds) {
  AdamW const adamw{.lr = 3e-3f, .weight_decay = 0.1f};
  for (Index n : {Index{64}, Index{128}, Index{2048}, Index{4096 + 64}, Index{300032}}) {
    auto const segments = segments_of(n);
    State<G, P> const before = start<G, P>(n, segments);
    for (Index updates : {Index{1}, Index{2}, Index{1000}}) {
      Decision decision;
      decision.factor = 0.37f;
      decision.learning_rate = 3e-3f;
      decision.updates = updates;
      State<G, P> const gpu = on_gpu(adamw, before, segments, decision, rounds);
      State<G, P> const host = on_host(adamw, before, segments, decision, rounds);
      double const ratio = worst(adamw, before, gpu, segments, decision);
      std::printf("AdamW, %lld elements, update %lld: error/bound %.3f\n",
                  static_cast<long long>(n), static_cast<long long>(updates), ratio);
      CHECK(ratio <= 1);
      CHECK(ratio > 0);
      CHECK(same_bits(gpu.weights, host.weights));
      CHECK(same_bits(gpu.states, host.states));
      decision.constants.keep(updates, adamw.constants(updates));
      CHECK(same_bits(on_gpu(adamw, before, segments, decision, rounds).weights, host.weights));
      if (!rounds) continue;
      Index wrong = 0;
      Index const covered = segments.back().end;
      for (Index i = 0; i < covered; ++i) {
        wrong +=
            static_cast<float>(gpu.rounded[zero::at(i)]) != stored<P>(gpu.weights[zero::at(i)]);
      }
      CHECK(wrong == 0);
    }
    Decision skipping;
    skipping.skip = 1;
    skipping.factor = std::numeric_limits<float>::quiet_NaN();
    State<G, P> const skipped = on_gpu(adamw, before, segments, skipping, rounds);
    CHECK(same_bits(skipped.weights, before.weights));
    CHECK(same_bits(skipped.states, before.states));
  }
}

TEST_CASE("an update reads the constants that its decision keeps, and makes those it does not") {
  AdamW const adamw{};
  Index const n = 4096 + 64;
  auto const segments = segments_of(n);
  auto const before = start<bf16, bf16>(n, segments);
  Decision decision;
  decision.learning_rate = 1e-2f;
  decision.updates = 3;
  auto const made = on_gpu(adamw, before, segments, decision, true);
  decision.constants.keep(Index{3}, adamw.constants(5));
  auto const read = on_gpu(adamw, before, segments, decision, true);
  CHECK_FALSE(same_bits(read.weights, made.weights));
  Decision fifth = decision;
  fifth.updates = 5;  // of which none are kept
  auto const others_left = on_gpu(adamw, before, segments, fifth, true);
  CHECK(same_bits(others_left.weights, read.weights));
}

TEST_CASE("an update finds the tensor of every element, however many and small they are") {
  Decision decision;
  decision.updates = 3;
  decision.learning_rate = 1e-2f;
  // About powers of two, where a search goes wrong if it does.
  for (Index count : {1, 2, 31, 32, 33, 63, 64, 65, 1000, 1023, 1024, 1025, 2200}) {
    std::vector<Segment> segments;
    Index begin = 0;
    for (Index t = 0; t < count; ++t) {
      Index const size = t % 3 == 1 ? 128 : 64;
      segments.push_back({begin, begin + size, t, 0, static_cast<float>(t % 7),
                          0.25f + static_cast<float>(t % 11)});
      begin += size + (t % 5 == 0 ? 64 : 0);  // padding
    }
    Index const n = begin + 64;
    State<bf16, bf16> s{as<bf16>(spread_values(n, 1)), spread_values(n, 2),
                        std::vector<float>(zero::at(2 * n), 0.5f), std::vector<bf16>(zero::at(n))};
    auto const gpu = on_gpu(AdamW{}, s, segments, decision, true);
    auto const host = on_host(AdamW{}, s, segments, decision, true);
    CHECK_MESSAGE(same_bits(gpu.weights, host.weights), count);
    CHECK_MESSAGE(same_bits(gpu.states, host.states), count);
    Index wrong = 0;
    for (Segment const& of : segments) {
      for (auto i = zero::at(of.begin); i < zero::at(of.end); ++i)
        wrong += static_cast<float>(gpu.rounded[i]) != stored<bf16>(gpu.weights[i]);
    }
    CHECK_MESSAGE(wrong == 0, count);
  }
}

TEST_CASE("AdamW is within its bound of double, and has the host's bits") {
  check_update<float, float>(false);
  check_update<bf16, bf16>(true);
  check_update<float, bf16>(true);
  check_update<fp16, fp16>(true);
}

TEST_CASE("an update of no elements, or of no tensor, touches nothing") {
  Decision decision;
  decision.updates = 3;
  decision.learning_rate = 1e-2f;
  std::vector<Segment> const segments{{0, 64, 0, 0, 1.0f, 1.0f}};
  State<bf16, bf16> const none{{}, {}, {}, {}};
  on_gpu(AdamW{}, none, segments, decision, true);  // guards are looked at there
  State<bf16, bf16> const before{as<bf16>(spread_values(128, 1)), spread_values(128, 2),
                                 spread_values(256, 3), std::vector<bf16>(128)};
  auto const after = on_gpu(AdamW{}, before, {}, decision, true);
  CHECK(same_bits(after.weights, before.weights));
  CHECK(same_bits(after.states, before.states));
  Index written = 0;
  for (bf16 x : after.rounded) written += x.bits != 0xffff;
  CHECK(written == 0);
  // With a tensor the same is moved.
  CHECK(!same_bits(on_gpu(AdamW{}, before, segments, decision, true).weights, before.weights));
}

TEST_CASE("AdamW over more than 2^31 elements") {
  AdamW const adamw{};
  Device device;
  auto stream = device.stream();
  Index const n = (Index{1} << 31) + 64 * 33;
  auto make = [&](Index bytes) { return device.allocate(bytes, "test"); };
  auto g_bytes = make(n * 2);
  auto w_bytes = make(n * 4);
  auto s_bytes = make(n * 8);
  auto p_bytes = make(n * 2);
  zero::View<bf16, Device> const g{reinterpret_cast<bf16*>(g_bytes.address()), n};
  zero::View<float, Device> const w{reinterpret_cast<float*>(w_bytes.address()), n};
  zero::View<float, Device> const s{reinterpret_cast<float*>(s_bytes.address()), 2 * n};
  zero::View<bf16, Device> const p{reinterpret_cast<bf16*>(p_bytes.address()), n};
  zero::Initial const spread = zero::Initial::uniform(-1, 1);
  zero::Initial const positive = zero::Initial::uniform(0, 1);
  initialise(stream, g, spread, 1, 0, Index{0});
  initialise(stream, w, spread, 1, 1, Index{0});
  initialise(stream, s.sub(0, n), spread, 1, 2, Index{0});
  initialise(stream, s.sub(n, n), positive, 1, 3, Index{0});
  Segment const segment{0, n, 0, 0, 1.0f, 1.0f};
  Decision decision;
  decision.learning_rate = 1e-3f;
  decision.updates = 3;
  auto table = make(sizeof segment);
  auto decisions = make(sizeof decision);
  zero::View<Segment, Device> const segments{reinterpret_cast<Segment*>(table.address()), 1};
  zero::View<Decision, Device> const d{reinterpret_cast<Decision*>(decisions.address()), 1};
  copy_in(stream, segments, &segment);
  copy_in(stream, d, &decision);
  update(stream, zero::Update<AdamW, bf16, bf16, Device>{adamw, g, w, s, p, segments, d});
  for (Index begin : {Index{0}, (Index{1} << 31) - 512, n - 1024}) {
    Index const count = 1024;
    State<bf16, bf16> before{std::vector<bf16>(1024), std::vector<float>(1024),
                             std::vector<float>(2048), std::vector<bf16>(1024)};
    for (Index i = 0; i < count; ++i) {
      before.gradients[zero::at(i)] = bf16(spread.value(1, 0, begin + i));
      before.weights[zero::at(i)] = spread.value(1, 1, begin + i);
      before.states[zero::at(i)] = spread.value(1, 2, begin + i);
      before.states[zero::at(count + i)] = positive.value(1, 3, begin + i);
    }
    auto const expected = on_host(adamw, before, {{0, count, 0, 0, 1.0f, 1.0f}}, decision, true);
    State<bf16, bf16> got = before;
    auto const read = [&](auto* to, auto view) {
      copy_out(stream, to, zero::View<typename decltype(view)::Element const, Device>(view));
    };
    read(got.weights.data(), w.sub(begin, count));
    read(got.states.data(), s.sub(begin, count));
    read(got.states.data() + count, s.sub(n + begin, count));
    read(got.rounded.data(), p.sub(begin, count));
    stream.synchronize();
    CHECK(same_bits(got.weights, expected.weights));
    CHECK(same_bits(got.states, expected.states));
    CHECK(same_bits(got.rounded, expected.rounded));
  }
}

TEST_CASE("decisions are made as on the host") {
  AdamW const adamw{.lr = 2e-3f, .schedule = zero::LearningRate::linear(2, 20)};
  Device device;
  auto stream = device.stream();
  constexpr Index ranks = 3;
  auto bytes = device.allocate(sizeof(Decision), "test");
  zero::View<Decision, Device> const view{reinterpret_cast<Decision*>(bytes.address()), 1};
  Decision expected{};
  copy_in(stream, view, &expected);
  double const nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::vector<double>> const steps{
      {1, 0, 5, 0, 4, 0, 5, 0, 0.25, 0, 5, 0},   // good
      {1e9, 0, 5, 0, 4, 0, 5, 0, 0, 0, 5, 0},    // clipped
      {nan, 4, 5, 0, 1, 0, 5, 0, nan, 3, 5, 0},  // units 3 and 2 are not finite
      {1, 0, 5, 0, 1, 0, 5, 0, 1, 0, 6, 0},      // rank 2 issued other collectives
      {1e-9, 0, 8, 0, 0, 0, 8, 0, 0, 0, 8, 0}};  // good again
  for (auto const& records : steps) {
    for (double clip : {0.0, 1.0}) {
      GuardedMemory<double> memory(device, stream, records);
      zero::DecisionInputs const inputs{ranks, clip, 6};
      decide(stream, memory.read(), view, inputs, zero::LearningRateOf<AdamW>{adamw});
      zero::decide(expected, records.data(), inputs, zero::LearningRateOf<AdamW>{adamw});
      Decision got;
      copy_out(stream, &got, zero::View<Decision const, Device>(view));
      stream.synchronize();
      CHECK(std::isnan(got.norm) == std::isnan(expected.norm));
      if (!std::isnan(expected.norm)) {
        CHECK(got.norm == expected.norm);
        CHECK(got.factor == expected.factor);
      }
      CHECK(got.skip == expected.skip);
      CHECK(got.updates == expected.updates);
      CHECK(got.skipped == expected.skipped);
      CHECK(got.bad_unit == expected.bad_unit);
      CHECK(got.diverged_rank == expected.diverged_rank);
      CHECK(got.learning_rate == expected.learning_rate);
      CHECK(got.constants.update == std::max(got.updates, Index{1}));
      CHECK(std::memcmp(&got.constants, &expected.constants, sizeof got.constants) == 0);
    }
  }
  GuardedMemory<double> record(device, stream, 4);
  start_record(stream, record.view(), std::uint64_t{12345} << 11);
  CHECK(record.values() == std::vector<double>{0, 0, 12345, 0});
}

TEST_CASE("update: arrays that no layout has are refused") {
  Device device;
  auto stream = device.stream();
  GuardedMemory<float> x(device, stream, std::vector<float>(512, 0.0f));
  auto const v = x.view();
  zero::View<Segment const, Device> const segments{nullptr, 1};
  zero::Update<AdamW, float, float, Device> u{
      {}, v.sub(0, 64), v.sub(1, 64), v.sub(128, 128), {}, segments, {}};
  CHECK_THROWS_AS(update(stream, u), zero::InvalidArgument);
  u.weights = v.sub(64, 63);
  CHECK_THROWS_AS(update(stream, u), zero::InvalidArgument);
}

}  // namespace
}  // namespace zero_test
