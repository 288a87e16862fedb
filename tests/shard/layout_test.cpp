// SPDX-License-Identifier: Apache-2.0
#include <zero/shard/layout.hpp>

#include <doctest/doctest.h>
#include <shard/random_units.hpp>

#include <limits>
#include <vector>

namespace {

using namespace shard_tests;
using zero::Layout;
using zero::Piece;
using zero::PlacedTensor;
using zero::PlacedUnit;
using zero::Segment;

constexpr std::array<Index, 13> worlds{1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 100, 1000, 4096};
constexpr std::uint64_t num_models = ZERO_TESTS_SANITIZED ? 4 : 25;

/// Calls f(units, layout) for many models and worlds.
template <class F>
void for_each_layout(F f) {
  for (std::uint64_t seed = 0; seed < num_models; ++seed) {
    zero::Units const units = random_units(seed);
    for (Index world : worlds) {
      CAPTURE(seed);
      CAPTURE(world);
      f(units, Layout(units, world));
    }
  }
}

TEST_CASE("a unit is its trainable tensors, then its frozen ones, each at a multiple of 64") {
  zero::Units const units{{"u",
                           {{.name = "a", .shape = {100}},
                            {.name = "b", .shape = {30}, .trainable = false},
                            {.name = "c", .shape = {5}},
                            {.name = "d", .shape = {64}}}},
                          {"v", {{.name = "e", .shape = {1}}}}};
  Layout const layout(units, 2);
  CHECK(layout.size() == 2);
  CHECK(layout.tensors() == 5);
  CHECK(layout[0].trainable == 256);  // 128 + 64 + 64
  CHECK(layout[0].frozen == 128);     // 64, padded to two slices
  CHECK(layout.elements(0) == 384);
  CHECK(layout.offset(0, 0) == 0);
  CHECK(layout.offset(0, 1) == 256);
  CHECK(layout.offset(0, 2) == 128);
  CHECK(layout.offset(0, 3) == 192);
  CHECK(layout.slice(0) == 128);
  CHECK(layout.slice_begin(0, 1) == 128);
  CHECK(layout.frozen_slice(0) == 64);
  CHECK(layout.frozen_slice_begin(0, 1) == 64);
  CHECK(layout[1].trainable == 128);
  CHECK(layout.slice(1) == 64);
  CHECK(layout.trainable() == 384);
  CHECK(layout.frozen() == 128);
  CHECK(layout[1].tensors[0].number == 4);
}

TEST_CASE("parts are the smallest multiples of world x 64 that hold their tensors in order") {
  for_each_layout([](zero::Units const& units, Layout const& layout) {
    REQUIRE(layout.size() == std::ssize(units));
    Index number = 0;
    Index trainable = 0;
    Index frozen = 0;
    bool right = true;
    for (int u = 0; u < layout.size(); ++u) {
      PlacedUnit const& unit = layout[u];
      REQUIRE(unit.tensors.size() == units[at(u)].tensors.size());
      Index end[2] = {0, 0};
      for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
        PlacedTensor const& placed = unit.tensors[i];
        zero::Tensor const& tensor = units[at(u)].tensors[i];
        Index& part_end = end[tensor.trainable ? 0 : 1];
        right = right && placed.begin == part_end && placed.elements == tensor.elements() &&
                placed.number == number++ && placed.trainable == tensor.trainable &&
                placed.decay == tensor.decay && placed.lr_scale == tensor.lr_scale &&
                layout.offset(u, static_cast<Index>(i)) ==
                    placed.begin + (tensor.trainable ? 0 : unit.trainable);
        part_end += (tensor.elements() + 63) / 64 * 64;
      }
      Index const multiple = 64 * layout.world();
      for (auto [part, needed] :
           {std::pair{unit.trainable, end[0]}, std::pair{unit.frozen, end[1]}})
        right = right && part % multiple == 0 && part >= needed && part < needed + multiple;
      right = right && layout.slice(u) * layout.world() == unit.trainable &&
              layout.frozen_slice(u) * layout.world() == unit.frozen &&
              layout.elements(u) == unit.trainable + unit.frozen && unit.name == units[at(u)].name;
      trainable += unit.trainable;
      frozen += unit.frozen;
    }
    CHECK(right);
    CHECK(layout.trainable() == trainable);
    CHECK(layout.frozen() == frozen);
    CHECK(layout.tensors() == number);
  });
}

TEST_CASE("every element of every tensor is in the slice of exactly one rank") {
  for_each_layout([](zero::Units const& units, Layout const& layout) {
    bool right = true;
    for (int u = 0; u < layout.size(); ++u) {
      std::vector<Index> next(units[at(u)].tensors.size(), 0);
      for (bool trainable : {true, false}) {
        Index const count = trainable ? layout.slice(u) : layout.frozen_slice(u);
        for (Index rank = 0; rank < layout.world(); ++rank) {
          Index const begin =
              trainable ? layout.slice_begin(u, rank) : layout.frozen_slice_begin(u, rank);
          layout.pieces(u, trainable, begin, count, [&](PlacedTensor const& t, Piece const& p) {
            // Slices come in order, so a tensor's pieces do, and each begins where one ended.
            right = right && p.elements > 0 && p.begin >= 0 && p.begin + p.elements <= count &&
                    begin + p.begin == t.begin + p.first && p.first == next[at(p.tensor_index)] &&
                    t.trainable == trainable && &t == &layout[u].tensors[at(p.tensor_index)];
            next[at(p.tensor_index)] += p.elements;
          });
        }
      }
      for (std::size_t i = 0; i < next.size(); ++i)
        right = right && next[i] == units[at(u)].tensors[i].elements();
    }
    CHECK(right);
  });
}

TEST_CASE("pieces of any range are what an element-wise map of the part says") {
  for (std::uint64_t seed = 0; seed < num_models; ++seed) {
    Layout const layout(random_units(seed), 3);
    Random random(seed + 1000);
    for (int u = 0; u < layout.size(); ++u) {
      for (bool trainable : {true, false}) {
        Index const part = trainable ? layout[u].trainable : layout[u].frozen;
        std::vector<Index> owner(at(part), -1);  // tensor in the unit, -1: padding
        bool overlap = false;
        for (std::size_t i = 0; i < layout[u].tensors.size(); ++i) {
          PlacedTensor const& t = layout[u].tensors[i];
          if (t.trainable != trainable) continue;
          for (Index k = 0; k < t.elements; ++k) {
            overlap = overlap || owner[at(t.begin + k)] != -1;
            owner[at(t.begin + k)] = static_cast<Index>(i);
          }
        }
        REQUIRE(!overlap);
        for (int trial = 0; trial < 20; ++trial) {
          Index const begin = random.below(part + 1);
          Index const count = random.below(part - begin + 1);
          std::vector<Index> seen(at(count), -1);
          layout.pieces(u, trainable, begin, count, [&](PlacedTensor const&, Piece const& p) {
            for (Index k = 0; k < p.elements; ++k) seen[at(p.begin + k)] = p.tensor_index;
          });
          CHECK(std::equal(seen.begin(), seen.end(), owner.begin() + begin));
        }
      }
    }
  }
}

TEST_CASE(
    "segments cover a slice's elements in multiples of 64, with what the optimizer must know") {
  for_each_layout([](zero::Units const&, Layout const& layout) {
    bool right = true;
    for (int u = 0; u < layout.size(); ++u) {
      Index const count = layout.slice(u);
      for (Index rank = 0; rank < layout.world(); ++rank) {
        Index const begin = layout.slice_begin(u, rank);
        std::vector<Segment> const segments = layout.segments(u, begin, count);
        right = right && std::ssize(segments) <= layout.max_segments(u);
        std::size_t i = 0;
        Index end = 0;
        layout.pieces(u, true, begin, count, [&](PlacedTensor const& t, Piece const& p) {
          right = right && i < segments.size();
          if (!right) return;
          Segment const& s = segments[i++];
          right = s.begin == p.begin && s.begin >= end && s.begin % 64 == 0 && s.end % 64 == 0 &&
                  s.end >= p.begin + p.elements && s.end < p.begin + p.elements + 64 &&
                  s.end <= count && s.tensor == t.number && s.first == p.first &&
                  s.decay == t.decay && s.lr_scale == t.lr_scale;
          end = s.end;
        });
        right = right && i == segments.size();
      }
      // At stage 0 one range is the whole part.
      right =
          right && std::ssize(layout.segments(u, 0, layout[u].trainable)) == layout.max_segments(u);
    }
    CHECK(right);
  });
}

TEST_CASE("equal models have equal hashes, and any change of what is owned another") {
  zero::Units const base{{"u", {{.name = "a", .shape = {70}}, {.name = "b", .shape = {6}}}},
                         {"v", {{.name = "c", .shape = {70}, .trainable = false}}},
                         {"w", {}}};
  CHECK(Layout(base, 4).hash() == Layout(zero::Units(base), 4).hash());

  std::vector<std::uint64_t> seen{Layout(base, 4).hash(), Layout(base, 2).hash()};
  auto const changed = [&](auto change) {
    zero::Units other = base;
    change(other);
    seen.push_back(Layout(other, 4).hash());
  };
  changed([](zero::Units& u) { u[0].name = "x"; });
  changed([](zero::Units& u) { u[2].name = "x"; });
  changed([](zero::Units& u) { u[0].tensors[0].shape = {71}; });
  changed([](zero::Units& u) { u[0].tensors[0].shape = {69}; });
  changed([](zero::Units& u) { u[0].tensors[0].decay = 0; });
  changed([](zero::Units& u) { u[0].tensors[0].lr_scale = 0.5f; });
  changed([](zero::Units& u) { u[0].tensors[1].trainable = false; });
  changed([](zero::Units& u) { u[1].tensors[0].trainable = true; });
  changed([](zero::Units& u) { std::swap(u[0], u[1]); });
  changed([](zero::Units& u) { std::swap(u[1], u[2]); });
  changed([](zero::Units& u) { std::swap(u[0].tensors[0], u[0].tensors[1]); });
  changed([](zero::Units& u) { u[2].tensors.push_back(u[0].tensors[1]), u[0].tensors.pop_back(); });
  changed([](zero::Units& u) { u[2].tensors.push_back({.name = "d", .shape = {0}}); });
  changed([](zero::Units& u) { u[2].tensors.push_back({.name = "d", .shape = {1}}); });
  changed([](zero::Units& u) { u.push_back({"x", {}}); });
  changed([](zero::Units& u) { u.pop_back(); });
  std::size_t const count = seen.size();
  std::sort(seen.begin(), seen.end());
  CHECK(std::unique(seen.begin(), seen.end()) - seen.begin() == static_cast<std::ptrdiff_t>(count));
}

TEST_CASE("a renamed tensor has another hash") {
  zero::Units units{{"u", {{.name = "a", .shape = {70}}, {.name = "b", .shape = {70}}}}};
  std::uint64_t const before = Layout(units, 4).hash();
  std::swap(units[0].tensors[0].name, units[0].tensors[1].name);
  CHECK(Layout(units, 4).hash() != before);
}

TEST_CASE("the largest model can be laid out, and a larger one is refused") {
  Index const largest = Index{1} << 60;
  for (Index world : {1, 3, 4096}) {
    CAPTURE(world);
    Layout const layout({{"u", {{.name = "t", .shape = {largest}}}}}, world);
    CHECK(layout.trainable() >= largest);
    CHECK(layout.trainable() < largest + 64 * world);
    Index owned = 0;
    for (Index rank : {Index{0}, world - 1}) {
      layout.pieces(0, true, layout.slice_begin(0, rank), layout.slice(0),
                    [&](PlacedTensor const&, Piece const& p) { owned = p.first + p.elements; });
    }
    CHECK(owned == largest);
    CHECK_THROWS_AS(Layout({{"u", {{.name = "t", .shape = {largest + 1}}}}}, world),
                    zero::InvalidArgument);
    CHECK_THROWS_AS(Layout({{"u", {{.name = "t", .shape = {largest}}}},
                            {"v", {{.name = "s", .shape = {largest}}}}},
                           world),
                    zero::InvalidArgument);
  }
}

TEST_CASE("a world without ranks, or one whose padding cannot be counted, is refused") {
  zero::Units const units{{"u", {{.name = "t", .shape = {1}}}}};
  CHECK_THROWS_WITH_AS(Layout(units, 0), "Layout: a world has 1 to 2^31 - 1 ranks, not 0",
                       zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(Layout(units, -3), "Layout: a world has 1 to 2^31 - 1 ranks, not -3",
                       zero::InvalidArgument);
  CHECK_THROWS_AS(Layout(units, std::numeric_limits<Index>::max()), zero::Error);
  CHECK_THROWS_AS(Layout({}, 4), zero::InvalidArgument);
}

}  // namespace
