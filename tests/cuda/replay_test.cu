// SPDX-License-Identifier: Apache-2.0
// Options::replay: N steps whose norm and update are launched as graphs have the bits of N steps
// that launch kernel by kernel, and a graph is as quiet as these are.

#include <zero/cuda/cuda.cuh>

#include <cuda/training.hpp>
#include <cuda/values.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace zero_test {
namespace {

using zero::Index;

/// A run of nine steps, of which one is skipped; graphs launch in seven of them.
Training nine_steps(int world, Precision precision, Index accumulation) {
  Training training;
  training.model = everything();
  training.world = world;
  training.precision = precision;
  training.steps = 9;
  training.bad_step = 4;
  training.options.clip = 0.5f;
  training.options.accumulation = accumulation;
  return training;
}

__global__ void add_to(float* x, float const* y) { *x = *x * 0.5f + *y; }

TEST_CASE("N replays have the bits of N eager steps, at every stage, world and accumulation") {
  for (int stage : {0, 1, 2, 3}) {
    for (int world : {1, 2, 4}) {
      for (Precision precision : {Precision::fp32, Precision::bf16}) {
        for (Index accumulation : {1, 3}) {
          Training training = nine_steps(world, precision, accumulation);
          Trained const eager = train(stage, training);
          training.options.replay = true;
          Trained const replayed = train(stage, training);
          CAPTURE(stage);
          CAPTURE(world);
          CHECK(difference(eager, replayed) == std::string());
          CHECK(eager.decisions.size() == 9);
          CHECK(eager.decisions[4][3] == 1.0);
        }
      }
    }
  }
}

TEST_CASE("replays wait for what they read and are waited for, however late streams are") {
  for (int stage : {1, 3}) {
    Training training = nine_steps(2, Precision::bf16, 1);
    Trained const eager = train(stage, training);
    training.options.replay = true;
    training.on = RunsOn::delayed_gpu;
    for (int run = 0; run < 3; ++run)
      CHECK(difference(eager, train(stage, training)) == std::string());
  }
}

TEST_CASE(
    "a replay allocates nothing and waits for nothing once it is recorded, and gives all back") {
  for (int stage : {0, 3}) {
    Training training = nine_steps(2, Precision::bf16, 1);
    training.bad_step = -1;
    training.quiet = true;
    training.options.replay = true;
    Trained const trained = train(stage, training);
    CHECK(trained.calls.allocations == 0);
    CHECK(trained.calls.waits == 0);
    CHECK(trained.calls.pauses == 0);
    CHECK(trained.peak_bytes == trained.planned_bytes);
    CHECK(trained.left_bytes == 0);
  }
}

TEST_CASE("a graph calls for its work twice, and what it reads is memory, not what it once was") {
  zero::cuda::Device device;
  auto stream = device.stream();
  auto const memory = device.allocate(2 * sizeof(float), "test");
  auto* const x = reinterpret_cast<float*>(memory.address());
  zero::View<float, zero::cuda::Device> const both{x, 2};
  zero::cuda::Replay replay;
  int calls = 0;
  float expected = 1.0f;
  std::vector<float> host{1.0f, 0.0f};
  copy_in(stream, both, host.data());
  for (int step = 0; step < 6; ++step) {
    float const y = static_cast<float>(step);
    copy_in(stream, both.sub(1, 1), &y);
    stream.synchronize();
    replay(stream, [&] {
      ++calls;
      add_to<<<1, 1, 0, stream.native()>>>(x, x + 1);
    });
    expected = expected * 0.5f + y;
    copy_out(stream, host.data(), zero::View<float const, zero::cuda::Device>(both));
    stream.synchronize();
    CHECK(host[0] == expected);
  }
  CHECK(calls == 2);
}

TEST_CASE("what is told while a graph is captured is called around each of its launches") {
  zero::cuda::Device device;
  auto stream = device.stream();
  zero::cuda::Replay replay;
  std::string calls;
  for (int step = 0; step < 4; ++step) {
    replay(stream, [&] {
      if (!stream.captures()) return;
      stream.at_launches([&](zero::cuda::Stream& s, bool behind) {
        CHECK(s.native() == stream.native());
        CHECK(!s.captures());
        calls += behind ? '>' : '<';
      });
    });
  }
  CHECK(calls == "<><><>");  // the first call has no graph
}

TEST_CASE("what throws while it is captured leaves the stream as it was") {
  zero::cuda::Device device;
  auto stream = device.stream();
  zero::cuda::Replay replay;
  replay(stream, [] {});
  CHECK_THROWS_AS(replay(stream, [&] { stream.enqueue([] {}); }), zero::InvalidArgument);
  int ran = 0;
  stream.enqueue([&] { ++ran; });
  stream.synchronize();
  CHECK(ran == 1);
}

}  // namespace
}  // namespace zero_test
