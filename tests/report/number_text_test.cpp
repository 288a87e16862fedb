// SPDX-License-Identifier: Apache-2.0
#include <zero/report/number_text.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <locale>
#include <sstream>

using zero::Index;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("the shortest text reads back as the same bits") {
  std::uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    auto const value = std::bit_cast<double>(state);
    if (!std::isfinite(value)) continue;
    double const back = std::strtod(zero::shortest_text(value).c_str(), nullptr);
    REQUIRE(std::bit_cast<std::uint64_t>(back) == state);
    auto const small = std::bit_cast<float>(static_cast<std::uint32_t>(state >> 32));
    if (!std::isfinite(small)) continue;
    float const small_back = std::strtof(zero::shortest_text(small).c_str(), nullptr);
    REQUIRE(std::bit_cast<std::uint32_t>(small_back) == std::bit_cast<std::uint32_t>(small));
  }
}

TEST_CASE("the shortest text is a floating-point number even when it is whole") {
  CHECK(zero::shortest_text(3.0) == "3.0");
  CHECK(zero::shortest_text(-0.0) == "-0.0");
  CHECK(zero::shortest_text(0.1) == "0.1");
  CHECK(zero::shortest_text(0.1f) == "0.1");
  CHECK(zero::shortest_text(1e22) == "1e+22");
  CHECK(zero::shortest_text(std::numeric_limits<double>::denorm_min()) == "5e-324");
  CHECK(zero::shortest_text(infinity) == "inf");
  CHECK(zero::shortest_text(-infinity) == "-inf");
  CHECK(zero::shortest_text(nan_value) == "nan");
}

TEST_CASE("digits are as many as asked for") {
  CHECK(zero::fixed_text(2.5, 3) == "2.500");
  CHECK(zero::fixed_text(-0.00004, 4) == "-0.0000");
  CHECK(zero::fixed_text(std::numeric_limits<double>::max(), 2).size() == 312);
  CHECK(zero::fixed_text(nan_value, 2) == "nan");
  CHECK(zero::scientific_text(0.00125, 3) == "1.25e-03");
  CHECK(zero::scientific_text(0, 3) == "0.00e+00");
  CHECK(zero::scientific_text(-infinity, 3) == "-inf");
}

TEST_CASE("hashes keep all 64 bits and counts all digits") {
  CHECK(zero::hexadecimal_text(0x0123456789abcdefu) == "0x0123456789abcdef");
  CHECK(zero::hexadecimal_text(0) == "0x0000000000000000");
  CHECK(zero::grouped_text(0) == "0");
  CHECK(zero::grouped_text(999) == "999");
  CHECK(zero::grouped_text(1234567) == "1,234,567");
  CHECK(zero::grouped_text(-123456) == "-123,456");
  CHECK(zero::grouped_text(std::numeric_limits<Index>::min()) == "-9,223,372,036,854,775,808");
}

TEST_CASE("counts have three significant digits and change their unit after rounding") {
  CHECK(zero::human_count(0) == "0");
  CHECK(zero::human_count(345) == "345");
  CHECK(zero::human_count(3.456) == "3.46");
  CHECK(zero::human_count(999.4) == "999");
  CHECK(zero::human_count(999.7) == "1.00k");
  CHECK(zero::human_count(1000) == "1.00k");
  CHECK(zero::human_count(12345) == "12.3k");
  CHECK(zero::human_count(999600) == "1.00M");
  CHECK(zero::human_count(9996) == "10.0k");
  CHECK(zero::human_count(1.5e9) == "1.50G");
  CHECK(zero::human_count(-12345) == "-12.3k");
  CHECK(zero::human_count(infinity) == "inf");
}

TEST_CASE("bytes are in powers of 1024") {
  CHECK(zero::human_bytes(0) == "0 B");
  CHECK(zero::human_bytes(1023) == "1023 B");
  CHECK(zero::human_bytes(1024) == "1.00 KiB");
  CHECK(zero::human_bytes(43306189) == "41.3 MiB");
  CHECK(zero::human_bytes(1048575) == "1.00 MiB");
  CHECK(zero::human_bytes(Index{80} << 30) == "80.0 GiB");
  CHECK(zero::human_bytes(std::numeric_limits<Index>::max()) == "8.00 EiB");
  CHECK(zero::human_bytes(-2048) == "-2.00 KiB");
}

TEST_CASE("times read as people say them") {
  CHECK(zero::human_seconds(0) == "0.0 s");
  CHECK(zero::human_seconds(-3) == "0.0 s");
  CHECK(zero::human_seconds(0.42) == "0.4 s");
  CHECK(zero::human_seconds(9.96) == "10 s");
  CHECK(zero::human_seconds(59.4) == "59 s");
  CHECK(zero::human_seconds(59.6) == "1 min 00 s");
  CHECK(zero::human_seconds(80) == "1 min 20 s");
  CHECK(zero::human_seconds(3599.7) == "1 h 00 min");
  CHECK(zero::human_seconds(7500) == "2 h 05 min");
  CHECK(zero::human_seconds(86400 - 20) == "1 d 00 h");
  CHECK(zero::human_seconds(100.0 * 3600) == "4 d 04 h");
  CHECK(zero::human_seconds(nan_value) == "?");
  CHECK(zero::human_seconds(infinity) == "?");
}

TEST_CASE("a decimal comma and digit groups of the program's locale do not reach the text") {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  auto const before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  std::ostringstream check;
  check << 1234.5;  // the planted locale does what it should
  CHECK(check.str() == "1.234,5");
  CHECK(zero::shortest_text(1234.5) == "1234.5");
  CHECK(zero::fixed_text(1234.5, 1) == "1234.5");
  CHECK(zero::human_count(1234.5) == "1.23k");
  std::locale::global(before);
}
