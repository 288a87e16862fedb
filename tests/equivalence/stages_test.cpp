// SPDX-License-Identifier: Apache-2.0
// Stages 0-3 give the same bits: every loss, norm, decision, weight, moment and reduced gradient of
// every step, at each world, precision, accumulation and moment of reduction, with every prefetch
// and bucket. On the host device the whole product is run, shape by shape; elsewhere that of the
// shape that has everything over 2 and 3 ranks, and every family of every shape at every stage,
// with prefetch and bucket in turn, so that over the shapes each kind of family meets each pair of
// them at each stage.

#include <support/agreement.hpp>

namespace zero_test {
namespace {

std::vector<int> const all_worlds{1, 2, 3, 4, 8};

void whole_product(ModelSpec const& model, OnDevice device = OnDevice::host,
                   std::vector<int> const& worlds = all_worlds, zero::Index resident_below = 0) {
  Config config;
  config.model = model;
  config.device = device;
  config.watch = device == OnDevice::host;
  config.options.persistence_threshold = resident_below;
  for (Family const& family : families(worlds)) check_all(family.applied_to(config));
}

TEST_CASE("stages agree on the host: sizes that do not divide [slow]") {
  whole_product(ragged_sizes());
}
TEST_CASE("stages agree on the host: empty tensors [slow]") { whole_product(empty_tensors()); }
TEST_CASE("stages agree on the host: padding-only shards [slow]") { whole_product(padding_only()); }
TEST_CASE("stages agree on the host: one-element units [slow]") {
  whole_product(one_element_units());
}
TEST_CASE("stages agree on the host: a tensor larger than a bucket [slow]") {
  whole_product(one_large());
}
TEST_CASE("stages agree on the host: tied [slow]") { whole_product(tied()); }
TEST_CASE("stages agree on the host: frozen [slow]") { whole_product(frozen_parts()); }
TEST_CASE("stages agree on the host: decay and rate a tensor [slow]") { whole_product(rates()); }
TEST_CASE("stages agree on the host: everything at once [slow]") { whole_product(everything()); }
TEST_CASE("stages agree on the host: some units kept resident [slow]") {
  whole_product(everything(), OnDevice::host, all_worlds, 200);
}

/// @param watches waits after each step; without, the device may run one step into the next
void in_turn(OnDevice device, bool watches) {
  int turn = 0;
  for (ModelSpec const& model : all_specs()) {
    for (Family const& family : families(all_worlds)) {
      Config config;
      config.model = model;
      config.device = device;
      config.watch = watches;
      check_in_turn(family.applied_to(config), turn++);
    }
  }
}

TEST_CASE("stages agree on a device that runs work late [slow]") { in_turn(OnDevice::late, false); }
TEST_CASE("stages agree on a device that runs work late: the whole product [slow]") {
  whole_product(everything(), OnDevice::late, {2, 3});
}
TEST_CASE("stages agree on a device that runs work late, and is asked after each step [slow]") {
  in_turn(OnDevice::late, true);
}
#if !ZERO_TESTS_SANITIZED
TEST_CASE("stages agree on a device whose memory the host cannot touch [slow]") {
  in_turn(OnDevice::guarded, false);
}
TEST_CASE("stages agree on a device whose memory the host cannot touch: the whole product [slow]") {
  whole_product(everything(), OnDevice::guarded, {2, 3});
}
#endif

TEST_CASE("at one rank both moments of reduction are one") {
  for (ModelSpec const& model : {everything(), tied()}) {
    for (bool bf16 : {false, true}) {
      Config config;
      config.model = model;
      config.bf16 = bf16;
      config.options.accumulation = 3;
      config.options.reduction = zero::Reduction::boundary;
      Result const reference = reference_of(config);
      config.options.reduction = zero::Reduction::micro_batch;
      for (int stage : {0, 1, 2, 3}) {
        config.stage = stage;
        check_against(reference, config);
      }
    }
  }
}

TEST_CASE("moments of reduction differ in bits only at several ranks, and are as unset says") {
  Config config;
  config.model = ragged_sizes();
  config.world = 3;
  config.options.accumulation = 3;
  config.options.reduction = zero::Reduction::boundary;
  Result const boundary = reference_of(config);
  config.options.reduction = zero::Reduction::micro_batch;
  Result const micro_batch = reference_of(config);
  CHECK(!difference(boundary, micro_batch).empty());
  config.options.reduction.reset();
  for (int stage : {0, 1, 2, 3}) {
    config.stage = stage;
    check_against(stage < 2 ? boundary : micro_batch, config);
  }
}

// What a sanitizer's lane runs of the above.
TEST_CASE("stages agree: a tenth") {
  int turn = 0;
  for (OnDevice device : {OnDevice::host, OnDevice::late}) {
    for (ModelSpec const& model : {everything(), padding_only()}) {
      for (Family const& family : families({2, 3})) {
        Config config;
        config.model = model;
        config.device = device;
        check_in_turn(family.applied_to(config), turn++);
      }
    }
  }
}

}  // namespace
}  // namespace zero_test
