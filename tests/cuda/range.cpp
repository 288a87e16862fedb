// SPDX-License-Identifier: Apache-2.0
// What a profiler hears of a step: the ranges of cuda::Range through NVTX itself, with no GPU.

#include <zero/cuda/range.hpp>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace zero_test {
namespace {

using zero::cuda::Range;

TEST_CASE("NVTX is told of ranges by phase and unit, in the domain zero") {
  REQUIRE(setenv("NVTX_INJECTION64_PATH", ZERO_TEST_NVTX_LISTENER, 1) == 0);
  {
    Range forward("forward", "h.3");
    Range gather("gather", "h.4");  // ranges overlap
    forward = Range();              // and end in any order
    Range const moved(std::move(gather));
    Range const clip("clip", "");
    Range const none;
    Range const long_name("update", std::string(300, 'x'));
  }
  void* const listener = dlopen(ZERO_TEST_NVTX_LISTENER, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(listener != nullptr);
  auto* const text = reinterpret_cast<char const* (*)()>(dlsym(listener, "zero_test_nvtx_text"));
  REQUIRE((text != nullptr));
  std::string const cut = "update " + std::string(127 - 7, 'x');
  CHECK(std::string(text()) ==
        "zero: +forward h.3\nzero: +gather h.4\nzero: -forward h.3\nzero: +clip\nzero: +" + cut +
            "\nzero: -" + cut + "\nzero: -clip\nzero: -gather h.4\n");
}

}  // namespace
}  // namespace zero_test
