// SPDX-License-Identifier: Apache-2.0
#include <zero/report/memory_table.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>

using zero::Index;
using zero::MemoryTable;

TEST_CASE("numbers stand under the heads of their columns, totals to the byte below") {
  MemoryTable const table{"memory a rank",
                          {"stage 0", "stage 3"},
                          {{"parameters", {4194304, 1048576}},
                           {"optimizer state", {25165824, 6291456}},
                           {"gather slots", {0, 3145729}}}};
  std::ostringstream os;
  os << table;
  CHECK(os.str() ==
        "memory a rank       stage 0     stage 3\n"
        "---------------------------------------\n"
        "parameters         4.00 MiB    1.00 MiB\n"
        "optimizer state    24.0 MiB    6.00 MiB\n"
        "gather slots              -    3.00 MiB\n"
        "---------------------------------------\n"
        "total              28.0 MiB    10.0 MiB\n"
        "total bytes      29,360,128  10,485,761\n");
}

TEST_CASE("the longest of head and numbers decides a column's width") {
  MemoryTable const table{"", {"a very long head", "b"}, {{"x", {1, 2}}}};
  CHECK(table.text() ==
        "             a very long head    b\n"
        "----------------------------------\n"
        "x                         1 B  2 B\n"
        "----------------------------------\n"
        "total                     1 B  2 B\n"
        "total bytes                 1    2\n");
}

TEST_CASE("totals are sums by column") {
  Index const large = Index{1} << 40;
  MemoryTable const table{"", {"a", "b"}, {{"x", {large, 1}}, {"y", {large, 2}}}};
  CHECK(table.totals() == std::vector<Index>{2 * large, 3});
  CHECK(MemoryTable{"", {"a", "b"}, {}}.totals() == std::vector<Index>{0, 0});
}

TEST_CASE("a table without rows or without columns is still a table") {
  CHECK(MemoryTable{"m", {"a"}, {}}.text() ==
        "m            a\n"
        "--------------\n"
        "total        -\n"
        "total bytes  0\n");
  CHECK(MemoryTable{"m", {}, {{"x", {}}}}.text() ==
        "m\n-----------\nx\n-----------\ntotal\ntotal bytes\n");
}

TEST_CASE("a row with too few or too many numbers is refused by name") {
  MemoryTable const table{"", {"a", "b"}, {{"parameters", {1}}}};
  CHECK_THROWS_WITH_AS(table.text(),
                       "memory table: the row 'parameters' has 1 numbers for 2 columns",
                       zero::InvalidArgument);
}
