// SPDX-License-Identifier: Apache-2.0
// Collectives between threads on GPUs, against loops that are written without the library: sums in
// rank order, in float (in double for double), rounded once; and what happens when a rank goes
// wrong.

#include <zero/cuda/cuda.cuh>
#include <zero/model/initial.hpp>

#include <cuda/values.hpp>

#include <doctest/doctest.h>
#include <support/device_memory.hpp>
#include <support/rounding.hpp>

#include <string>
#include <vector>

namespace zero_test {
namespace {

using zero::bf16;
using zero::fp16;
using zero::Index;
using zero::cuda::SharedDevice;

constexpr zero::LaunchOptions patient{.timeout = std::chrono::seconds(60)};
constexpr zero::Where here{"test", "unit", 1};

/// Rank r's values, over magnitudes so different that the order of a sum shows in its bits.
template <class T>
std::vector<T> contribution(int rank, Index n) {
  std::vector<T> x;
  for (float v : spread_values(n, static_cast<std::uint64_t>(rank) + 20))
    x.push_back(static_cast<T>(v));
  return x;
}

template <class T>
std::vector<T> sums(int world, Index n) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<Wide> total(zero::at(n), Wide(0));
  for (int r = 0; r < world; ++r) {
    std::vector<T> const x = contribution<T>(r, n);
    for (std::size_t i = 0; i < x.size(); ++i)
      total[i] = r == 0 ? static_cast<Wide>(x[i]) : total[i] + static_cast<Wide>(x[i]);
  }
  std::vector<T> result;
  for (Wide v : total) {
    if constexpr (std::is_same_v<T, double>) {
      result.push_back(v);
    } else {
      result.push_back(static_cast<T>(stored<T>(v)));
    }
  }
  return result;
}

template <class T>
std::vector<T> part(std::vector<T> const& x, int rank, Index n) {
  return {x.begin() + rank * n, x.begin() + (rank + 1) * n};
}

template <class T, class C>
void check_collectives(C& communicator, Index slice) {
  auto& device = communicator.device();
  using D = typename C::Device;
  auto stream = device.stream();
  int const world = communicator.size();
  int const rank = communicator.rank();
  Index const full = slice * world;
  std::vector<T> const mine = contribution<T>(rank, full);
  std::vector<T> const expected = sums<T>(world, full);
  std::vector<T> gathered;
  for (int r = 0; r < world; ++r) {
    std::vector<T> const theirs = part(contribution<T>(r, full), r, slice);
    gathered.insert(gathered.end(), theirs.begin(), theirs.end());
  }
  std::string wrong;
  auto const check = [&](char const* what, bool good) {
    if (!good) wrong += std::string(what) + " ";
  };
  for (int round = 0; round < 2; ++round) {
    DeviceMemory<T, D> input(device, stream, mine);
    DeviceMemory<T, D> apart(device, full);
    {
      auto in = input.claim(stream);
      auto out = apart.claim(stream);
      communicator.all_gather(in.source(rank * slice, slice), out.target(0, full), here);
    }
    check("all_gather", same_bits(apart.read(stream), gathered));
    {
      auto in = input.claim(stream);
      auto out = apart.claim(stream);
      communicator.reduce_scatter(in.source(0, full), out.target(0, slice), here);
    }
    check("reduce_scatter",
          same_bits(part(apart.read(stream), 0, slice), part(expected, rank, slice)));
    check("input", same_bits(input.read(stream), mine));
    {
      auto io = input.claim(stream);
      communicator.reduce_scatter(io.source(0, full), io.target(rank * slice, slice), here);
      communicator.all_gather(io.source(rank * slice, slice), io.target(0, full), here);
    }
    check("in place", same_bits(input.read(stream), expected));
    DeviceMemory<T, D> reduced(device, stream, mine);
    {
      auto io = reduced.claim(stream);
      communicator.all_reduce(io.target(0, full), here);
    }
    check("all_reduce", same_bits(reduced.read(stream), expected));
  }
  if (!wrong.empty()) throw zero::Error("rank " + std::to_string(rank) + ": wrong " + wrong);
}

template <class T>
void check_all_worlds() {
  for (int world : {1, 2, 3, 4, 8}) {
    for (Index slice : {Index{0}, Index{1}, Index{63}, Index{64}, Index{1000}, Index{64 * 129}}) {
      CHECK_NOTHROW_MESSAGE(
          zero::launch<SharedDevice>(
              world, [&](auto communicator) { check_collectives<T>(communicator, slice); },
              patient),
          world << " ranks, slices of " << slice);
    }
  }
}

TEST_CASE("collectives of float") { check_all_worlds<float>(); }
TEST_CASE("collectives of bf16") { check_all_worlds<bf16>(); }
TEST_CASE("collectives of fp16") { check_all_worlds<fp16>(); }
TEST_CASE("collectives of double") { check_all_worlds<double>(); }

/// What launch throws when rank 1 does something else than the others.
template <class F>
std::string failure(F rank_1, std::chrono::milliseconds timeout) {
  std::string text;
  try {
    zero::launch<SharedDevice>(
        3,
        [&](auto communicator) {
          if (communicator.rank() == 1) {
            rank_1(communicator);
            return;
          }
          auto stream = communicator.device().stream();
          DeviceMemory<float, zero::cuda::Device> memory(communicator.device(), 192);
          auto claim = memory.claim(stream);
          communicator.all_reduce(claim.target(0, 192), zero::Where{"reduce", "h.3", 12});
          claim.end();
          stream.synchronize();
        },
        {.timeout = timeout});
  } catch (zero::CommunicationError const& e) {
    text = e.what();
  }
  return text;
}

TEST_CASE("a rank that ends, stalls or takes another path is named by all") {
  using std::chrono::milliseconds;
  std::string const ended = failure([](auto&) {}, milliseconds(20'000));
  CHECK(ended.find("rank 1 (has ended)") != ended.npos);
  CHECK(ended.find("unit 'h.3' (reduce, step 12)") != ended.npos);
  std::string const late =
      failure([](auto&) { std::this_thread::sleep_for(milliseconds(3000)); }, milliseconds(300));
  CHECK(late.find("rank 1, which did not come within 300 ms") != late.npos);
  std::string const other = failure(
      [](auto& communicator) {
        auto stream = communicator.device().stream();
        DeviceMemory<float, zero::cuda::Device> memory(communicator.device(), 192);
        auto claim = memory.claim(stream);
        communicator.all_reduce(claim.target(0, 192), zero::Where{"reduce", "h.4", 12});
      },
      milliseconds(20'000));
  CHECK(other.find("unit 'h.4'") != other.npos);
  CHECK(other.find("unit 'h.3'") != other.npos);
  std::string const thrown = [] {
    try {
      failure([](auto&) { throw std::runtime_error("no batch"); }, milliseconds(20'000));
    } catch (std::runtime_error const& e) {
      return std::string(e.what());
    }
    return std::string();
  }();
  CHECK(thrown == "no batch");
}

TEST_CASE("a launch's threads share what the host does beside a GPU") {
  zero::launch<SharedDevice>(
      2, [](auto ranks) { CHECK(ranks.device().stream().workers() == nullptr); }, patient);
  zero::LaunchOptions three = patient;
  three.threads = 3;
  zero::launch<SharedDevice>(
      2, [](auto ranks) { CHECK(ranks.device().stream().workers()->threads() == 3); }, three);
}

TEST_CASE("more ranks than a kernel reads are refused") {
  CHECK_THROWS_AS(zero::launch<SharedDevice>(
                      65, [](auto) {}, patient),
                  zero::InvalidArgument);
}

/// Whether n elements are expected(i) in windows at the start, about 2^31 and at the end.
template <class F>
void check_windows(zero::cuda::Stream& stream, bf16 const* found, Index n, F expected) {
  for (Index begin : {Index{0}, std::min((Index{1} << 31) - 500, n - 1000), n - 1000}) {
    std::vector<bf16> window(1000);
    copy_out(stream, window.data(),
             zero::View<bf16 const, zero::cuda::Device>(found + begin, Index{1000}));
    stream.synchronize();
    Index wrong = 0;
    for (Index i = 0; i < 1000; ++i)
      wrong += static_cast<float>(window[zero::at(i)]) != expected(begin + i);
    CHECK_MESSAGE(wrong == 0, "from " << begin << " of " << n);
  }
}

TEST_CASE("sums and copies of more than 2^31 elements of three ranks, packed and one by one") {
  zero::cuda::Device device;
  auto stream = device.stream();
  zero::Initial const initial = zero::Initial::uniform(-1, 1);
  auto const value = [&](int rank, Index i) { return stored<bf16>(initial.value(7, rank, i)); };
  Index const most = (Index{1} << 31) + 4096 + 64;
  std::vector<zero::cuda::Buffer> buffers;
  for (int q = 0; q < 4; ++q) buffers.push_back(device.allocate(most * 2, "test"));
  auto const memory = [&](int q) {
    return reinterpret_cast<bf16*>(buffers[zero::at(q)].address());
  };
  zero::cuda::detail::RankPointers<bf16 const> from{};
  for (int q = 0; q < 3; ++q) {
    initialise(stream, zero::View<bf16, zero::cuda::Device>(memory(q), most), initial, 7, q,
               Index{0});
    from.of[q] = memory(q);
  }
  zero::cuda::detail::RankPointers<bf16> const to{{memory(3)}};
  zero::View<bf16, zero::cuda::Device> const result{memory(3), most};
  for (Index odd : {0, 1}) {
    Index const n = most - odd;
    fill_zero(stream, result);
    zero::cuda::detail::rank_sum(stream.native(), from, 3, to, 1, n);
    check_windows(stream, memory(3), n,
                  [&](Index i) { return stored<bf16>((value(0, i) + value(1, i)) + value(2, i)); });
    // Rank 2's slice lies across 2^31.
    Index const slice = most / 3 / 8 * 8 - odd;
    fill_zero(stream, result);
    zero::cuda::detail::rank_copy(stream.native(), from, 3, memory(3), slice);
    check_windows(stream, memory(3), 3 * slice,
                  [&](Index i) { return value(static_cast<int>(i / slice), i % slice); });
  }
}

}  // namespace
}  // namespace zero_test
