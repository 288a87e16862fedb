// SPDX-License-Identifier: Apache-2.0
// What a profiler is told of real steps on a GPU, by two ranks that share it. This program is its
// own profiler (nvtx_listener.cpp): NVTX looks for one when the first range is opened, and never
// again.

#include <cuda/training.hpp>

#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>

extern "C" char const* zero_test_nvtx_text();

namespace zero_test {
namespace {

/// "+name" and "-name" of the domain zero, and how often each was said.
std::map<std::string, int> said() {
  std::map<std::string, int> counts;
  std::istringstream lines(zero_test_nvtx_text());
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("zero: ", 0) == 0) ++counts[line.substr(6)];
  }
  return counts;
}

std::map<std::string, int> said_in(int stage, Training t, int steps) {
  std::map<std::string, int> const before = said();
  t.steps = steps;
  train_stage(stage, t);
  std::map<std::string, int> during = said();
  for (auto const& [name, count] : before) during[name] -= count;
  return during;
}

/// How often both ranks together open each range in a step: what five steps say beyond two, over
/// three, so that the making of a trainer and its reading fall out. Each range that was opened has
/// ended.
std::map<std::string, int> opened_a_step(int stage, Training const& t) {
  std::map<std::string, int> two = said_in(stage, t, 2);
  std::map<std::string, int> five = said_in(stage, t, 5);
  std::map<std::string, int> opened;
  for (auto const& [name, count] : five) {
    int const more = count - two[name];
    CAPTURE(name);
    CHECK(more % 3 == 0);
    if (name[0] == '+') {
      std::string ended = name;
      ended[0] = '-';
      CHECK(five[ended] == count);
      if (more != 0) opened[name.substr(1)] = more / 3;
    }
  }
  return opened;
}

/// Units a, b and c, which a step visits there and back.
Training two_ranks() {
  Training t;
  t.model = rates();
  t.world = 2;
  t.precision = Precision::bf16;
  t.own_gradients = true;
  t.options.prefetch = 0;
  return t;
}

/// Of each unit and rank once.
std::map<std::string, int> each(std::initializer_list<char const*> phases) {
  std::map<std::string, int> all{{"clip", 2}};
  for (std::string phase : phases) {
    for (char const* unit : {" a", " b", " c"}) all[phase + unit] = 2;
  }
  return all;
}

}  // namespace

TEST_CASE("a profiler is told of each unit and phase of a step at stage 3") {
  std::map<std::string, int> expected =
      each({"gather", "forward", "backward", "flatten", "reduce", "update"});
  expected["gather a"] = 4;  // again for its backward visit; c is still there
  expected["gather b"] = 4;
  CHECK(opened_a_step(3, two_ranks()) == expected);
}

TEST_CASE("at stage 1 it is told of publications, and of no gather") {
  CHECK(opened_a_step(1, two_ranks()) ==
        each({"forward", "backward", "flatten", "reduce", "update", "publish"}));
}

TEST_CASE("updates that have become a graph are no longer told") {
  Training t = two_ranks();
  t.options.replay = true;
  CHECK(opened_a_step(1, t) == each({"forward", "backward", "flatten", "reduce", "publish"}));
}

}  // namespace zero_test
