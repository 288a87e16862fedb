// SPDX-License-Identifier: Apache-2.0
// What bench/harness.hpp makes of its rounds. Times are sleeps a hundred times apart, so that no
// load of the machine turns one into the other.
#include <bench/harness.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace {

/// The exit code of a bench of a short and a long sleep, the long one against the short one.
int run(std::vector<std::string> arguments, bench::Variant slow) {
  arguments.insert(arguments.begin(), {"bench_sleeps", "--rounds", "9", "--milliseconds", "1"});
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  bench::Harness harness(static_cast<int>(argv.size()), argv.data(), "sleeps", "Two sleeps");
  auto const sleep = [](std::chrono::microseconds time) {
    return [time](auto measure) { measure([time] { std::this_thread::sleep_for(time); }); };
  };
  harness.add({.name = "short"}, sleep(std::chrono::microseconds(20)));
  slow.against = "short";
  harness.add(std::move(slow), sleep(std::chrono::milliseconds(8)));
  return harness.run();
}

TEST_CASE("quantiles of rounds: the middle one, or between the two in the middle") {
  CHECK(bench::quantile({3, 1, 2}) == 2.0);
  CHECK(bench::quantile({4, 1, 3, 2}) == 2.5);
  CHECK(bench::quantile({5, 1, 4, 2, 3}, 0.25) == 2.0);
  CHECK(bench::quantile({5, 1, 4, 2, 3}, 0.75) == 4.0);
  CHECK(bench::quantile({2, 1}, 0) == 1.0);
  CHECK(bench::quantile({7}) == 7.0);
}

TEST_CASE("--check ends with 1 where a ratio or a time is missed, and with 0 where it is met") {
  CHECK(run({"--check"}, {.name = "long", .at_most = 2}) == 1);
  CHECK(run({"--check"}, {.name = "long", .at_most = 1e6}) == 0);
  CHECK(run({"--check"}, {.name = "long", .at_most_seconds = 1e-3}) == 1);
  CHECK(run({"--check"}, {.name = "long", .at_most_seconds = 3600}) == 0);
  CHECK(run({"--check"}, {.name = "long", .at_most = 1e6, .at_most_seconds = 1e-3}) == 1);
  CHECK(run({}, {.name = "long", .at_most = 2}) == 0);  // told, not judged
}

TEST_CASE("a wrong command line of a bench is 2") {
  CHECK(run({"--none"}, {.name = "long"}) == 2);
  CHECK(run({"--rounds", "8"}, {.name = "long"}) == 2);
  CHECK(run({"--rounds"}, {.name = "long"}) == 2);
  CHECK(run({"--milliseconds", "1x"}, {.name = "long"}) == 2);
}

TEST_CASE("a variant that fails is 1, and one that is compared with none is 2") {
  char name[] = "bench_fails", help[] = "--json";
  char* argv[] = {name, help};
  bench::Harness failing(2, argv, "fails", "One that fails");
  failing.add({.name = "throws"}, [](auto) { throw std::runtime_error("as it should"); });
  CHECK(failing.run() == 1);
  bench::Harness alone(2, argv, "alone", "One against none");
  alone.add({.name = "one", .against = "none"}, [](auto measure) { measure([] {}); });
  CHECK(alone.run() == 2);
}

}  // namespace
