// SPDX-License-Identifier: Apache-2.0
// Context, Parameters, Gradients, OptimizerState and Pass in a loop of one's own, which looks at
// each micro-batch with a forward-only pass, counts its own mean loss and then trains, give the
// trainer's bits.

#include <support/agreement.hpp>

#include <utility>

namespace zero_test {
namespace {

Config with_parts(ModelSpec model) {
  Config config;
  config.model = std::move(model);
  config.loop = Loop::parts;
  return config;
}

TEST_CASE("a loop over the parts alone gives the trainer's bits [slow]") {
  for (ModelSpec const& model : {everything(), frozen_parts(), padding_only()}) {
    for (Family const& family : families({1, 2, 3, 4})) {
      Config config = family.applied_to(with_parts(model));
      Result const trained = reference_of(config);
      for (int stage : {0, 1, 2, 3}) {
        config.stage = stage;
        config.options.prefetch = stage;
        config.options.bucket = buckets()[static_cast<std::size_t>(stage % 3)];
        check_against(trained, config);
        // The same stage by the trainer.
        config.loop = Loop::trainer;
        check_against(trained, config);
        config.loop = Loop::parts;
      }
    }
  }
}

TEST_CASE("a loop over the parts whose passes go forward twice gives the trainer's bits") {
  for (Family const& family : families({1, 2, 3})) {
    Config config = family.applied_to(with_parts(everything()));
    Result const trained = reference_of(config);  // goes forward once
    config.direct = [script = in_order(config.model)](Batch const&, bool trains) {
      Script twice = script;
      twice.forwards = trains ? 2 : 1;
      return twice;
    };
    for (int stage : {0, 1, 2, 3}) {
      config.stage = stage;
      check_against(trained, config);
    }
  }
}

TEST_CASE("a loop over the parts gives the trainer's bits on a device that runs work late") {
  for (Family const& family : families({2, 3})) {
    Config config = family.applied_to(with_parts(everything()));
    Result const trained = reference_of(config);
    config.device = OnDevice::late;
    for (int stage : {0, 1, 2, 3}) {
      config.stage = stage;
      check_against(trained, config);
    }
  }
}

TEST_CASE("a loop over the parts that evaluates between its steps gives the trainer's bits") {
  for (Family const& family : families({2})) {
    Config config = family.applied_to(with_parts(tied()));
    config.evaluates = true;
    Result const trained = reference_of(config);
    for (int stage : {0, 1, 2, 3}) {
      config.stage = stage;
      check_against(trained, config);
    }
  }
}

}  // namespace
}  // namespace zero_test
