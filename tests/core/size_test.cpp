// SPDX-License-Identifier: Apache-2.0
#include <zero/core/size.hpp>

#include <doctest/doctest.h>

#include <limits>

namespace {

using zero::Index;

constexpr Index largest = std::numeric_limits<Index>::max();

TEST_CASE("round_up gives the smallest multiple that is not below") {
  static_assert(zero::round_up(0, 64) == 0);
  static_assert(zero::round_up(1, 64) == 64);
  static_assert(zero::round_up(64, 64) == 64);
  static_assert(zero::round_up(65, 64) == 128);
  for (Index multiple : {1, 2, 3, 7, 64, 192, 1000}) {
    for (Index n = 0; n < 500; ++n) {
      Index const up = zero::round_up(n, multiple);
      CHECK((up % multiple == 0 && up >= n && up - n < multiple));
    }
  }
  Index const huge = Index{1} << 60;
  CHECK(zero::round_up(huge - 1, 64) == huge);
  CHECK(zero::round_up(huge + 1, 64) == huge + 64);
}

TEST_CASE("checked_product gives products that fit") {
  CHECK(zero::checked_product(0, 0, "x") == 0);
  CHECK(zero::checked_product(0, largest, "x") == 0);
  CHECK(zero::checked_product(largest, 0, "x") == 0);
  CHECK(zero::checked_product(1, largest, "x") == largest);
  CHECK(zero::checked_product(largest, 1, "x") == largest);
  CHECK(zero::checked_product(Index{1} << 31, Index{1} << 31, "x") == Index{1} << 62);
  CHECK(zero::checked_product(3037000499, 3037000499, "x") == Index{9223372030926249001});
}

TEST_CASE("checked_product refuses what does not fit, and negative factors, naming what and both") {
  CHECK_THROWS_WITH_AS(zero::checked_product(Index{1} << 32, Index{1} << 31, "a shape"),
                       "a shape does not fit 64 bits: 4294967296 x 2147483648", zero::Error);
  CHECK_THROWS_AS(zero::checked_product(3037000500, 3037000500, "x"), zero::Error);
  CHECK_THROWS_AS(zero::checked_product(largest, 2, "x"), zero::Error);
  CHECK_THROWS_AS(zero::checked_product(2, largest, "x"), zero::Error);
  CHECK_THROWS_AS(zero::checked_product(largest, largest, "x"), zero::Error);
  CHECK_THROWS_WITH_AS(zero::checked_product(-1, 5, "a shape"),
                       "a shape has a negative factor: -1 x 5", zero::Error);
  CHECK_THROWS_WITH_AS(zero::checked_product(0, -5, "a shape"),
                       "a shape has a negative factor: 0 x -5", zero::Error);
}

TEST_CASE("what is refused before anything changed is told apart from what failed") {
  auto const is_an_error = [](auto error) {
    try {
      throw error;
    } catch (zero::Error const& e) {
      return std::string(e.what()) == "text";
    }
  };
  CHECK(is_an_error(zero::InvalidArgument("text")));
  CHECK(is_an_error(zero::OutOfMemory("text")));
  CHECK(is_an_error(zero::CommunicationError("text")));
  static_assert(!std::is_base_of_v<zero::InvalidArgument, zero::CommunicationError>);
  static_assert(std::is_base_of_v<std::runtime_error, zero::Error>);
}

}  // namespace
