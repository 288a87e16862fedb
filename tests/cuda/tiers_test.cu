// SPDX-License-Identifier: Apache-2.0
// State below a GPU, updated on the host: within rounding of the GPU's own trajectory, whatever is
// late, and the same bits at every stage and tier.
#include <cuda/training.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>

namespace zero_test {
namespace {

/// Greatest distance of weights, as a share of the rate times the steps, the most that they moved.
double distance(Trained const& a, Trained const& b) {
  double most = 0;
  for (auto const& [place, values] : a.elements) {
    double const apart = std::abs(double{values[0]} - double{b.elements.at(place)[0]});
    most = std::max(most, apart / (0.02 * 4));
  }
  return most;
}

Training training_of(bool bf16, int world, zero::Index accumulation) {
  Training training;
  training.model = everything();
  training.bf16 = bf16;
  training.world = world;
  training.options.accumulation = accumulation;
  training.options.reduction = zero::Reduction::boundary;
  training.options.clip = 0.5f;
  training.options.offload.tile_elements = 128;
  training.options.offload.buffer_count = 3;
  return training;
}

TEST_CASE("tiers below a GPU have one trajectory, that of the GPU within rounding of its pow") {
  int same = 0;
  int compared = 0;
  for (bool bf16 : {false, true}) {
    for (int world : {1, 2, 4}) {
      for (zero::Index accumulation : {1, 3}) {
        Training training = training_of(bf16, world, accumulation);
        Trained const on_gpu = train(3, training);
        Trained const below = train(4, training);
        ++compared;
        same += difference(on_gpu, below).empty();
        // AdamW's corrections alone may differ, in the last place of a float.
        CHECK(distance(on_gpu, below) < 1e-3);
        for (int place : {5, 6}) {
          std::string const text = difference(below, train(place, training));
          CHECK_MESSAGE(text.empty(), "world " << world << " place " << place << ": " << text);
        }
        training.on = RunsOn::delayed_gpu;
        for (int place : {4, 5, 6}) {
          std::string const text = difference(below, train(place, training));
          CHECK_MESSAGE(text.empty(),
                        "late, world " << world << " place " << place << ": " << text);
        }
      }
    }
  }
  std::printf("of %d runs below the device, %d have the bits of the GPU's own update\n", compared,
              same);
}

TEST_CASE("with state below a GPU a bad gradient is skipped, nothing is allocated late or kept") {
  for (int place : {4, 5, 6}) {
    Training training = training_of(true, 2, 1);
    training.bad_step = 1;
    Trained const trained = train(place, training);
    for (std::size_t s = 0; s < trained.decisions.size(); ++s)
      CHECK(trained.decisions[s][3] == (s == 1 ? 1.0 : 0.0));
    for (auto const& [element, values] : trained.elements) {
      for (float v : values) CHECK(std::isfinite(v));
    }
    CHECK(trained.left_bytes == 0);
    training.bad_step = -1;
    training.steps = 7;
    training.quiet = true;
    Trained const quiet = train(place, training);
    CHECK(quiet.calls.allocations == 0);
    CHECK(quiet.calls.waits == 0);
  }
}

}  // namespace
}  // namespace zero_test
