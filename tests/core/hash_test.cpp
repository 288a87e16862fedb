// SPDX-License-Identifier: Apache-2.0
#include <zero/core/hash.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace {

using zero::Hash;
using zero::Index;

TEST_CASE("a hash is fixed for all time and platforms") {
  // Computed apart, in exact integers.
  static_assert(Hash().add(Index{1}).add(Index{2}).add(Index{3}).value() == 0x59fcbeded9ac6ba8u);
  static_assert(Hash().add(Index{-1}).value() == 0x22f0ba033641bf9u);
  static_assert(Hash().add(std::string_view("h.0")).value() == 0xecb542a462152efbu);
}

TEST_CASE("order, count and borders of words and texts matter") {
  auto const texts = [](auto... text) {
    Hash hash;
    (hash.add(std::string_view(text)), ...);
    return hash.value();
  };
  std::set<std::uint64_t> seen{Hash().value(),
                               Hash().add(Index{0}).value(),
                               Hash().add(Index{0}).add(Index{0}).value(),
                               Hash().add(Index{1}).add(Index{2}).value(),
                               Hash().add(Index{2}).add(Index{1}).value(),
                               texts("ab", "c"),
                               texts("a", "bc"),
                               texts("abc"),
                               texts("abc", ""),
                               texts("", "abc"),
                               texts("ab", "c", "")};
  CHECK(seen.size() == 11);
}

TEST_CASE("texts with bytes above 127 and zeros hash by their bytes") {
  CHECK(Hash().add(std::string_view("\xff")).value() ==
        Hash().add(Index{1}).add(Index{255}).value());
  CHECK(Hash().add(std::string_view("a\0b", 3)).value() !=
        Hash().add(std::string_view("a")).value());
}

TEST_CASE("ten thousand small sequences have ten thousand hashes") {
  std::set<std::uint64_t> seen;
  for (Index a = 0; a < 100; ++a) {
    for (Index b = 0; b < 100; ++b) seen.insert(Hash().add(a).add(b).value());
  }
  CHECK(seen.size() == 10'000);
}

}  // namespace
