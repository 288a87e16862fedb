// SPDX-License-Identifier: Apache-2.0
// At one rank every stage gives the bits of a loop that knows nothing of the library.

#include <equivalence/plain_loop.hpp>
#include <support/agreement.hpp>

namespace zero_test {
namespace {

void as_plain(ModelSpec const& model, OnDevice device) {
  for (Family const& family : families({1})) {
    for (float clip : {0.0f, 4.0f}) {
      Config config;
      config.model = model;
      config.steps = 5;
      config.device = device;
      config.options.clip = clip;
      config = family.applied_to(config);
      Result const plain = plain_run(config);
      for (int stage : {0, 1, 2, 3}) {
        config.stage = stage;
        check_against(plain, config);
      }
    }
  }
}

TEST_CASE("one rank gives the bits of a plain loop") {
  for (ModelSpec const& model : all_specs()) as_plain(model, OnDevice::host);
}

TEST_CASE("one rank gives the bits of a plain loop, on a device that runs work late") {
  for (ModelSpec const& model : {everything(), one_large()}) as_plain(model, OnDevice::late);
}

#if !ZERO_TESTS_SANITIZED
TEST_CASE("one rank gives the bits of a plain loop, on a device whose memory is closed") {
  for (ModelSpec const& model : {everything(), one_large()}) as_plain(model, OnDevice::guarded);
}
#endif

TEST_CASE("the plain loop clips some steps and not others") {
  Config config;
  config.model = everything();
  config.steps = 5;
  int clipped = 0;
  for (StepResult const& step : plain_run(config).steps)
    clipped += step.decisions[0].clip_factor < 1 ? 1 : 0;
  CHECK(clipped > 0);
  CHECK(clipped < 5);
}

}  // namespace
}  // namespace zero_test
