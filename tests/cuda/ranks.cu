// SPDX-License-Identifier: Apache-2.0
// One rank of several over NCCL: cuda_ranks SCENARIO, started by several_ranks.sh or a launcher.

#include <zero/cuda/cuda.cuh>
#include <zero/launch/agree.hpp>
#include <zero/zero.hpp>

#include <cuda/training.hpp>

#include <support/device_memory.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace zero_test {
namespace {

using zero::Index;
using zero::cuda::Device;
using zero::cuda::Nccl;

void demand(bool good, std::string const& what) {
  if (!good) throw zero::Error("wrong: " + what);
}

/// Small integers: every type holds their sums, in whatever order they are made.
template <class T>
T value(int rank, Index i) {
  return static_cast<T>(static_cast<float>((rank * 7 + i * 3) % 11 - 5));
}

template <class T, class C>
void check_collectives(C& communicator, Index slice) {
  auto stream = communicator.device().stream();
  int const world = communicator.size();
  Index const full = slice * world;
  std::vector<T> mine;
  std::vector<T> sums;
  std::vector<T> gathered;
  for (Index i = 0; i < full; ++i) {
    mine.push_back(value<T>(communicator.rank(), i));
    float sum = 0;
    for (int r = 0; r < world; ++r) sum += static_cast<float>(value<T>(r, i));
    sums.push_back(static_cast<T>(sum));
    gathered.push_back(value<T>(static_cast<int>(i / slice), i));
  }
  auto const begin = communicator.rank() * slice;
  auto const equal = [](std::vector<T> const& a, std::vector<T> const& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (static_cast<float>(a[i]) != static_cast<float>(b[i])) return false;
    }
    return a.size() == b.size();
  };
  std::string const size = " of " + std::to_string(slice) + " x " + std::to_string(sizeof(T));
  DeviceMemory<T, Device> memory(communicator.device(), stream, mine);
  auto const with_claim = [&](auto f) {
    auto claim = memory.claim(stream);
    f(claim);
  };
  zero::Where const where{"test", "unit", 1};
  with_claim(
      [&](auto& c) { communicator.all_gather(c.source(begin, slice), c.target(0, full), where); });
  demand(equal(memory.read(stream), gathered), "all_gather" + size);
  memory.write(stream, mine);
  with_claim([&](auto& c) {
    communicator.reduce_scatter(c.source(0, full), c.target(begin, slice), where);
    communicator.all_gather(c.source(begin, slice), c.target(0, full), where);
  });
  demand(equal(memory.read(stream), sums), "reduce_scatter" + size);
  memory.write(stream, mine);
  with_claim([&](auto& c) {
    zero::Group group(communicator);
    communicator.all_reduce(c.target(0, full), where);
    group.end();
  });
  demand(equal(memory.read(stream), sums), "all_reduce" + size);
}

void collectives(zero::LaunchOptions const& options) {
  zero::launch<Nccl>(
      1,
      [](auto communicator) {
        for (int channel : {0, 1, 3}) {
          auto c = communicator.channel(channel);
          for (Index slice : {Index{1}, Index{64}, Index{100'003}}) {
            check_collectives<float>(c, slice);
            check_collectives<zero::bf16>(c, slice);
            check_collectives<zero::fp16>(c, slice);
            check_collectives<double>(c, slice);
          }
        }
        demand(zero::agree(communicator, true), "agreement");
        demand(!zero::agree(communicator, communicator.rank() != 0), "disagreement");
      },
      options);
}

/// Against threads on this rank's GPU, which add in rank order. Both round sums of `world` terms:
/// world * 2^-24 of their size (2^-8 where gradients are bf16) a step; Adam turns that into at most
/// the same share of a step, but where a gradient is about 0. So most weights are within 64
/// roundings of a step, and all within two steps.
void training(int stage, int world) {
  for (bool bf16 : {false, true}) {
    for (Index accumulation : {1, 3}) {
      Training t;
      t.model = everything();
      t.world = world;
      t.bf16 = bf16;
      t.options.accumulation = accumulation;
      t.options.bucket = 500;
      Trained const reference = train(stage, t);
      t.on = RunsOn::nccl;
      Trained const got = train(stage, t);
      t.options.replay = true;  // publications as well
      demand(train(stage, t).elements == got.elements, "replays have other bits");
      double const step = 0.02;
      double const bound = step * 4 * world * 64 * std::ldexp(1.0, bf16 ? -8 : -24);
      Index beyond = 0;
      double worst = 0;
      for (auto const& [place, values] : got.elements) {
        double const apart = std::abs(double{values[0]} - double{reference.elements.at(place)[0]});
        worst = std::max(worst, apart);
        beyond += apart > bound;
      }
      std::printf(
          "stage %d, world %d, %s, accumulation %lld: %zu elements, worst/bound %.3f, beyond "
          "%lld\n",
          stage, world, bf16 ? "bf16" : "fp32", static_cast<long long>(accumulation),
          got.elements.size(), worst / bound, static_cast<long long>(beyond));
      demand(!got.elements.empty(), "no elements");
      demand(beyond * 100 <= static_cast<Index>(got.elements.size()), "more than 1 % beyond");
      demand(worst <= 2 * step * 4, "a weight is steps away");
      for (std::size_t s = 0; s < got.decisions.size(); ++s) {
        double const norm = reference.decisions[s][0];
        demand(std::abs(got.decisions[s][0] - norm) <= norm * (bf16 ? 0.02 : 1e-4), "norm");
      }
    }
  }
}

/// Who gathers changes no bit: copy engines move what NCCL's kernels move. Ranks that share a GPU
/// do not reach each other's memory, and there NCCL sends from windows as it does without.
void copy_engines(int world) {
  for (int stage : {1, 2, 3}) {
    for (bool replay : {false, true}) {
      Training t;
      t.model = everything();
      t.world = world;
      t.bf16 = true;
      t.on = RunsOn::nccl;
      t.options.bucket = 500;
      t.options.prefetch = 2;
      t.options.replay = replay;
      Trained const by_kernels = train(stage, t);
      t.copy_engines = true;
      Trained const by_engines = train(stage, t);
      demand(by_engines.elements == by_kernels.elements, "bits of copy engines");
      demand(by_engines.peak_bytes == by_engines.planned_bytes, "plan and peak");
      demand(by_engines.left_bytes == 0, "memory is left");
      std::printf("stage %d%s: %zu elements alike\n", stage, replay ? ", replayed" : "",
                  by_engines.elements.size());
    }
  }
}

/// A communicator that has gathered cannot change who gathers.
void late_choice(zero::LaunchOptions const& options) {
  zero::launch<Nccl>(
      1,
      [](auto communicator) {
        check_collectives<float>(communicator = communicator.channel(1), 64);
        try {
          communicator.gather_by_copy_engines();
        } catch (zero::InvalidArgument const& e) {
          std::printf("refused: %s\n", e.what());
          return;
        }
        throw zero::Error("wrong: a late choice was taken");
      },
      options);
}

/// The last rank does not come.
void late(zero::LaunchOptions const& options) {
  zero::launch<Nccl>(
      1,
      [&](auto communicator) {
        auto stream = communicator.device().stream();
        DeviceMemory<float, Device> memory(communicator.device(), 1024 * communicator.size());
        auto claim = memory.claim(stream);
        auto const reduce = [&](Index step) {
          communicator.all_reduce(claim.target(0, 1024 * communicator.size()),
                                  zero::Where{"reduce", "h.3", step});
        };
        reduce(11);
        stream.synchronize();
        if (communicator.rank() + 1 == communicator.size())
          std::this_thread::sleep_for(4 * options.timeout);
        reduce(12);
        stream.synchronize();
      },
      options);
}

/// The last rank dies in the middle.
void dies(zero::LaunchOptions const& options) {
  zero::launch<Nccl>(
      1,
      [&](auto communicator) {
        auto stream = communicator.device().stream();
        DeviceMemory<float, Device> memory(communicator.device(), 1024 * communicator.size());
        auto claim = memory.claim(stream);
        for (Index step = 0;; ++step) {
          if (step == 5 && communicator.rank() + 1 == communicator.size()) std::_Exit(9);
          communicator.all_reduce(claim.target(0, 1024 * communicator.size()),
                                  zero::Where{"reduce", "h.3", step});
          stream.synchronize();
        }
      },
      options);
}

int run(std::string const& scenario) {
  auto const place = zero::find_place(zero::Environment::of_process());
  if (!place) throw zero::Error("several_ranks.sh starts this program");
  zero::LaunchOptions options{.timeout = std::chrono::seconds(60)};
  if (scenario == "collectives") collectives(options);
  if (scenario.rfind("training-", 0) == 0) training(scenario.back() - '0', place->size);
  if (scenario == "copy-engines") copy_engines(place->size);
  if (scenario == "late-choice") late_choice(options);
  options.timeout = std::chrono::seconds(4);
  if (scenario == "late") late(options);
  if (scenario == "dies") dies(options);
  std::printf("rank %d of %d: %s is well\n", place->rank, place->size, scenario.c_str());
  return 0;
}

}  // namespace
}  // namespace zero_test

int main(int argc, char** argv) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: this process sees no GPU");
    return 77;
  }
  try {
    return zero_test::run(argc > 1 ? argv[1] : "");
  } catch (std::exception const& e) {
    std::printf("failed: %s\n", e.what());
    return 1;
  }
}
