// SPDX-License-Identifier: Apache-2.0
// Host time in which a step is enqueued, by phase, a unit: 48 units of a model that launches
// nothing of its own, so that no queue of the GPU is ever full. First on one rank, where nothing is
// communicated; then over NCCL under a launcher, or as threads that share several GPUs, a call of
// NCCL a unit and a call for up to eight.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace bench {

using zero::Index;
inline constexpr int num_units = 48;
inline constexpr Index unit_elements = Index{256} * 1024;
/// Visits every unit and computes nothing. (In a namespace without a name nvcc takes it for
/// unused.)
struct Idle {
  using Batch = int;

  zero::Units units() const {
    zero::Units all;
    for (int u = 0; u < num_units; ++u) {
      std::string const name = "unit" + std::to_string(u);
      all.push_back(
          {name, {{name + ".w", {256, unit_elements / 256}, zero::Initial::normal(0.02)}}});
    }
    return all;
  }
  template <class Pass>
  void operator()(Pass& pass, Batch const&) {
    for (int u = 0; u < num_units; ++u) auto const w = pass.forward(u);
    if constexpr (Pass::trains) {
      for (int u = num_units; u-- > 0;) auto const lease = pass.backward(u);
    }
  }
};

}  // namespace bench

namespace {

using bench::Idle, bench::Index, bench::num_units, bench::unit_elements;
int steps = 60;  ///< of a measurement; the first sixth, at least one, does not count

template <int Stage, class C>
void measure(C communicator, bool replay, Index bucket = 0, int prefetch = 1) {
  zero::Trainer trainer{
      Idle{},
      communicator,
      zero::AdamW{},
      zero::Options{.clip = 1.0f, .prefetch = prefetch, .bucket = bucket, .replay = replay},
      zero::Sharded<Stage>{},
      zero::Bf16Mixed{}};
  struct Sample {
    double gather, reduce, clip, update, publish, all;
  };
  std::vector<Sample> samples;
  for (int step = 0; step < steps; ++step) {
    zero::PhaseSeconds const before = trainer.context().seconds;
    auto const start = std::chrono::steady_clock::now();
    trainer.step(0);
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - start;
    zero::PhaseSeconds const& after = trainer.context().seconds;
    samples.push_back({after.gather - before.gather, after.reduce - before.reduce,
                       after.clip - before.clip, after.update - before.update,
                       after.publish - before.publish, took.count()});
    trainer.synchronize();
  }
  samples.erase(samples.begin(), samples.begin() + std::max(steps / 6, 1));
  auto const median = [&](double Sample::*phase) {
    std::nth_element(samples.begin(), samples.begin() + static_cast<long>(samples.size() / 2),
                     samples.end(),
                     [&](Sample const& a, Sample const& b) { return a.*phase < b.*phase; });
    return samples[samples.size() / 2].*phase * 1e6 / num_units;
  };
  if (communicator.rank() != 0) return;
  std::printf(
      "stage %d, %d ranks%s%s, prefetch %d: us a unit: gather %5.2f, reduce %5.2f, clip %5.2f, "
      "update %5.2f, "
      "publish %5.2f; the whole step %6.2f\n",
      Stage, communicator.size(), replay ? ", replayed" : "", bucket > 0 ? ", 8 units a call" : "",
      prefetch, median(&Sample::gather), median(&Sample::reduce), median(&Sample::clip),
      median(&Sample::update), median(&Sample::publish), median(&Sample::all));
  std::fflush(stdout);
}

/// What the communicator takes for as many collectives as a step has units: NCCL's call, and what
/// keeps track of it.
template <class C>
void measure_collective(C communicator) {
  auto& device = communicator.device();
  auto stream = device.stream();
  Index const elements = unit_elements;
  auto const buffer = device.allocate(elements * 2, "bench");
  zero::Slot<zero::cuda::Device> slot(buffer.address(), elements * 2, device.event());
  double best = 1e9;
  for (int step = 0; step < steps; ++step) {
    auto claim = slot.on<zero::bf16>(stream);
    auto const start = std::chrono::steady_clock::now();
    for (int u = 0; u < num_units; ++u)
      communicator.all_reduce(claim.target(0, elements), zero::Where{"bench", "unit", step});
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - start;
    claim.end();
    stream.synchronize();
    best = std::min(best, took.count());
  }
  if (communicator.rank() != 0) return;
  std::printf("a collective alone, %d ranks: %5.2f us a call at best\n", communicator.size(),
              best * 1e6 / num_units);
}

template <class C>
void measure_all(C communicator) {
  for (bool replay : {false, true}) {
    measure<0>(communicator, replay);
    measure<1>(communicator, replay);
    measure<2>(communicator, replay);
    measure<3>(communicator, replay);
  }
  if (communicator.size() == 1) return;
  Index const eight = 8 * unit_elements;
  measure<0>(communicator, false, eight);
  measure<1>(communicator, false, eight);
  measure<2>(communicator, false, eight);
  // Gathers wait for one another half the prefetch. Its last units stay gathered over the turn, so
  // that a longer prefetch makes fewer gathers: alone and together are compared at one.
  measure<3>(communicator, false, 0, 16);
  measure<3>(communicator, false, eight, 16);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::puts(
        "bench_enqueue [STEPS]: host microseconds to enqueue a step of 48 units, by phase; the\n"
        "median of STEPS (60) without the first sixth. Ranks that share a GPU take a second a "
        "step.");
    return 0;
  }
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: this process sees no GPU");
    return 77;
  }
  try {
    if (argc > 1) steps = std::max(std::stoi(argv[1]), 2);
    measure_all(zero::SingleRank<zero::cuda::Device>());
    auto const place = zero::find_place(zero::Environment::of_process());
    if (gpus > 1 || (place && place->size > 1))
      zero::launch<zero::cuda::Nccl>(gpus, [](auto communicator) {
        measure_all(communicator);
        measure_collective(communicator);
      });
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
