// SPDX-License-Identifier: Apache-2.0
// State below a GPU, updated on the host: the bits of the GPU's own trajectory, whatever is late,
// at every stage and tier.
#include <cuda/training.hpp>

#include <doctest/doctest.h>

#include <string>

namespace zero_test {
namespace {

Training training_of(Precision precision, int world, zero::Index accumulation) {
  Training training;
  training.model = everything();
  training.precision = precision;
  training.world = world;
  training.options.accumulation = accumulation;
  training.options.reduction = zero::Reduction::boundary;
  training.options.clip = 0.5f;
  training.options.offload.tile_elements = 128;
  training.options.offload.buffer_count = 3;
  return training;
}

TEST_CASE("tiers below a GPU have the bits of the GPU's own update") {
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    for (int world : {1, 2, 4}) {
      for (zero::Index accumulation : {1, 3}) {
        Training training = training_of(precision, world, accumulation);
        Trained const on_gpu = train(3, training);
        Trained const below = train(4, training);
        std::string const apart = difference(on_gpu, below);
        CHECK_MESSAGE(apart.empty(), "world " << world << ": " << apart);
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
}

TEST_CASE(
    "unchecked, tiles below a GPU are updated early and have the bits of the GPU's own update") {
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    for (int world : {1, 2}) {
      Training training = training_of(precision, world, 1);
      training.options.clip = 0;
      Trained const on_gpu = train(3, training);
      for (RunsOn on : {RunsOn::gpu, RunsOn::delayed_gpu}) {
        training.on = on;
        for (int place : {7, 8}) {
          Trained const below = train(place, training);
          CAPTURE(place);
          CHECK(below.parameters_hash == on_gpu.parameters_hash);
          CHECK(below.elements == on_gpu.elements);
          CHECK(below.losses == on_gpu.losses);
        }
      }
      training.on = RunsOn::gpu;
    }
  }
}

TEST_CASE(
    "three threads share tiles too large for one below a GPU: the bits of the GPU's own update") {
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    for (zero::Index accumulation : {1, 3}) {
      Training training = training_of(precision, 1, accumulation);
      // Threads share from 65,536 elements on: a tile of 80,000, and one of what is left.
      training.model = spec("two tiles", {{"a", {weight("a.w", {307, 521})}}});
      training.options.offload.tile_elements = 80000;
      training.steps = 2;
      Trained const on_gpu = train(3, training);
      training.threads = 3;
      for (RunsOn on : {RunsOn::gpu, RunsOn::delayed_gpu}) {
        training.on = on;
        for (int place : {4, 5, 6}) {
          std::string const text = difference(on_gpu, train(place, training));
          CHECK_MESSAGE(text.empty(), "place " << place << ": " << text);
        }
      }
    }
  }
}

TEST_CASE("with state below a GPU a bad gradient is skipped, nothing is allocated late or kept") {
  for (int place : {4, 5, 6}) {
    Training training = training_of(Precision::bf16, 2, 1);
    training.bad_step = 1;
    Trained const trained = train(place, training);
    for (std::size_t s = 0; s < trained.decisions.size(); ++s)
      CHECK(trained.decisions[s][3] == (s == 1 ? 1.0 : 0.0));
    for (auto const& [element, values] : trained.elements) {
      for (float v : values) CHECK(std::isfinite(v));
    }
    CHECK(trained.left_bytes == 0);
    CHECK(trained.allocated.bytes == 0);
    CHECK(trained.allocated.pinned == 0);
    training.bad_step = -1;
    training.steps = 7;
    training.quiet = true;
    Trained const quiet = train(place, training);
    CHECK(quiet.calls.allocations == 0);
    CHECK(quiet.calls.waits == 0);
    CHECK(quiet.calls.pauses == 0);
  }
}

}  // namespace
}  // namespace zero_test
