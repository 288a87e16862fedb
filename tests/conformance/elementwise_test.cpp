// SPDX-License-Identifier: Apache-2.0
// Element-wise work on every device against scalar loops that are written without the library.

#include <zero/core/noise.hpp>
#include <zero/optim/decision.hpp>

#include <doctest/doctest.h>
#include <support/device_memory.hpp>
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>
#include <support/rounding.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace {

using zero::bf16;
using zero::fp16;
using zero::Host;
using zero::Index;
using zero_test::DeviceMemory;
using zero_test::GuardedDevice;
using zero_test::LateDevice;
using zero_test::stored;

// None, one alignment, odd multiples of it, more than one tile of 4096 and of 512; and sizes that
// are no multiple, which only add_squares may refuse.
constexpr Index sizes[] = {0, 64, 192, 64 * 9, 4096 + 64, 64 * 129};
constexpr Index any_sizes[] = {0, 1, 63, 64, 65, 192, 1000, 4160};

/// Values over many magnitudes, some negative, some that T cannot hold exactly.
std::vector<float> values(Index n, std::uint64_t seed) {
  std::vector<float> result;
  for (Index i = 0; i < n; ++i) {
    double const unit = zero::noise_uniform(seed, 0, i) * 2 - 1;
    int const exponent = static_cast<int>(zero::noise_bits(seed, 1, i) % 20) - 12;
    result.push_back(static_cast<float>(std::ldexp(unit, exponent)));
  }
  return result;
}

template <class T>
std::vector<T> as(std::vector<float> const& x) {
  std::vector<T> result;
  for (float v : x) result.push_back(static_cast<T>(v));
  return result;
}

/// The numbers that elements of any type hold.
template <class T>
std::vector<float> numbers(std::vector<T> const& x) {
  std::vector<float> result;
  for (T v : x) result.push_back(static_cast<float>(v));
  return result;
}

bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

template <class T, class D>
zero::View<T const, D> reading(zero::Claim<T, D> const& claim) {
  return claim.view();
}

template <class T, class D>
void check_fill_and_copy() {
  D device;
  auto stream = device.stream();
  for (Index n : any_sizes) {
    std::vector<T> const x = as<T>(values(n, 1));
    DeviceMemory<T, D> a(device, stream, x);
    DeviceMemory<T, D> b(device, n);
    {
      auto from = a.claim(stream);
      auto to = b.claim(stream);
      copy(stream, to.view(), reading(from));
    }
    CHECK(same_bits(numbers(b.read(stream)), numbers(x)));
    {
      auto to = a.claim(stream);
      fill_zero(stream, to.view());
    }
    CHECK(same_bits(numbers(a.read(stream)), std::vector<float>(zero::at(n), 0.0f)));
  }
}

TEST_CASE_TEMPLATE("fill_zero and copy", D, Host, LateDevice, GuardedDevice) {
  check_fill_and_copy<float, D>();
  check_fill_and_copy<bf16, D>();
  check_fill_and_copy<fp16, D>();
  check_fill_and_copy<double, D>();
}

TEST_CASE_TEMPLATE("copy keeps every bit pattern of a 16-bit type", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto stream = device.stream();
  std::vector<bf16> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  DeviceMemory<bf16, D> a(device, stream, all);
  DeviceMemory<bf16, D> b(device, 65536);
  {
    auto from = a.claim(stream);
    auto to = b.claim(stream);
    copy(stream, to.view(), reading(from));
  }
  std::vector<bf16> const copied = b.read(stream);
  CHECK(std::memcmp(copied.data(), all.data(), 2 * all.size()) == 0);
}

template <class A, class B, class D>
void check_assign_and_add() {
  D device;
  auto stream = device.stream();
  for (Index n : any_sizes) {
    std::vector<A> const to = as<A>(values(n, 2));
    std::vector<B> const from = as<B>(values(n, 3));
    DeviceMemory<A, D> a(device, stream, to);
    DeviceMemory<A, D> sum(device, stream, to);
    DeviceMemory<B, D> b(device, stream, from);
    {
      auto source = b.claim(stream);
      auto assigned = a.claim(stream);
      auto added = sum.claim(stream);
      assign(stream, assigned.view(), reading(source));
      add(stream, added.view(), reading(source));
    }
    std::vector<float> assigned;
    std::vector<float> added;
    for (std::size_t i = 0; i < to.size(); ++i) {
      float const x = static_cast<float>(from[i]);
      assigned.push_back(stored<A>(x));
      added.push_back(stored<A>(static_cast<float>(to[i]) + x));
    }
    CHECK(same_bits(numbers(a.read(stream)), assigned));
    CHECK(same_bits(numbers(sum.read(stream)), added));
  }
}

TEST_CASE_TEMPLATE("assign and add go through float and round once", D, Host, LateDevice,
                   GuardedDevice) {
  check_assign_and_add<float, float, D>();
  check_assign_and_add<float, bf16, D>();
  check_assign_and_add<bf16, float, D>();
  check_assign_and_add<bf16, bf16, D>();
  check_assign_and_add<float, fp16, D>();
  check_assign_and_add<fp16, float, D>();
}

TEST_CASE_TEMPLATE("copy_in and copy_out move elements from and to the host", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto stream = device.stream();
  for (Index n : any_sizes) {
    std::vector<float> const in = values(n, 4);
    std::vector<float> out(zero::at(n), -1.0f);
    DeviceMemory<float, D> a(device, n);
    {
      auto claim = a.claim(stream);
      copy_in(stream, claim.view(), in.data());
      copy_out(stream, out.data(), reading(claim));
    }
    stream.synchronize();
    CHECK(same_bits(out, in));
  }
}

TEST_CASE_TEMPLATE("work on views of no memory does nothing", D, Host, LateDevice, GuardedDevice) {
  D device;
  auto stream = device.stream();
  zero::View<float, D> const none;
  zero::View<bf16, D> const none16;
  fill_zero(stream, none);
  copy(stream, none, zero::View<float const, D>(none));
  assign(stream, none, zero::View<bf16 const, D>(none16));
  add(stream, none, zero::View<bf16 const, D>(none16));
  copy_in(stream, none, static_cast<float const*>(nullptr));
  copy_out(stream, static_cast<float*>(nullptr), zero::View<float const, D>(none));
  DeviceMemory<double, D> record(device, stream, {1.0, 0.0});
  {
    auto claim = record.claim(stream);
    add_squares(stream, zero::View<float const, D>(none), claim.view(), Index{3});
  }
  CHECK(record.read(stream) == std::vector<double>{1.0, 0.0});
}

/// The order that sums of squares are promised to have: tiles of 16,384, in each 1,024 running sums
/// whose neighbours are added until one is left; eight tiles in order make a group; groups go to
/// 256 running totals in turn, whose neighbours are added likewise.
double sum_of_squares(std::vector<float> const& x) {
  auto const pairwise = [](std::vector<double> sums) {
    while (sums.size() > 1) {
      for (std::size_t k = 0; k < sums.size() / 2; ++k) sums[k] = sums[2 * k] + sums[2 * k + 1];
      sums.resize(sums.size() / 2);
    }
    return sums[0];
  };
  std::vector<double> totals(256, 0.0);
  std::vector<double> groups;
  for (std::size_t begin = 0; begin < x.size(); begin += 16384) {
    std::vector<double> lanes(1024, 0.0);
    for (std::size_t i = begin; i < std::min(begin + 16384, x.size()); ++i) {
      double const v = static_cast<double>(x[i]);
      lanes[i % 1024] += v * v;
    }
    if (begin / 16384 % 8 == 0) groups.push_back(0.0);
    groups.back() += pairwise(lanes);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) totals[g % 256] += groups[g];
  return pairwise(totals);
}

template <class T, class D>
void check_add_squares() {
  D device;
  auto stream = device.stream();
  std::vector<Index> all(std::begin(sizes), std::end(sizes));
  all.insert(all.end(), {1024, 1088, 16384 - 64, 16384 + 64, 16384 * 8 + 64, 16384 * 8 * 2});
  for (Index n : all) {
    std::vector<T> const x = as<T>(values(n, 5));
    DeviceMemory<T, D> a(device, stream, x);
    DeviceMemory<double, D> record(device, stream, {0.125, 0.0});
    {
      auto from = a.claim(stream);
      auto to = record.claim(stream);
      add_squares(stream, reading(from), to.view(), Index{3});
    }
    double const sum = sum_of_squares(numbers(x));
    std::vector<double> const got = record.read(stream);
    CHECK(got[0] == 0.125 + sum);
    CHECK(got[1] == 0.0);
    double naive = 0;
    for (T v : x) naive += static_cast<double>(static_cast<float>(v)) * static_cast<float>(v);
    CHECK(sum == doctest::Approx(naive).epsilon(1e-12));
  }
}

TEST_CASE_TEMPLATE("add_squares adds in double, in the order that it promises", D, Host, LateDevice,
                   GuardedDevice) {
  check_add_squares<float, D>();
  check_add_squares<bf16, D>();
  check_add_squares<fp16, D>();
}

TEST_CASE_TEMPLATE("add_squares of the largest floats is finite", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto stream = device.stream();
  float const largest = std::numeric_limits<float>::max();
  DeviceMemory<float, D> a(device, stream, std::vector<float>(4160, largest));
  DeviceMemory<double, D> record(device, stream, {0.0, 0.0});
  {
    auto from = a.claim(stream);
    auto to = record.claim(stream);
    add_squares(stream, reading(from), to.view(), Index{0});
  }
  CHECK(std::isfinite(record.read(stream)[0]));
  CHECK(record.read(stream)[1] == 0.0);
}

TEST_CASE_TEMPLATE("add_squares keeps the largest mark of what is not finite", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto stream = device.stream();
  float const infinity = std::numeric_limits<float>::infinity();
  float const nan = std::numeric_limits<float>::quiet_NaN();
  for (float bad : {infinity, -infinity, nan}) {
    for (Index where : {0, 63, 100, 4095, 4096, 4159}) {
      std::vector<float> x(4160, 1.0f);
      DeviceMemory<float, D> good(device, stream, x);
      x[zero::at(where)] = bad;
      DeviceMemory<float, D> a(device, stream, x);
      DeviceMemory<double, D> record(device, stream, {0.0, 0.0});
      {
        auto fine = good.claim(stream);
        auto from = a.claim(stream);
        auto to = record.claim(stream);
        add_squares(stream, reading(fine), to.view(), Index{4});
        add_squares(stream, reading(from), to.view(), Index{5});
        add_squares(stream, reading(from), to.view(), Index{6});
        add_squares(stream, reading(fine), to.view(), Index{7});
        add_squares(stream, reading(from), to.view(), Index{3});
      }
      std::vector<double> const got = record.read(stream);
      CHECK(!std::isfinite(got[0]));
      CHECK(got[1] == 7.0);
    }
  }
}

template <class From, class To, class D>
void check_marks() {
  D device;
  auto stream = device.stream();
  float const infinity = std::numeric_limits<float>::infinity();
  float const nan = std::numeric_limits<float>::quiet_NaN();
  for (float value : {0.0f, -1.0f, infinity, -infinity, nan}) {
    DeviceMemory<From, D> a(device, stream, {From(value)});
    DeviceMemory<To, D> b(device, stream, {To(2.0f)});
    {
      auto from = a.claim(stream);
      auto to = b.claim(stream);
      mark_not_finite(stream, reading(from), to.view());
    }
    float const got = static_cast<float>(b.read(stream)[0]);
    CHECK((std::isfinite(value) ? got == 2.0f : std::isnan(got)));
  }
}

TEST_CASE("a loss beyond float is finite") {
  zero::HostStream stream;
  double const loss = 1e300;
  double mark = 0;
  zero::mark_not_finite(stream, zero::View<double const, Host>(&loss, 1),
                        zero::View<double, Host>(&mark, 1));
  CHECK(mark == 0);
}

TEST_CASE_TEMPLATE("mark_not_finite leaves what is finite alone, and marks the rest", D, Host,
                   LateDevice, GuardedDevice) {
  check_marks<double, double, D>();
  check_marks<double, float, D>();
  check_marks<double, bf16, D>();
  check_marks<double, fp16, D>();
  check_marks<float, double, D>();
  check_marks<bf16, double, D>();
  check_marks<fp16, double, D>();
}

}  // namespace
