// SPDX-License-Identifier: Apache-2.0
// Collectives between threads on every device, against loops that are written without the library:
// sums in rank order, in float (in double for double), rounded once.

#include <zero/comm/single_rank.hpp>
#include <zero/launch/threads.hpp>

#include <doctest/doctest.h>
#include <support/device_memory.hpp>
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>
#include <support/rounding.hpp>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using zero::bf16;
using zero::Host;
using zero::Index;
using zero_test::DeviceMemory;
using zero_test::GuardedDevice;
using zero_test::LateDevice;

constexpr zero::LaunchOptions patient{.timeout = std::chrono::seconds(60)};
constexpr zero::Where here{"test", "unit", 1};

/// Rank r's values, over magnitudes so different that the order of a sum shows in its bits.
template <class T>
std::vector<T> contribution(int rank, Index n) {
  std::vector<T> x;
  for (Index i = 0; i < n; ++i) {
    double const unit = zero::noise_uniform(7, rank, i) * 2 - 1;
    int const exponent = static_cast<int>(zero::noise_bits(8, rank, i) % 24) - 12;
    double const value = std::ldexp(unit, exponent);
    if constexpr (std::is_same_v<T, double>) {
      x.push_back(value);
    } else {
      x.push_back(static_cast<T>(static_cast<float>(value)));
    }
  }
  return x;
}

template <class T>
double number(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return static_cast<double>(static_cast<float>(x));
  }
}

/// The sum over ranks [0, world), in rank order or in the reverse.
template <class T>
std::vector<double> sums(int world, Index n, bool reverse = false) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<Wide> total;
  for (int k = 0; k < world; ++k) {
    std::vector<T> const x = contribution<T>(reverse ? world - 1 - k : k, n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      Wide const v = static_cast<Wide>(number(x[i]));
      if (k == 0) {
        total.push_back(v);
      } else {
        total[i] += v;
      }
    }
  }
  std::vector<double> result;
  for (Wide v : total) {
    if constexpr (std::is_same_v<T, double>) {
      result.push_back(v);
    } else {
      result.push_back(static_cast<double>(zero_test::stored<T>(v)));
    }
  }
  return result;
}

template <class T>
std::vector<double> numbers(std::vector<T> const& x) {
  std::vector<double> result;
  for (T v : x) result.push_back(number(v));
  return result;
}

/// Calls f(rank, size, communicator, stream) on every rank.
template <class D, class F>
void on_ranks(int world, F f) {
  zero::launch<zero::ThreadsOn<D>>(
      world,
      [&](auto communicator) {
        auto stream = communicator.device().stream();
        f(communicator, stream);
        stream.synchronize();
      },
      patient);
}

template <class T, class D>
void check_all_gather(int world, Index n, bool in_place) {
  std::vector<double> expected;
  for (int r = 0; r < world; ++r) {
    for (double x : numbers(contribution<T>(r, n))) expected.push_back(x);
  }
  std::vector<std::vector<double>> got(zero::at(world));
  on_ranks<D>(world, [&](auto& communicator, auto& stream) {
    int const rank = communicator.rank();
    std::vector<T> const mine = contribution<T>(rank, n);
    std::vector<T> before(zero::at(world * n), static_cast<T>(99.0f));
    if (in_place) std::copy(mine.begin(), mine.end(), before.begin() + rank * n);
    DeviceMemory<T, D> slice(communicator.device(), stream, mine);
    DeviceMemory<T, D> full(communicator.device(), stream, before);
    {
      auto from = slice.claim(stream);
      auto to = full.claim(stream);
      communicator.all_gather(in_place ? to.source(rank * n, n) : from.source(0, n),
                              to.target(0, world * n), here);
    }
    got[zero::at(rank)] = numbers(full.read(stream));
  });
  for (auto const& x : got) CHECK(x == expected);
}

template <class T, class D>
void check_reduce_scatter(int world, Index n, bool in_place) {
  std::vector<double> const expected = sums<T>(world, world * n);
  std::vector<std::vector<double>> got(zero::at(world));
  std::vector<char> untouched(zero::at(world), 1);
  on_ranks<D>(world, [&](auto& communicator, auto& stream) {
    int const rank = communicator.rank();
    std::vector<T> const mine = contribution<T>(rank, world * n);
    DeviceMemory<T, D> full(communicator.device(), stream, mine);
    DeviceMemory<T, D> slice(communicator.device(), n);
    {
      auto from = full.claim(stream);
      auto to = slice.claim(stream);
      communicator.reduce_scatter(from.source(0, world * n),
                                  in_place ? from.target(rank * n, n) : to.target(0, n), here);
    }
    std::vector<T> const after = full.read(stream);
    auto const begin = after.begin() + rank * n;
    got[zero::at(rank)] = numbers(in_place ? std::vector<T>(begin, begin + n) : slice.read(stream));
    for (Index i = 0; i < world * n; ++i) {
      bool const own = in_place && i / std::max<Index>(n, 1) == rank;
      if (!own && number(after[zero::at(i)]) != number(mine[zero::at(i)]))
        untouched[zero::at(rank)] = 0;
    }
  });
  for (int r = 0; r < world; ++r) {
    CHECK(got[zero::at(r)] ==
          std::vector<double>(expected.begin() + r * n, expected.begin() + (r + 1) * n));
    CHECK(untouched[zero::at(r)] == 1);
  }
}

template <class T, class D>
void check_all_reduce(int world, Index n) {
  std::vector<double> const expected = sums<T>(world, world * n);
  std::vector<std::vector<double>> got(zero::at(world));
  on_ranks<D>(world, [&](auto& communicator, auto& stream) {
    DeviceMemory<T, D> full(communicator.device(), stream,
                            contribution<T>(communicator.rank(), world * n));
    {
      auto claim = full.claim(stream);
      communicator.all_reduce(claim.target(0, world * n), here);
    }
    got[zero::at(communicator.rank())] = numbers(full.read(stream));
  });
  for (auto const& x : got) CHECK(x == expected);
}

template <class T, class D>
void check_collectives() {
  for (int world = 1; world <= 5; ++world) {
    for (Index n : {0, 1, 64, 576}) {  // 576: more than a block of 512
      CAPTURE(world);
      CAPTURE(n);
      for (bool in_place : {false, true}) {
        check_all_gather<T, D>(world, n, in_place);
        check_reduce_scatter<T, D>(world, n, in_place);
      }
      check_all_reduce<T, D>(world, n);
    }
  }
}

TEST_CASE_TEMPLATE("collectives of float, worlds of 1 to 5", D, Host, LateDevice, GuardedDevice) {
  check_collectives<float, D>();
}

TEST_CASE_TEMPLATE("collectives of bf16, worlds of 1 to 5", D, Host, LateDevice, GuardedDevice) {
  check_collectives<bf16, D>();
}

TEST_CASE_TEMPLATE("collectives of double, worlds of 1 to 5", D, Host, LateDevice, GuardedDevice) {
  check_collectives<double, D>();
}

template <class A>
int differences(A const& a, A const& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += int{a[i] != b[i]};
  return count;
}

TEST_CASE("the values above tell a sum in another order, and one that is rounded on the way") {
  int const world = 5;
  int const n = 256;
  CHECK(differences(sums<float>(world, n), sums<float>(world, n, true)) > n / 10);
  CHECK(differences(sums<double>(world, n), sums<double>(world, n, true)) > n / 10);
  std::vector<double> rounded_twice(n, 0.0);
  for (int r = 0; r < world; ++r) {
    std::vector<bf16> const x = contribution<bf16>(r, n);
    for (std::size_t i = 0; i < n; ++i) {
      rounded_twice[i] = static_cast<double>(
          zero_test::stored<bf16>(static_cast<float>(rounded_twice[i]) + static_cast<float>(x[i])));
    }
  }
  CHECK(differences(sums<bf16>(world, n), rounded_twice) > n / 10);
}

TEST_CASE_TEMPLATE("collectives on one stream follow one another without a wait of the host", D,
                   Host, LateDevice, GuardedDevice) {
  int const world = 3;
  std::vector<std::vector<float>> got(world);
  on_ranks<D>(world, [&](auto& communicator, auto& stream) {
    Index const rank = communicator.rank();
    DeviceMemory<float, D> full(communicator.device(), stream,
                                std::vector<float>(64 * world, 1.0f));
    for (int i = 0; i < 10; ++i) {
      auto claim = full.claim(stream);
      communicator.reduce_scatter(claim.source(0, 64 * world), claim.target(64 * rank, 64), here);
      communicator.all_gather(claim.source(64 * rank, 64), claim.target(0, 64 * world), here);
    }
    got[zero::at(rank)] = full.read(stream);
  });
  for (auto const& x : got) CHECK(x == std::vector<float>(64 * world, 59049.0f));  // 3^10
}

TEST_CASE("channels have orders of their own: ranks may issue two in different orders") {
  // Only where enqueuing does not block, of course.
  std::vector<std::vector<float>> got(2);
  on_ranks<LateDevice>(2, [&](auto& communicator, auto& stream) {
    int const rank = communicator.rank();
    auto other = communicator.device().stream();
    auto one = communicator.channel(1);
    auto two = communicator.channel(2);
    DeviceMemory<float, LateDevice> a(communicator.device(), stream, std::vector<float>(64, 1.0f));
    DeviceMemory<float, LateDevice> b(communicator.device(), other, std::vector<float>(128, 2.0f));
    auto const first = [&] {
      auto claim = a.claim(stream);
      one.all_reduce(claim.target(0, 64), here);
    };
    auto const second = [&] {
      auto claim = b.claim(other);
      two.all_reduce(claim.target(0, 128), here);
    };
    if (rank == 0) {
      first();
      second();
    } else {
      second();
      first();
    }
    got[zero::at(rank)] = a.read(stream);
    for (float x : b.read(other)) got[zero::at(rank)].push_back(x);
  });
  std::vector<float> expected(64, 2.0f);
  expected.resize(192, 4.0f);
  for (auto const& x : got) CHECK(x == expected);
}

TEST_CASE("collectives of one channel on two streams meet in the order in which they were issued") {
  // As two trainers of one process make them; each rank asks for another stream first.
  std::vector<std::vector<float>> got(2);
  on_ranks<LateDevice>(2, [&](auto& communicator, auto& stream) {
    int const rank = communicator.rank();
    auto other = communicator.device().stream();
    DeviceMemory<float, LateDevice> a(communicator.device(), stream, std::vector<float>(64, 1.0f));
    DeviceMemory<float, LateDevice> b(communicator.device(), other, std::vector<float>(128, 2.0f));
    for (int i = 0; i < 3; ++i) {
      auto first = a.claim(stream);
      communicator.all_reduce(first.target(0, 64), here);
      auto second = b.claim(other);
      communicator.all_reduce(second.target(0, 128), here);
    }
    (rank == 0 ? stream : other).synchronize();
    got[zero::at(rank)] = a.read(stream);
    for (float x : b.read(other)) got[zero::at(rank)].push_back(x);
  });
  std::vector<float> expected(64, 8.0f);
  expected.resize(192, 16.0f);
  for (auto const& x : got) CHECK(x == expected);
}

TEST_CASE_TEMPLATE("a communicator says who it is, on every channel", D, Host, LateDevice,
                   GuardedDevice) {
  std::vector<char> right(4, 0);
  zero::launch<zero::ThreadsOn<D>>(4, [&](auto communicator) {
    bool all = communicator.size() == 4;
    for (int i = 0; i < 4; ++i) {
      auto const channel = communicator.channel(i);
      all = all && channel.rank() == communicator.rank() && channel.size() == 4 &&
            &channel.device() == &communicator.device();
    }
    right[zero::at(communicator.rank())] = all ? 1 : 0;
  });
  CHECK(right == std::vector<char>(4, 1));
}

TEST_CASE_TEMPLATE("arguments that are ordered on two streams are refused", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto meeting = std::make_shared<zero::Meeting>(1, std::chrono::seconds(10));
  zero::ThreadCommunicator<D> communicator(meeting, 0, device);
  auto a = device.stream();
  auto b = device.stream();
  DeviceMemory<float, D> slice(device, 64);
  DeviceMemory<float, D> full(device, 64);
  auto from = slice.claim(a);
  auto to = full.claim(b);
  CHECK_THROWS_AS(communicator.all_gather(from.source(0, 64), to.target(0, 64), here), zero::Error);
}

/// What f throws as InvalidArgument; empty where it does not.
template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (zero::InvalidArgument const& e) {
    return e.what();
  }
  return "";
}

/// Calls with arguments that do not fit are refused before anything is enqueued.
template <class C>
void check_sizes_are_refused(C communicator) {
  using D = typename C::Device;
  auto stream = communicator.device().stream();
  DeviceMemory<float, D> slice(communicator.device(), 64);
  DeviceMemory<float, D> full(communicator.device(), 320);
  auto a = slice.claim(stream);
  auto b = full.claim(stream);
  Index const right = 64 * communicator.size();
  std::string const gather =
      refusal([&] { communicator.all_gather(a.source(0, 64), b.target(0, right + 64), here); });
  CHECK(gather.find("all_gather") != std::string::npos);
  CHECK_MESSAGE(gather.find(std::to_string(right + 64)) != std::string::npos, gather);
  std::string const reduce =
      refusal([&] { communicator.reduce_scatter(b.source(0, right + 64), a.target(0, 64), here); });
  CHECK_MESSAGE(reduce.find("reduce_scatter") != std::string::npos, reduce);
}

TEST_CASE("sizes that do not fit are refused") {
  check_sizes_are_refused(zero::SingleRank<>());
  Host device;
  auto const meeting = std::make_shared<zero::Meeting>(3, std::chrono::seconds(10));
  zero::ThreadCommunicator<Host> communicator(meeting, 0, device);
  check_sizes_are_refused(communicator);
  auto stream = device.stream();
  DeviceMemory<float, Host> memory(device, 64);
  auto claim = memory.claim(stream);
  std::string const text = refusal([&] { communicator.all_reduce(claim.target(0, 64), here); });
  CHECK_MESSAGE(text.find("all_reduce") != std::string::npos, text);
}

TEST_CASE("a channel that there is not is refused") {
  Host device;
  auto const meeting = std::make_shared<zero::Meeting>(1, std::chrono::seconds(10));
  zero::ThreadCommunicator<Host> communicator(meeting, 0, device);
  for (int channel : {-1, zero::Meeting::num_channels, 100})
    CHECK(refusal([&] { communicator.channel(channel); }) != "");
  CHECK(refusal([&] { communicator.channel(zero::Meeting::num_channels - 1); }) == "");
}

TEST_CASE_TEMPLATE("one rank alone: collectives are copies", D, Host, LateDevice, GuardedDevice) {
  zero::SingleRank<D> communicator;
  CHECK(communicator.rank() == 0);
  CHECK(communicator.size() == 1);
  auto const channel = communicator.channel(2);
  CHECK(&channel.device() == &communicator.device());
  auto stream = communicator.device().stream();
  std::vector<float> const x = contribution<float>(0, 192);
  DeviceMemory<float, D> a(communicator.device(), stream, x);
  DeviceMemory<float, D> gathered(communicator.device(), 192);
  DeviceMemory<float, D> reduced(communicator.device(), 192);
  {
    auto from = a.claim(stream);
    auto to = gathered.claim(stream);
    auto sum_to = reduced.claim(stream);
    communicator.all_gather(from.source(0, 192), to.target(0, 192), here);
    communicator.reduce_scatter(from.source(0, 192), sum_to.target(0, 192), here);
    communicator.all_gather(from.source(0, 192), from.target(0, 192), here);
    communicator.reduce_scatter(from.source(0, 192), from.target(0, 192), here);
    communicator.all_reduce(from.target(0, 192), here);
  }
  CHECK(a.read(stream) == x);
  CHECK(gathered.read(stream) == x);
  CHECK(reduced.read(stream) == x);
}

}  // namespace
