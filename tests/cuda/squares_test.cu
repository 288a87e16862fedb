// SPDX-License-Identifier: Apache-2.0
// The sum of squares against the order that is promised, written out again, and against known sums.

#include <zero/cuda/cuda.cuh>
#include <zero/model/initial.hpp>

#include <cuda/values.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace zero_test {
namespace {

using zero::bf16;
using zero::fp16;
using zero::Index;
using zero::cuda::Device;

double pairwise(std::vector<double> sums) {
  while (sums.size() > 1) {
    for (std::size_t k = 0; k < sums.size() / 2; ++k) sums[k] = sums[2 * k] + sums[2 * k + 1];
    sums.resize(sums.size() / 2);
  }
  return sums[0];
}

/// Tiles of 16,384, in each 1,024 running sums whose neighbours are added until one is left; eight
/// tiles in order make a group.
template <class T>
double group_sum(std::span<T const> x) {
  double sum = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += 16384) {
    std::vector<double> lanes(1024, 0.0);
    for (std::size_t i = begin; i < std::min(begin + 16384, x.size()); ++i) {
      double const v = static_cast<double>(static_cast<float>(x[i]));
      lanes[i % 1024] += v * v;
    }
    sum += pairwise(lanes);
  }
  return sum;
}
/// Groups go to 256 running totals in turn, added as lanes are.
double sum_of_groups(std::vector<double> const& groups) {
  std::vector<double> totals(256, 0.0);
  for (std::size_t g = 0; g < groups.size(); ++g) totals[g % 256] += groups[g];
  return pairwise(totals);
}
template <class T>
double promised_sum(std::vector<T> const& x) {
  std::vector<double> groups;
  for (std::size_t begin = 0; begin < x.size(); begin += 131072)
    groups.push_back(
        group_sum(std::span(x).subspan(begin, std::min(std::size_t{131072}, x.size() - begin))));
  return sum_of_groups(groups);
}

template <class T>
void check_sums() {
  Device device;
  auto stream = device.stream();
  zero::Host host;
  auto host_stream = host.stream();
  // A row of a tile, a tile, a group, what is taken by warps, what by tiles, and all totals once,
  // each with one alignment less or more; the launch that is split is too much memory for the
  // host's oracle.
  for (Index n :
       {Index{0}, Index{64}, Index{1024 - 64}, Index{1024}, Index{16384 - 64}, Index{16384 + 64},
        Index{100032}, Index{131072 - 64}, Index{131072}, Index{131072 + 64}, Index{2097152 - 64},
        Index{2097152}, Index{2097152 + 64}, Index{1000000}, Index{33554432 - 64}, Index{33554432},
        Index{33554432 + 64}, Index{33554432 + 131072 * 3 + 16384 + 192}}) {
    std::vector<T> const x = as<T>(spread_values(n, 5));
    GuardedMemory<T> from(device, stream, x);
    GuardedMemory<double> record(device, stream, std::vector<double>{0.125, 0, 7, 0});
    add_squares(stream, from.read(), record.view(), Index{3});
    double const sum = promised_sum(x);
    std::vector<double> const expected{0.125 + sum, 0, 7, 0};
    CHECK_MESSAGE(record.values() == expected, n);
    double host_record[4] = {0.125, 0, 7, 0};
    add_squares(host_stream, zero::View<T const, zero::Host>(x.data(), n),
                zero::View<double, zero::Host>(host_record, 4), Index{3});
    CHECK_MESSAGE(host_record[0] == 0.125 + sum, n << " on the host");
    CHECK(from.intact());
    CHECK(record.intact());
  }
}

TEST_CASE("sums of squares have the promised order, as on the host") {
  check_sums<float>();
  check_sums<bf16>();
  check_sums<fp16>();
}

TEST_CASE("sums of squares of groups, by one launch and by two, have the promised order") {
  Device device;
  auto stream = device.stream();
  Index const group = 131072;
  // The same group again and again, each time times another power of two, so that no two sums of
  // neighbours are alike, and a part of one at the end.
  std::vector<bf16> const x = as<bf16>(spread_values(group, 7));
  Index const rest = 3 * 16384 + 192;
  double const of_group = group_sum(std::span(x));
  double const of_rest = group_sum(std::span(x).first(zero::at(rest)));
  for (Index groups : {Index{1024}, Index{1027}, Index{8191}, Index{8192 + 300}}) {
    Index const n = groups * group + rest;
    auto memory = device.allocate(n * 2, "test");
    zero::View<bf16, Device> const all{reinterpret_cast<bf16*>(memory.address()), n};
    std::vector<double> sums;
    for (int scale = 0; scale < 3; ++scale) {
      std::vector<float> scaled;
      for (bf16 value : x) scaled.push_back(std::ldexp(static_cast<float>(value), scale));
      GuardedMemory<bf16> one(device, stream, as<bf16>(scaled));
      for (Index g = scale; g <= groups; g += 3) {
        Index const size = g < groups ? group : rest;
        copy(stream, all.sub(g * group, size), one.read().sub(0, size));
      }
      stream.synchronize();
    }
    for (Index g = 0; g <= groups; ++g)
      sums.push_back(std::ldexp(g < groups ? of_group : of_rest, 2 * static_cast<int>(g % 3)));
    GuardedMemory<double> record(device, stream, std::vector<double>{0, 0, 0, 0});
    for (int again = 0; again < 2; ++again) {  // what a call leaves is what the next one needs
      add_squares(stream, zero::View<bf16 const, Device>(all), record.view(), Index{2});
      double const sum = sum_of_groups(sums);
      std::vector<double> const expected{again * sum + sum, 0, 0, 0};
      CHECK_MESSAGE(record.values() == expected, groups);
    }
    for (Index where : {Index{5}, n / 2, n - 1}) {
      auto const value = all.sub(where, 1);
      initialise(stream, value, zero::Initial::constant(std::numeric_limits<double>::quiet_NaN()),
                 0, 0, Index{0});
      GuardedMemory<double> bad(device, stream, std::vector<double>{0, 0, 0, 0});
      add_squares(stream, zero::View<bf16 const, Device>(all), bad.view(), Index{2});
      CHECK(std::isnan(bad.values()[0]));
      CHECK(bad.values()[1] == 3);
      initialise(stream, value, zero::Initial::constant(0), 0, 0, Index{0});
    }
  }
}

TEST_CASE("sums of squares: the largest mark of what is not finite is kept") {
  Device device;
  auto stream = device.stream();
  float const infinity = std::numeric_limits<float>::infinity();
  float const nan = std::numeric_limits<float>::quiet_NaN();
  float const all_bits = std::bit_cast<float>(0xffffffffu);  // of a NaN: no empty slot
  // Taken by warps, and by tiles.
  for (Index n : {Index{131072 * 2 + 192}, Index{2097152 + 192}}) {
    std::vector<float> const ones(zero::at(n), 1.0f);
    GuardedMemory<float> good(device, stream, ones);
    for (float bad : {infinity, -infinity, nan, all_bits, std::numeric_limits<float>::max()}) {
      for (Index where : {Index{0}, Index{4095}, Index{131072}, n - 1}) {
        std::vector<float> x = ones;
        x[zero::at(where)] = bad;
        GuardedMemory<float> a(device, stream, x);
        GuardedMemory<double> record(device, stream, std::vector<double>{0, 0, 0, 0});
        add_squares(stream, good.read(), record.view(), Index{4});
        add_squares(stream, a.read(), record.view(), Index{5});
        add_squares(stream, a.read(), record.view(), Index{6});
        add_squares(stream, a.read(), record.view(), Index{3});  // the largest stays
        std::vector<double> const got = record.values();
        bool const finite = std::isfinite(bad);
        CHECK(std::isfinite(got[0]) == finite);
        CHECK(got[1] == (finite ? 0.0 : 7.0));
      }
    }
  }
}

TEST_CASE("sums of squares of more than 2^31 elements, in several launches") {
  Device device;
  auto stream = device.stream();
  Index const n = (Index{1} << 31) + 4096 * 65 + 64;
  auto memory = device.allocate(n * 2, "test");
  zero::View<bf16, Device> const x{reinterpret_cast<bf16*>(memory.address()), n};
  initialise(stream, x, zero::Initial::constant(1), 0, 0, Index{0});
  GuardedMemory<double> record(device, stream, std::vector<double>{0, 0, 0, 0});
  add_squares(stream, zero::View<bf16 const, Device>(x), record.view(), Index{0});
  CHECK(record.values()[0] == static_cast<double>(n));
  // Each of these is counted once, wherever it lies.
  for (Index where : {Index{0}, Index{1} << 30, (Index{1} << 31) - 1, Index{1} << 31, n - 1})
    initialise(stream, x.sub(where, 1), zero::Initial::constant(3), 0, 0, Index{0});
  add_squares(stream, zero::View<bf16 const, Device>(x), record.view(), Index{0});
  CHECK(record.values()[0] == static_cast<double>(2 * n + 5 * 8));
}

TEST_CASE("sums of squares: addresses and sizes that no layout has are refused") {
  Device device;
  auto stream = device.stream();
  GuardedMemory<float> x(device, stream, std::vector<float>(128, 1.0f));
  GuardedMemory<double> record(device, stream, std::vector<double>{0, 0, 0, 0});
  zero::View<float const, Device> const all = x.read();
  CHECK_THROWS_AS(add_squares(stream, all.sub(1, 64), record.view(), Index{0}),
                  zero::InvalidArgument);
  CHECK_THROWS_AS(add_squares(stream, all.sub(0, 65), record.view(), Index{0}),
                  zero::InvalidArgument);
}

}  // namespace
}  // namespace zero_test
