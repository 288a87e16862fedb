// SPDX-License-Identifier: Apache-2.0
#include <zero/launch/accelerate.hpp>
#include <zero/launch/environment.hpp>

#include <doctest/doctest.h>
#include <launch/environments.hpp>

#include <cstdlib>

TEST_CASE("An environment is a snapshot of the process's variables") {
  ::setenv("ZERO_TEST_VARIABLE", "a=b", 1);
  ::setenv("ZERO_TEST_EMPTY", "", 1);
  auto const environment = zero::Environment::of_process();
  ::unsetenv("ZERO_TEST_VARIABLE");
  CHECK(environment.find("ZERO_TEST_VARIABLE") == "a=b");
  CHECK(environment.find("ZERO_TEST_EMPTY") == "");
  CHECK(!environment.find("ZERO_TEST_ABSENT"));
  CHECK(!zero::Environment::of_process().has("ZERO_TEST_VARIABLE"));
  CHECK(environment.quote("ZERO_TEST_VARIABLE") == "ZERO_TEST_VARIABLE=\"a=b\"");
  CHECK(environment.quote("ZERO_TEST_ABSENT") == "no ZERO_TEST_ABSENT");
}

TEST_CASE("Numbers are digits within bounds") {
  zero::Environment const e({{"a", "17"}, {"b", "0"}, {"c", "18"}, {"d", "007"}, {"e", ""}});
  CHECK(e.number("a", 0, 17) == 17);
  CHECK(e.number("b", 0, 17) == 0);
  CHECK(e.number("d", 0, 17) == 7);
  CHECK(!e.number("absent", 0, 17));
  CHECK_THROWS_WITH_AS(e.number("c", 0, 17),
                       "environment: c=\"18\" is not a whole number from 0 to 17",
                       zero::InvalidArgument);
  CHECK_THROWS_AS(e.number("e", 0, 17), zero::InvalidArgument);
  CHECK_THROWS_AS(e.number("b", 1, 17), zero::InvalidArgument);
}

TEST_CASE("accelerate names the DeepSpeed configuration") {
  using environments::accelerate;
  using environments::with;
  auto const path = [](environments::Variables v) {
    return zero::accelerate_deepspeed_config(zero::Environment(std::move(v)));
  };
  CHECK(path(accelerate(0, 2, "/jobs/ds.json")) == "/jobs/ds.json");
  CHECK(path({{"ACCELERATE_DEEPSPEED_CONFIG_FILE", "ds.json"}}) == "ds.json");
  CHECK(!path({}));
  CHECK(!path({{"ACCELERATE_USE_DEEPSPEED", "true"}, {"ACCELERATE_DEEPSPEED_ZERO_STAGE", "2"}}));
  CHECK(!path(accelerate(0, 2, "none")));
  CHECK(!path(with(accelerate(0, 2, "ds.json"), {{"ACCELERATE_USE_DEEPSPEED", "False"}})));
  CHECK_THROWS_WITH_AS(path(accelerate(0, 2, "")),
                       "environment: ACCELERATE_DEEPSPEED_CONFIG_FILE=\"\" is no path",
                       zero::InvalidArgument);
  CHECK_THROWS_WITH_AS(
      path(with(accelerate(0, 2, "ds.json"), {{"ACCELERATE_USE_DEEPSPEED", "perhaps"}})),
      "environment: ACCELERATE_USE_DEEPSPEED=\"perhaps\" is neither true nor false",
      zero::InvalidArgument);
}
