// SPDX-License-Identifier: Apache-2.0
// The kernels of every instruction set that this processor has give the bits of the plain one.
#include <zero/core/noise.hpp>
#include <zero/optim/adam.hpp>
#include <zero/optim/lamb.hpp>
#include <zero/optim/momentum.hpp>
#include <zero/optim/one_of.hpp>
#include <zero/optim/sgd.hpp>

#include <doctest/doctest.h>
#include <optim/slice.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace {

using namespace optim_test;
using zero::bf16;
using zero::InstructionSet;

/// Numbers of every kind: of all sizes, subnormal, 0 of both signs, the largest, infinite, NaN.
float number(int key, Index i) {
  std::uint64_t const bits = zero::noise_bits(11, key, i);
  switch (bits % 8) {
    case 0: {
      float const special[] = {0.0f,
                               -0.0f,
                               std::numeric_limits<float>::denorm_min(),
                               -1e-40f,
                               std::numeric_limits<float>::max(),
                               -std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
      return special[(bits >> 8) % 8];
    }
    case 1:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32));  // any bits
    default:
      return static_cast<float>(zero::noise_normal(12, key, i));
  }
}

/// Equal bits; of NaN only that both are.
bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

template <class O, class G, class P, bool Within>
void check(O const& optimizer, InstructionSet set) {
  if (!zero::has(set)) return;
  Index const n = 1 << 14;
  std::vector<G> gradients;
  std::vector<float> weights[2], states[2];
  std::vector<P> rounded[2];
  for (Index i = 0; i < n; ++i) {
    gradients.emplace_back(number(0, i));
    weights[0].push_back(number(1, i));
    rounded[0].emplace_back(0.0f);
  }
  for (Index i = 0; i < n; ++i) states[0].push_back(number(2, i));
  for (Index i = 0; i < n; ++i) states[0].push_back(std::abs(number(3, i)));
  weights[1] = weights[0];
  states[1] = states[0];
  rounded[1] = rounded[0];
  for (int k = 0; k < 2; ++k) {
    for (Index t = 1; t <= 3; ++t) {
      zero::ElementUpdate<O, G, P> u{optimizer,
                                     optimizer.constants(t),
                                     gradients.data(),
                                     weights[k].data(),
                                     states[k].data(),
                                     std::is_same_v<P, float> ? nullptr : rounded[k].data(),
                                     n,
                                     0.37f,
                                     {}};
      u.segment = {0, n, 0, 0, 0.7f, 1};
      u.rate = 0.013f;
      zero::update_adam_range<Within>(u, 0, n, k == 0 ? InstructionSet::plain : set);
    }
  }
  Index different = 0;
  for (Index i = 0; i < n; ++i) {
    bool equal = same(weights[0][at(i)], weights[1][at(i)]);
    for (Index s = 0; s < 2; ++s)
      equal = equal && same(states[0][at(s * n + i)], states[1][at(s * n + i)]);
    float const a = static_cast<float>(rounded[0][at(i)]);
    equal = equal && same(a, static_cast<float>(rounded[1][at(i)]));
    different += equal ? 0 : 1;
  }
  CHECK(different == 0);
}

template <class O, bool Within>
void check_types(O const& optimizer) {
  for (InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512}) {
    CAPTURE(static_cast<int>(set));
    check<O, float, float, Within>(optimizer, set);
    check<O, bf16, float, Within>(optimizer, set);
    check<O, bf16, bf16, Within>(optimizer, set);
    check<O, float, bf16, Within>(optimizer, set);
    check<O, zero::fp16, zero::fp16, Within>(optimizer, set);
  }
}

}  // namespace

TEST_CASE("AVX-512 and AVX2 give the bits of the plain kernel") {
  check_types<zero::AdamW, false>({.weight_decay = 0.3f});
  check_types<zero::Adam, true>({.weight_decay = 0.3f});
  check_types<zero::Lamb, false>({.weight_decay = 0.3f});
  check_types<zero::AdamW, false>({.eps = 0, .weight_decay = 0});
}

namespace {

/// Three updates of [begin, end) of rows `stride` elements apart, moments in `states`.
template <class O, bool Within>
std::vector<float> part_of_rows(O const& optimizer, InstructionSet set, float* states, Index stride,
                                Index n, Index begin, Index end) {
  std::vector<float> gradients, weights;
  for (Index i = 0; i < n; ++i) {
    gradients.push_back(number(0, i));
    weights.push_back(number(1, i));
    states[i] = number(2, i);
    states[stride + i] = std::abs(number(3, i));
  }
  for (Index t = 1; t <= 3; ++t) {
    zero::ElementUpdate<O, float, float> u{optimizer,
                                           optimizer.constants(t),
                                           gradients.data(),
                                           weights.data(),
                                           states,
                                           nullptr,
                                           stride,
                                           0.37f,
                                           {}};
    u.segment = {0, n, 0, 0, 0.7f, 1};
    u.rate = 0.013f;
    zero::update_adam_range<Within>(u, begin, end, set);
  }
  weights.insert(weights.end(), states, states + n);
  weights.insert(weights.end(), states + stride, states + stride + n);
  return weights;
}

/// Of ranges short and long, among elements that must stay.
template <class O, bool Within>
void check_parts(O const& optimizer, InstructionSet set, Index stride) {
  if (!zero::has(set)) return;
  constexpr Index n = 1 << 13;
  // Not a vector: most of a long stride is never touched.
  std::unique_ptr<float[]> const states(new float[at(stride + n)]);
  for (auto [begin, end] : {std::pair<Index, Index>{64, 64},
                            {64, 128},
                            {128, 128 + 4032},
                            {64, 64 + 4096},
                            {192, 192 + 4160},
                            {0, n}}) {
    CAPTURE(begin);
    CAPTURE(end);
    auto const of = [&](InstructionSet s) {
      return part_of_rows<O, Within>(optimizer, s, states.get(), stride, n, begin, end);
    };
    std::vector<float> const plain = of(InstructionSet::plain), found = of(set);
    CHECK(std::equal(plain.begin(), plain.end(), found.begin(), found.end(), same));
  }
}

}  // namespace

TEST_CASE("ranges of any length change their elements alone, wherever rows lie") {
  // 2^26 floats apart, moments collide in the caches of some processors where they are updated in
  // step; 576 floats closer, where one goes 36 lines behind the other.
  for (Index stride : {Index{1} << 13, Index{1} << 26, (Index{1} << 26) - 576}) {
    CAPTURE(stride);
    for (InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512}) {
      CAPTURE(static_cast<int>(set));
      check_parts<zero::AdamW, false>({.weight_decay = 0.3f}, set, stride);
      check_parts<zero::Adam, true>({.weight_decay = 0.3f}, set, stride);
    }
  }
}

TEST_CASE("the widest set is one that there is, and one that is not is refused") {
  CHECK(zero::has(InstructionSet::plain));
  CHECK(zero::has(zero::widest_instruction_set()));
  MESSAGE("widest: " << static_cast<int>(zero::widest_instruction_set()));
  std::vector<float> one(64);
  zero::ElementUpdate<zero::AdamW, float, float> u{
      {}, {1, 1}, one.data(), one.data(), one.data(), nullptr, 0, 1, {}};
  for (InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512}) {
    if (zero::has(set)) continue;
    CHECK_THROWS_AS(zero::update_adam_range<false>(u, 0, 0, set), zero::InvalidArgument);
  }
}

namespace {

/// What an update of a whole slice with these segments says, which must leave every bit alone.
template <class O>
std::string refusal(O const& optimizer, std::vector<Segment> segments, Index n = 256) {
  Slice<O> slice(n);
  slice.weights.assign(at(n), 2.0f);
  slice.segments = std::move(segments);
  std::string text;
  try {
    slice.update(optimizer, std::vector<float>(at(n), 1.0f), good(1, optimizer));
  } catch (zero::InvalidArgument const& e) {
    text = e.what();
  }
  CHECK(slice.weights == std::vector<float>(at(n), 2.0f));
  CHECK(slice.states == std::vector<float>(at(O::num_states * n)));
  return text;
}

}  // namespace

TEST_CASE("a border that is no multiple of 64, which kernels would step over, is refused by name") {
  std::string const expected = "; expected multiples of 64, as a layout's slices and segments have";
  std::vector<Segment> const ends{{0, 64, 0, 0, 1, 1}, {64, 100, 1, 0, 1, 1}};
  std::string const at_end = "update: found elements 64 to 100" + expected;
  CHECK(refusal(zero::AdamW{}, ends) == at_end);
  CHECK(refusal(zero::Adam{}, ends) == at_end);
  CHECK(refusal(zero::Sgd{}, ends) == at_end);
  CHECK(refusal(zero::AdamW{}, {{36, 128, 0, 0, 1, 1}}) ==
        "update: found elements 36 to 128" + expected);
  CHECK(refusal(zero::AdamW{}, {{0, 128, 0, 0, 1, 1}}, 100) ==
        "update: found elements 0 to 100" + expected);
  // And of whoever calls the kernel, with every set.
  std::vector<float> rows(256);
  zero::ElementUpdate<zero::AdamW, float, float> u{
      {}, {1, 1}, rows.data(), rows.data(), rows.data(), nullptr, 0, 1, {}};
  for (InstructionSet set : {InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512}) {
    std::string const text = "update_adam_range: found elements 0 to 100" + expected;
    CHECK_THROWS_WITH_AS(zero::update_adam_range<false>(u, 0, 100, set), text.c_str(),
                         zero::InvalidArgument);
  }
}

namespace {

/// That an update comes to the kernel shows in what the kernel refuses: element by element any
/// border would do.
template <class O>
void check_kernel(O const& optimizer) {
  Slice<O> slice(128);
  std::vector<float> const gradients(128);
  Decision const decision = good(1, optimizer);
  auto const u = zero::detail::resolve(slice.of(optimizer, gradients, decision), decision);
  CHECK_THROWS_WITH_AS(update_range(u, 0, 100),
                       "update_adam_range: found elements 0 to 100; expected multiples of 64, as a "
                       "layout's slices and segments have",
                       zero::InvalidArgument);
}

}  // namespace

TEST_CASE("a cycled momentum has the optimizer's kernel, and its bits") {
  zero::CycledMomentum const cycled(zero::AdamW{.weight_decay = 0.3f},
                                    zero::Momentum::one_cycle({.up = 3}));
  using O = std::remove_const_t<decltype(cycled)>;
  constexpr Index n = 4096;
  Slice<O, bf16> wide(n), single(n);
  wide.rounded.resize(at(n));
  for (Index i = 0; i < n; ++i) wide.weights[at(i)] = number(1, i);
  single.weights = wide.weights;
  single.rounded = wide.rounded;
  std::vector<float> gradients;
  for (Index i = 0; i < n; ++i) gradients.push_back(number(0, i));
  for (Index t = 1; t <= 5; ++t) {
    Decision const decision = good(t, cycled);
    wide.update(cycled, gradients, decision);
    auto const one = zero::detail::resolve(single.of(cycled, gradients, decision), decision);
    auto by_element = one;
    by_element.segment = single.segments[0];
    by_element.rate = decision.learning_rate;
    for (Index i = 0; i < n; ++i) by_element(i);
  }
  Index different = 0;
  for (Index i = 0; i < n; ++i) {
    different += same(wide.weights[at(i)], single.weights[at(i)]) ? 0 : 1;
    for (int k = 0; k < 2; ++k) different += same(wide.state(k, i), single.state(k, i)) ? 0 : 1;
    different +=
        same(static_cast<float>(wide.rounded[at(i)]), static_cast<float>(single.rounded[at(i)]))
            ? 0
            : 1;
  }
  CHECK(different == 0);
  check_kernel(cycled);
}

TEST_CASE("the kernel is what updates of Adam's family come to, chosen at run time or not") {
  check_kernel(zero::AdamW{});
  check_kernel(zero::Adam{});
  check_kernel(zero::Lamb{});
  check_kernel(zero::OneOf<zero::AdamW, zero::Adam>(zero::AdamW{}));
  check_kernel(zero::OneOf<zero::AdamW, zero::Adam>(zero::Adam{}));
}

TEST_CASE("any number of threads gives the same bits") {
  Index const n = 200'000 / 64 * 64;
  zero::AdamW const optimizer{.weight_decay = 0.3f};
  auto const trained = [&](Host device) {
    Slice<zero::AdamW, bf16> slice(n);
    slice.rounded.resize(at(n));
    slice.segments = {{0, 64, 0, 0, 1, 1}, {64, 100'096, 1, 0, 0, 1}, {100'096, n, 2, 0, 1, 0.5f}};
    for (Index i = 0; i < n; ++i) slice.weights[at(i)] = static_cast<float>(i % 1000) * 0.01f - 5;
    std::vector<float> gradients;
    for (Index i = 0; i < n; ++i) gradients.push_back(static_cast<float>(i % 777) * 0.01f - 4);
    for (Index t = 1; t <= 3; ++t) slice.update(optimizer, gradients, good(t, optimizer), device);
    return slice;
  };
  auto const alone = trained(Host{});
  for (int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    auto const shared = trained(Host{threads});
    CHECK(shared.weights == alone.weights);
    CHECK(shared.states == alone.states);
    bool same_rounded = true;
    for (Index i = 0; i < n; ++i)
      same_rounded = same_rounded && shared.rounded[at(i)].bits == alone.rounded[at(i)].bits;
    CHECK(same_rounded);
  }
}
