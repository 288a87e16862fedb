// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels against scalar loops that are written without the library: all types, sizes
// that no access divides, addresses that no access may use.

#include <zero/cuda/cuda.cuh>
#include <zero/model/initial.hpp>

#include <cuda/values.hpp>

#include <doctest/doctest.h>
#include <support/rounding.hpp>

#include <vector>

namespace zero_test {
namespace {

using zero::bf16;
using zero::fp16;
using zero::Index;
using zero::cuda::Device;

constexpr Index sizes[] = {0, 1, 3, 63, 64, 65, 1000, 4096 + 7, 16384, 100003};
constexpr Index shifts[] = {0, 1, 4};

template <class T>
void check_fill_and_copy() {
  Device device;
  auto stream = device.stream();
  for (Index n : sizes) {
    std::vector<T> const x = as<T>(spread_values(n, 1));
    GuardedMemory<T> a(device, stream, x, 1);
    GuardedMemory<T> b(device, stream, n);
    copy(stream, b.view(), a.read());
    CHECK(same_bits(b.values(), x));
    fill_zero(stream, b.view());
    CHECK(same_bits(b.values(), std::vector<T>(zero::at(n), T(0.0f))));
    CHECK(a.intact());
    CHECK(b.intact());
  }
}

TEST_CASE("fill_zero and copy") {
  check_fill_and_copy<float>();
  check_fill_and_copy<bf16>();
  check_fill_and_copy<fp16>();
}

template <class A, class B>
void check_assign_and_add() {
  Device device;
  auto stream = device.stream();
  for (Index n : sizes) {
    std::vector<A> const old = as<A>(spread_values(n, 2));
    std::vector<B> const from = as<B>(spread_values(n, 3));
    for (Index shift : shifts) {
      GuardedMemory<B> source(device, stream, from, shift == 4 ? 0 : shift);
      GuardedMemory<A> assigned(device, stream, n, shift);
      GuardedMemory<A> added(device, stream, old, shift);
      assign(stream, assigned.view(), source.read());
      add(stream, added.view(), source.read());
      std::vector<A> const got = assigned.values();
      std::vector<A> const sum = added.values();
      Index wrong = 0;
      for (std::size_t i = 0; i < from.size(); ++i) {
        float const x = static_cast<float>(from[i]);
        wrong += static_cast<float>(got[i]) != stored<A>(x);
        wrong += static_cast<float>(sum[i]) != stored<A>(static_cast<float>(old[i]) + x);
      }
      CHECK_MESSAGE(wrong == 0, n << " elements, shifted by " << shift);
      CHECK(assigned.intact());
      CHECK(added.intact());
    }
  }
}

TEST_CASE("assign and add round once") {
  check_assign_and_add<float, float>();
  check_assign_and_add<float, bf16>();
  check_assign_and_add<float, fp16>();
  check_assign_and_add<bf16, float>();
  check_assign_and_add<bf16, bf16>();
  check_assign_and_add<bf16, fp16>();
  check_assign_and_add<fp16, float>();
  check_assign_and_add<fp16, bf16>();
  check_assign_and_add<fp16, fp16>();
}

TEST_CASE("every number of a 16-bit type and its neighbours are converted as on the host") {
  Device device;
  auto stream = device.stream();
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    fp16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    float const value = static_cast<float>(half);
    for (float v : {value, std::nextafter(value, 1e30f), std::nextafter(value, -1e30f),
                    std::bit_cast<float>(bits << 16), std::bit_cast<float>(bits << 16 | 0x8000u),
                    std::bit_cast<float>(bits << 16 | 0x7fffu)})
      x.push_back(v);
  }
  GuardedMemory<float> from(device, stream, x);
  GuardedMemory<fp16> halves(device, stream, static_cast<Index>(x.size()));
  GuardedMemory<bf16> brains(device, stream, static_cast<Index>(x.size()));
  GuardedMemory<float> back(device, stream, static_cast<Index>(x.size()));
  assign(stream, halves.view(), from.read());
  assign(stream, brains.view(), from.read());
  assign(stream, back.view(), halves.read());
  CHECK(same_bits(halves.values(), as<fp16>(x)));
  CHECK(same_bits(brains.values(), as<bf16>(x)));
  std::vector<float> const widened = back.values();
  std::vector<fp16> const expected = as<fp16>(x);
  Index wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    float const e = static_cast<float>(expected[i]);
    wrong += !(widened[i] == e || (widened[i] != widened[i] && e != e));
  }
  CHECK(wrong == 0);
}

template <class Own, class Flat>
void check_flatten(int tensors) {
  Device device;
  auto stream = device.stream();
  std::vector<GuardedMemory<Own>> own;
  std::vector<GuardedMemory<Own>> back;
  std::vector<zero::FlatPiece> pieces;
  std::vector<zero::FlatPiece> back_pieces;
  std::vector<std::vector<Own>> values;
  Index end = 0;
  for (int t = 0; t < tensors; ++t) {
    Index const n = sizes[t % std::size(sizes)] % 20011;
    values.push_back(as<Own>(spread_values(n, static_cast<std::uint64_t>(t) + 10)));
    own.emplace_back(device, stream, values.back(), t % 7 == 6 ? 1 : 0);
    back.emplace_back(device, stream, n);
    pieces.push_back({own.back().view().address(), end, n});
    back_pieces.push_back({back.back().view().address(), end, n});
    end = zero::round_up(end + n, 64);
  }
  std::vector<Flat> const old = as<Flat>(spread_values(end, 5));
  GuardedMemory<Flat> flat(device, stream, old);
  flatten(stream, flat.view(), zero::OwnBuffers<Own const, Device>{pieces}, true);
  std::vector<Flat> const added = flat.values();
  flatten(stream, flat.view(), zero::OwnBuffers<Own const, Device>{pieces}, false);
  std::vector<Flat> const assigned = flat.values();
  unflatten(stream, zero::OwnBuffers<Own, Device>{back_pieces}, flat.read());
  CHECK(flat.intact());
  Index wrong = 0;
  std::vector<char> covered(zero::at(end), 0);
  for (std::size_t t = 0; t < values.size(); ++t) {
    std::vector<Own> const returned = back[t].values();
    CHECK(back[t].intact());
    for (std::size_t i = 0; i < values[t].size(); ++i) {
      std::size_t const place = zero::at(pieces[t].begin) + i;
      float const x = static_cast<float>(values[t][i]);
      float const flattened = stored<Flat>(x);
      covered[place] = 1;
      wrong += static_cast<float>(added[place]) != stored<Flat>(static_cast<float>(old[place]) + x);
      wrong += static_cast<float>(assigned[place]) != flattened;
      wrong += static_cast<float>(returned[i]) != stored<Own>(flattened);
    }
  }
  for (std::size_t i = 0; i < covered.size(); ++i) {
    if (covered[i] == 0) wrong += std::memcmp(&assigned[i], &old[i], sizeof(Flat)) != 0;
  }
  CHECK_MESSAGE(wrong == 0, tensors << " tensors");
}

TEST_CASE("flatten and unflatten: no tensor, one, more than a table of either size holds") {
  for (int tensors : {0, 1, 10, 24, 25, 1003}) {
    check_flatten<float, bf16>(tensors);
    check_flatten<bf16, bf16>(tensors);
  }
  check_flatten<fp16, float>(13);
  check_flatten<float, float>(13);
}

TEST_CASE(
    "initial values are those of the host, a unit in the last place off where they are normal") {
  Device device;
  auto stream = device.stream();
  auto const ordered = [](float x) {
    auto const bits = std::bit_cast<std::int32_t>(x);
    return bits < 0 ? std::int64_t{INT32_MIN} - bits : std::int64_t{bits};
  };
  for (auto const& [initial, apart] :
       {std::pair{zero::Initial::constant(0.3), 0}, std::pair{zero::Initial::uniform(-2, 3), 0},
        std::pair{zero::Initial::normal(0.02, 0.5), 1},
        std::pair{zero::Initial::function([](Index i) { return static_cast<float>(i) / 3; }), 0}}) {
    for (Index first : {Index{0}, Index{77}, Index{1} << 40}) {
      GuardedMemory<float> x(device, stream, 10007, 1);
      initialise(stream, x.view(), initial, 9, 4, first);
      std::vector<float> const got = x.values();
      std::int64_t most = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        float const expected = initial.value(9, 4, first + static_cast<Index>(i));
        most = std::max<std::int64_t>(most, std::abs(ordered(got[i]) - ordered(expected)));
      }
      CHECK(most <= apart);
      CHECK(x.intact());
    }
  }
}

TEST_CASE("more than 2^31 elements") {
  Device device;
  auto stream = device.stream();
  Index const n = (Index{1} << 31) + 4096 + 64;
  auto wide = device.allocate(n * 4, "test");
  auto narrow = device.allocate(n * 2, "test");
  zero::View<float, Device> const x{reinterpret_cast<float*>(wide.address()), n};
  zero::View<bf16, Device> const y{reinterpret_cast<bf16*>(narrow.address()), n};
  zero::Initial const initial = zero::Initial::uniform(-1, 1);
  initialise(stream, x, initial, 3, 2, Index{5});
  assign(stream, y, zero::View<float const, Device>(x));
  add(stream, x, zero::View<bf16 const, Device>(y));
  for (Index begin : {Index{0}, (Index{1} << 31) - 500, n - 1000}) {
    std::vector<float> wides(1000);
    std::vector<bf16> narrows(1000);
    copy_out(stream, wides.data(), zero::View<float const, Device>(x.sub(begin, 1000)));
    copy_out(stream, narrows.data(), zero::View<bf16 const, Device>(y.sub(begin, 1000)));
    stream.synchronize();
    Index wrong = 0;
    for (Index i = 0; i < 1000; ++i) {
      float const value = initial.value(3, 2, 5 + begin + i);
      float const rounded = stored<bf16>(value);
      wrong += static_cast<float>(narrows[zero::at(i)]) != rounded;
      wrong += wides[zero::at(i)] != value + rounded;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("flatten and unflatten more than 2^31 elements") {
  Device device;
  auto stream = device.stream();
  // A small tensor before the large one and behind it, so that each begins somewhere.
  Index const n = (Index{1} << 31) + 4096 + 64;
  Index const all = n + 2 * 64;
  auto own_bytes = device.allocate(all * 2, "test");
  auto back_bytes = device.allocate(all * 2, "test");
  auto flat_bytes = device.allocate(all * 4, "test");
  zero::View<bf16, Device> const own{reinterpret_cast<bf16*>(own_bytes.address()), all};
  zero::View<bf16, Device> const back{reinterpret_cast<bf16*>(back_bytes.address()), all};
  zero::View<float, Device> const flat{reinterpret_cast<float*>(flat_bytes.address()), all};
  zero::Initial const initial = zero::Initial::uniform(-1, 1);
  initialise(stream, own, initial, 3, 2, Index{0});
  initialise(stream, flat, initial, 3, 4, Index{0});
  fill_zero(stream, back);
  auto const pieces_of = [&](zero::View<bf16, Device> of) {
    return std::vector<zero::FlatPiece>{{of.sub(0, 64).address(), 0, 64},
                                        {of.sub(64, n).address(), 64, n},
                                        {of.sub(64 + n, 64).address(), 64 + n, 64}};
  };
  auto const from = pieces_of(own);
  auto const to = pieces_of(back);
  flatten(stream, flat, zero::OwnBuffers<bf16 const, Device>{from}, true);
  unflatten(stream, zero::OwnBuffers<bf16, Device>{to}, zero::View<float const, Device>(flat));
  for (Index begin : {Index{0}, (Index{1} << 31) - 500, all - 1000}) {
    std::vector<float> wides(1000);
    std::vector<bf16> narrows(1000);
    copy_out(stream, wides.data(), zero::View<float const, Device>(flat.sub(begin, 1000)));
    copy_out(stream, narrows.data(), zero::View<bf16 const, Device>(back.sub(begin, 1000)));
    stream.synchronize();
    Index wrong = 0;
    for (Index i = 0; i < 1000; ++i) {
      float const sum =
          initial.value(3, 4, begin + i) + stored<bf16>(initial.value(3, 2, begin + i));
      wrong += wides[zero::at(i)] != sum;
      wrong += static_cast<float>(narrows[zero::at(i)]) != stored<bf16>(sum);
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace zero_test
