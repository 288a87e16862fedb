// SPDX-License-Identifier: Apache-2.0
// A training step of the GPT in bf16 on one GPU with state below it, against the largest of what
// such a step cannot do without: the model alone, the bytes over the bus, and the update on the
// host, each measured in this run. Prints a timeline of two steps in a row, which shows what runs
// beside what.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <bench/gpt_run.cuh>
#include <bench/timed_device.hpp>
#include <gpt2/connections.hpp>
#include <gpt2/flags.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace bench;
using zero::at;

/// Milliseconds of what a step cannot do without.
struct Ceilings {
  double compute = 0;
  double bus = 0;  ///< two bytes a parameter each way, both ways at once
  double up = 0;   ///< two bytes a parameter up, and nothing down
  double update = 0;
};

/// Pinned copies of so many bytes, each way and both ways at once: bus and up.
Ceilings bus_ms(Run const& run) {
  zero::cuda::Device device;
  auto down = device.stream();
  auto up = device.stream();
  Index const bytes = 2 * run.parameters();
  auto const gradients = device.allocate(bytes, "bus");
  auto const parameters = device.allocate(bytes, "bus");
  auto const to = device.pinned(bytes, "bus");
  auto const from = device.pinned(bytes, "bus");
  auto const time = [&](bool downwards, bool upwards) {
    return median_ms(run, [&](int) {
      if (downwards)
        zero::cuda::check(cudaMemcpyAsync(to.address(), gradients.address(), at(bytes),
                                          cudaMemcpyDeviceToHost, down.native()),
                          "cudaMemcpyAsync");
      if (upwards)
        zero::cuda::check(cudaMemcpyAsync(parameters.address(), from.address(), at(bytes),
                                          cudaMemcpyHostToDevice, up.native()),
                          "cudaMemcpyAsync");
      down.synchronize();
      up.synchronize();
    });
  };
  double const ms[] = {time(true, false), time(false, true), time(true, true)};
  double const gigabytes = static_cast<double>(bytes) * 1e-9;
  std::printf(
      "bus: %.2f GB down %.1f ms (%.1f GB/s), up %.1f ms (%.1f GB/s), both at once %.1f ms\n",
      gigabytes, ms[0], gigabytes / ms[0] * 1e3, ms[1], gigabytes / ms[1] * 1e3, ms[2]);
  return {.bus = ms[2], .up = ms[1]};
}

/// AdamW over all parameters by the tiles of a trainer with OnHost: weights and two states a tile
/// in one block, gradients in bf16 come in, parameters in bf16 go out.
/// @param tile OffloadOptions::tile_elements @return milliseconds
double update_ms(Run const& run, int threads, Index tile) {
  using D = zero::Host;
  using zero::View;
  using P = zero::Policies<zero::Sharded<3, zero::Offload<zero::OnHost>>, zero::Bf16Mixed>;
  zero::Options options;
  options.offload.tile_elements = tile;
  zero::Layout const layout(gpt2::units_of(run.size), 1);
  zero::Shares const shares(layout, zero::Facts::of<P>(zero::AdamW::num_states), options);
  zero::TierPlan const plan(layout, shares);
  Index n = 0;
  Index largest = 0;
  for (zero::Tile const& t : plan.tiles) {
    n += t.elements;
    largest = std::max(largest, t.elements);
  }
  D device(threads);
  auto stream = device.stream();
  auto const state = device.allocate(12 * n, "state");
  auto const gradients = device.allocate(2 * n, "gradients");
  auto const staging = device.allocate(2 * 3 * largest, "parameters");
  auto* const numbers = reinterpret_cast<float*>(state.address());
  auto* const sums = reinterpret_cast<bf16*>(gradients.address());
  auto* const rounded = reinterpret_cast<bf16*>(staging.address());
  stream.workers()->run(n, [&](Index begin, Index end) {
    std::fill(numbers + 3 * begin, numbers + 3 * end, 0.0f);
    for (Index i = begin; i < end; ++i) sums[i] = bf16(1e-3f * static_cast<float>(i % 101 - 50));
  });
  zero::Decision decision;
  decision.learning_rate = 1e-4f;
  double const ms = median_ms(run, [&](int) {
    ++decision.updates;
    Index begin = 0;
    int turn = 0;
    for (zero::Tile const& t : plan.tiles) {
      Index const count = t.elements;
      float* const weights = numbers + 3 * begin;
      zero::Segment const segment{0, count, 0, 0, 1, 1};
      zero::update(stream,
                   zero::Update<zero::AdamW, bf16, bf16, D>{
                       zero::AdamW{.lr = 1e-4f}, View<bf16 const, D>(sums + begin, count),
                       View<float, D>(weights, count), View<float, D>(weights + count, 2 * count),
                       View<bf16, D>(rounded + turn++ % 3 * largest, count),
                       View<zero::Segment const, D>(&segment, 1),
                       View<zero::Decision const, D>(&decision, 1)});
      begin += count;
    }
  });
  std::printf("host update: %d threads, %.1f ms, %.0f GB/s at 28 bytes a parameter\n", threads, ms,
              28 * static_cast<double>(n) / ms * 1e-6);
  return ms;
}

/// One line: '#' where more than half of a column's time was busy, '-' where some of it was.
void print_lane(char const* name, std::vector<Span> const& spans, double end) {
  constexpr int columns = 96;
  std::string line;
  for (int c = 0; c < columns; ++c) {
    double const from = c * end / columns;
    double const to = (c + 1) * end / columns;
    double busy = 0;
    for (Span const& s : spans) busy += std::max(0.0, std::min(s.to, to) - std::max(s.from, from));
    line += busy > (to - from) / 2 ? '#' : busy > 0 ? '-' : '.';
  }
  std::printf("      %-8s %s\n", name, line.c_str());
}

/// The first one, and a few in a row from the middle of those of the first step.
void print_few(char const* name, std::vector<Span> const& spans) {
  std::printf("      %-8s", name);
  std::size_t const middle = spans.size() / 4;
  if (middle > 0) std::printf("  0: %.1f-%.1f", spans[0].from, spans[0].to);
  for (std::size_t i = middle; i < std::min(middle + 4, spans.size()); ++i)
    std::printf("  %zu: %.1f-%.1f", i, spans[i].from, spans[i].to);
  std::printf("\n");
}

/// Two steps in a row, as training makes them.
template <class Trainer>
void trace(Trainer& trainer, std::vector<gpt2::TokenBatch> const& batches) {
  auto& context = trainer.context();
  Trace& trace = context.device().trace();
  for (TimedStream* stream :
       {&context.compute, &context.tiers.down, &context.tiers.host, &context.tiers.up})
    stream->watch(stream != &context.tiers.host);
  trace.begin();
  for (int step : {0, 1}) trainer.step(batches[at(step)]);
  trainer.synchronize();
  trace.end();
  struct Lane {
    char const* name;
    std::vector<Span> spans;
  };
  Lane const lanes[] = {{"compute", context.compute.on_gpu()},
                        {"down", context.tiers.down.on_gpu()},
                        {"waiting", context.tiers.host.waiting("F = zero::update<")},
                        {"squares", context.tiers.host.on_host("F = zero::add_squares<")},
                        {"update", context.tiers.host.on_host("F = zero::update<")},
                        {"up", context.tiers.up.on_gpu()}};
  double end = 0;
  for (Lane const& lane : lanes) {
    for (Span const& span : lane.spans) end = std::max(end, span.to);
  }
  std::printf("      two steps in a row, %.1f ms, a column is %.2f ms\n", end, end / 96);
  for (Lane const& lane : lanes) print_lane(lane.name, lane.spans, end);
  std::printf(
      "      a few of them, in ms; gradients go down a unit, the rest is of tiles; waiting are\n"
      "      updates from when they are enqueued\n");
  for (Lane const& lane : lanes) {
    if (lane.name != std::string("compute")) print_few(lane.name, lane.spans);
  }
}

/// @param traces prints a timeline as well
template <class Checking, class OptimizerTier, class... ParameterTier>
void measure(Run const& run, char const* way, Ceilings const& floor, int threads,
             std::string const& folder, bool traces, Index tile) {
  using Sharding = zero::Sharded<3, zero::Offload<OptimizerTier, ParameterTier...>>;
  auto const rank = [&](auto communicator) {
    zero::Options options{.clip = Checking::checks ? 1.0f : 0.0f};
    options.offload.nvme_path = folder;
    options.offload.tile_elements = tile;
    auto& device = communicator.device();
    zero::Trainer trainer{Model(device, run.size, {.batch = run.batch, .recompute = run.recompute}),
                          communicator,
                          zero::AdamW{.lr = 1e-4f},
                          options,
                          Sharding{},
                          Checking{},
                          zero::Bf16Mixed{}};
    std::vector<gpt2::TokenBatch> batches;
    for (int i = 0; i < 4; ++i) batches.push_back(batch_of(run, 0, i));
    double const alone = median_ms(run, [&](int step) {
      trainer.step(batches[at(step % 4)]);
      trainer.synchronize();
    });
    // As training goes: the next forward pass begins while tiles are still updated. From the end of
    // a step's passes to that of a later one's, so that what the last step leaves behind is no
    // part.
    cudaEvent_t ends[2]{};
    for (cudaEvent_t& end : ends) zero::cuda::check(cudaEventCreate(&end), "cudaEventCreate");
    for (int step = 0; step <= run.steps; ++step) {
      trainer.step(batches[at(step % 4)]);
      if (step == 0 || step == run.steps) {
        zero::cuda::check(
            cudaEventRecord(ends[step == 0 ? 0 : 1], trainer.context().compute.native()),
            "cudaEventRecord");
      }
    }
    trainer.synchronize();
    float took = 0;
    zero::cuda::check(cudaEventElapsedTime(&took, ends[0], ends[1]), "cudaEventElapsedTime");
    for (cudaEvent_t end : ends) zero::cuda::check(cudaEventDestroy(end), "cudaEventDestroy");
    double const ms = static_cast<double>(took) / run.steps;
    report(run, way, ms, 1, static_cast<double>(device.ledger().peak_bytes()), trainer.mean_loss());
    auto& tiers = trainer.context().tiers;
    // Gradients go down once; parameters below go up for every gather, which reads their files.
    auto const n = static_cast<double>(run.parameters());
    double gathered = 0;
    if (Sharding::parameter_tier != zero::Tier::device) {
      for (auto const& gather : trainer.context().timeline.gathers())
        gathered += static_cast<double>(trainer.context().layout.elements(gather.unit));
    }
    double const bus = floor.bus + floor.up * std::max(0.0, gathered / n - 1);
    double const largest = std::max({floor.compute, bus, floor.update});
    double const written = static_cast<double>(tiers.files().peak_bytes());
    std::printf(
        "      below it %.2f GiB of host memory, %.2f GiB in files; by itself a step takes %.1f "
        "ms\n"
        "      %.3f x the largest of compute %.1f, bus %.1f and host update %.1f ms (target 1.1)\n",
        static_cast<double>(tiers.memory().ledger().peak_bytes()) / gib, written / gib, alone,
        ms / largest, floor.compute, bus, floor.update);
    if (written > 0) {
      double const read = static_cast<double>(tiers.plan().state.file_bytes) +
                          (tiers.plan().parameters.file_bytes > 0 ? gathered * sizeof(bf16) : 0.0);
      std::printf("      files: %.2f GiB read and %.2f GiB written a step, %.2f GB/s\n", read / gib,
                  written / gib, (read + written) / ms * 1e-6);
    }
    if (traces) trace(trainer, batches);
    std::fflush(stdout);
  };
  zero::launch<zero::cuda::SharedDeviceOn<TimedDevice>>(1, rank, {.threads = threads});
}

int usage() {
  std::puts(
      "bench_gpt_offload [SIZE [BATCH [WAYS [STEPS [WARM_UPS [FOLDER [THREADS [TILE]]]]]]]]\n"
      "  SIZE 124m|350m|774m|1.5b (1.5b), BATCH sequences of 1024 tokens (8), WAYS of\n"
      "  host-optimizer, unchecked, host, nvme, with commas (the first three): optimizer state in\n"
      "  host memory; the same without looking at gradients; parameters there as well; both in\n"
      "  files in FOLDER. STEPS (8), WARM_UPS (2), THREADS that update (all cores but one), TILE "
      "in\n"
      "  units of 2^20 elements (0: as large as a trainer makes it).");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto const argument = [&](int i, std::string const& otherwise) {
    return argc > i ? std::string(argv[i]) : otherwise;
  };
  if (argument(1, "") == "--help") return usage();
  gpt2::ask_for_connections();
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: this process sees no GPU");
    return 77;
  }
  std::string const name = argument(1, "1.5b");
  std::string const size = "--size=" + name;
  std::string const batch = "--batch=" + argument(2, "8");
  char const* const flags[] = {size.c_str(), batch.c_str()};
  try {
    gpt2::Settings const s = gpt2::read_flags(flags);
    Run const run{name,
                  s.size,
                  s.batch,
                  s.recompute,
                  std::stoi(argument(4, "8")),
                  std::stoi(argument(5, "2")),
                  true,
                  true};
    int const cores = static_cast<int>(std::thread::hardware_concurrency());
    int const threads = std::stoi(argument(7, std::to_string(std::max(cores - 1, 1))));
    std::string const folder = argument(6, "");
    Index const tile = std::stoll(argument(8, "0")) << 20;
    std::string const ways = "," + argument(3, "host-optimizer,unchecked,host") + ",";
    auto const asked = [&](char const* way) {
      return ways.find("," + std::string(way) + ",") != std::string::npos;
    };
    touch_host_memory(20 * run.parameters(), threads);  // 16 bytes a parameter lie there at most
    double const compute = model_alone(run);
    Ceilings floor = bus_ms(run);
    floor.compute = compute;
    floor.update = update_ms(run, threads, tile);
    using zero::CheckedGradients, zero::OnHost, zero::OnNvme;
    if (asked("host-optimizer"))
      measure<CheckedGradients, OnHost>(run, "optimizer on host", floor, threads, folder, true,
                                        tile);
    if (asked("unchecked")) {
      measure<zero::UncheckedGradients, OnHost>(run, "the same, unchecked", floor, threads, folder,
                                                true, tile);
    }
    if (asked("host"))
      measure<CheckedGradients, OnHost, OnHost>(run, "all on host", floor, threads, folder, true,
                                                tile);
    if (asked("nvme")) {
      if (folder.empty()) {
        std::puts("skipped: the way nvme wants a FOLDER on a disk");
      } else {
        measure<CheckedGradients, OnNvme, OnNvme>(run, "all in files", floor, threads, folder,
                                                  false, tile);
      }
    }
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
