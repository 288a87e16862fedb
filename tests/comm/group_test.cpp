// SPDX-License-Identifier: Apache-2.0
// Groups of collectives, on communicators that can group and on those that cannot.

#include <zero/comm/communicator.hpp>
#include <zero/comm/single_rank.hpp>

#include <doctest/doctest.h>
#include <support/death.hpp>

#include <memory>
#include <stdexcept>
#include <string>

namespace {

/// A communicator that writes down its groups, and may fail to launch one.
struct Grouping : zero::SingleRank<> {
  Grouping channel(int) const { return *this; }
  void group_start() { *log += '('; }
  void group_end() {
    *log += ')';
    if (fails) throw zero::Error("the group was not launched");
  }
  std::shared_ptr<std::string> log = std::make_shared<std::string>();
  bool fails = false;
};

static_assert(zero::CanGroup<Grouping>);
static_assert(!zero::CanGroup<zero::SingleRank<>>);

TEST_CASE("a group is started once and ended once") {
  Grouping communicator;
  {
    zero::Group group(communicator);
    CHECK(*communicator.log == "(");
    group.end();
    CHECK(*communicator.log == "()");
  }
  { zero::Group group(communicator); }
  CHECK(*communicator.log == "()()");
}

TEST_CASE("where nothing can be grouped, a group is nothing") {
  zero::SingleRank<> communicator;
  zero::Group group(communicator);
  CHECK_NOTHROW(group.end());
}

TEST_CASE("a group that cannot be launched throws from end, and is ended once") {
  Grouping communicator;
  communicator.fails = true;
  {
    zero::Group group(communicator);
    CHECK_THROWS_WITH_AS(group.end(), "the group was not launched", zero::Error);
  }
  CHECK(*communicator.log == "()");
}

TEST_CASE("a group that fails to close while something else unwinds leaves that to be thrown") {
  int const signal = zero_test::signal_of([] {
    Grouping communicator;
    communicator.fails = true;
    try {
      zero::Group group(communicator);
      throw std::runtime_error("planted");
    } catch (std::runtime_error const&) {
    }
  });
  CHECK(signal == 0);
}

}  // namespace
