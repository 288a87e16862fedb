// SPDX-License-Identifier: Apache-2.0
// The largest GPT that trains on this machine's first GPU with its state at each tier: layers are
// added until the plan of device memory, host memory or files no longer fits what is free. Then two
// steps of that many layers, where they are asked for.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <bench/gpt_run.cuh>
#include <gpt2/connections.hpp>
#include <gpt2/preflight.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace bench;
using zero::Tier, zero::OnHost, zero::OnNvme, zero::Offload, zero::Sharded;

/// Bytes of each memory.
struct Bytes {
  Index device = 0;
  Index host = 0;
  Index files = 0;

  bool fits(Bytes const& room) const {
    return device <= room.device && host <= room.host && files <= room.files;
  }
};

struct Way {
  std::string name;
  Tier optimizer = Tier::device;
  Tier parameters = Tier::device;
  bool shares = false;  ///< a part of the state stays on the device, as large as fits
};

/// What is to be trained, and what it needs.
struct Choice {
  gpt2::Settings settings;
  Bytes needs;
  Index parameters = 0;
};

Choice choice_of(Way const& way, gpt2::Configuration size, Index layers, double ratio,
                 std::string const& folder) {
  Choice c;
  gpt2::Settings& s = c.settings;
  s.on = gpt2::On::cuda;
  s.ranks = 1;
  s.batch = 1;
  s.recompute = gpt2::Recompute::block;
  s.size = size;
  s.size.layers = layers;
  s.optimizer_tier = way.optimizer;
  s.parameter_tier = way.parameters;
  s.offload.ratio = ratio;
  s.offload.nvme_path = folder;
  zero::MemoryPlan const plan =
      zero::plan_memory(gpt2::units_of(s.size), gpt2::schedule_of(s.size), 1, gpt2::facts_of(s, 3),
                        gpt2::options_of(s), zero::workspace_bytes<zero::cuda::Device>);
  Index const activations =
      Model::activation_bytes(s.size, {.batch = s.batch, .recompute = s.recompute});
  c.needs = {plan.total_bytes() + activations, plan.tiers.host_bytes(), plan.tiers.nvme_bytes()};
  for (auto const& unit : gpt2::units_of(s.size)) {
    for (auto const& tensor : unit.tensors) c.parameters += tensor.elements();
  }
  return c;
}

/// The most layers that fit, with as much of the state below the device as that takes; none where
/// not even one does.
std::optional<Choice> largest(Way const& way, gpt2::Configuration size, Bytes const& room,
                              std::string const& folder) {
  std::optional<Choice> best;
  for (Index layers = 1; layers < 1000; ++layers) {
    bool found = false;
    for (int part = 32; part >= (way.shares ? 1 : 32) && !found; --part) {
      Choice const c = choice_of(way, size, layers, part / 32.0, folder);
      if (!c.needs.fits(room)) continue;
      best = c;
      found = true;
    }
    if (!found) break;
  }
  return best;
}

std::string text_of(Choice const& c) {
  char text[256];
  std::snprintf(text, sizeof text,
                "%3lld layers, %6.2f G parameters, %.3f of the state offloaded: %6.1f GiB of the "
                "device, %6.1f of the host, %5.1f in files",
                static_cast<long long>(c.settings.size.layers),
                static_cast<double>(c.parameters) * 1e-9, c.settings.offload.ratio,
                static_cast<double>(c.needs.device) / gib, static_cast<double>(c.needs.host) / gib,
                static_cast<double>(c.needs.files) / gib);
  return text;
}

template <class Sharding>
void train(Choice const& c) {
  gpt2::Settings const& s = c.settings;
  Run const run{"", s.size, s.batch, s.recompute, 0, 0, true, true};
  int const cores = static_cast<int>(std::thread::hardware_concurrency());
  auto const begun = std::chrono::steady_clock::now();
  auto const since = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  auto const rank = [&](auto communicator) {
    auto& device = communicator.device();
    zero::Trainer trainer{Model(device, s.size, {.batch = s.batch, .recompute = s.recompute}),
                          communicator,
                          zero::AdamW{.lr = 1e-4f},
                          gpt2::options_of(s),
                          Sharding{},
                          zero::Bf16Mixed{}};
    double const made = since();
    double losses[2];
    double ends[2];
    for (int step : {0, 1}) {
      auto const batch = batch_of(run, 0, step);
      trainer.step(batch);
      trainer.synchronize();
      losses[step] = trainer.mean_loss();
      ends[step] = since();
    }
    std::size_t free = 0;
    std::size_t total = 0;
    zero::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    Index host = 0;
    if constexpr (std::remove_cvref_t<decltype(trainer.context())>::has_tiers)
      host = trainer.context().tiers.memory().ledger().peak_bytes();
    std::printf(
        "    made in %.1f s, steps of %.2f and %.2f s, losses %.4f and %.4f; peak %.1f GiB of the "
        "device, which has %.1f of %.1f free now, and %.1f of the host\n",
        made, ends[0] - made, ends[1] - ends[0], losses[0], losses[1],
        static_cast<double>(device.ledger().peak_bytes()) / gib, static_cast<double>(free) / gib,
        static_cast<double>(total) / gib, static_cast<double>(host) / gib);
    std::fflush(stdout);
  };
  zero::launch<zero::cuda::SharedDevice>(1, rank, {.threads = std::max(cores - 1, 1)});
}

void train(Way const& way, Choice const& c) {
  if (way.optimizer == Tier::device) return train<Sharded<3>>(c);
  if (way.optimizer == Tier::nvme) return train<Sharded<3, Offload<OnNvme, OnNvme>>>(c);
  if (way.parameters == Tier::host) return train<Sharded<3, Offload<OnHost, OnHost>>>(c);
  train<Sharded<3, Offload<OnHost>>>(c);
}

int usage() {
  std::puts(
      "bench_gpt_largest [WAYS [WIDTH [HEADS [FOLDER [HOST_GIB]]]]]\n"
      "  prints the largest GPT at every way, and trains two steps of it at WAYS, with commas, of\n"
      "  device, host-optimizer, shared, host, nvme (none): all on the device; optimizer state in\n"
      "  host memory; as much of it as need be; parameters there as well; both in files in "
      "FOLDER.\n"
      "  WIDTH (4096), HEADS (32); batch 1 x 1024, vocabulary 50304, blocks made again in "
      "backward;\n"
      "  HOST_GIB (0) of host memory are written to first: a virtual machine's may grow with use.");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto const argument = [&](int i, char const* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  if (argument(1, "") == "--help") return usage();
  gpt2::ask_for_connections();
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: this process sees no GPU");
    return 77;
  }
  try {
    std::string const ways = "," + argument(1, "none") + ",";
    gpt2::Configuration const size{.vocabulary = 50304,
                                   .context = 1024,
                                   .width = std::stoll(argument(2, "4096")),
                                   .heads = std::stoll(argument(3, "32")),
                                   .layers = 1};
    std::string const folder = argument(4, "");
    int const cores = static_cast<int>(std::thread::hardware_concurrency());
    if (!touch_host_memory(std::stoll(argument(5, "0")) << 30, std::max(cores, 1)))
      std::puts("the system has not as much host memory as HOST_GIB");
    std::size_t free = 0;
    std::size_t total = 0;
    zero::cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    // What cuDNN, cuBLASLt and the system take besides.
    Index const beside = Index{2} << 30;
    Index const disk =
        folder.empty() ? 0
                       : static_cast<Index>(std::filesystem::space(folder).available) - beside / 2;
    Bytes const room{static_cast<Index>(free) - beside, zero::free_host_bytes() - 2 * beside,
                     std::max(disk, Index{0})};
    std::printf("room: %.1f GiB on the device, %.1f in host memory, %.1f for files; width %lld\n",
                static_cast<double>(room.device) / gib, static_cast<double>(room.host) / gib,
                folder.empty() ? 0.0 : static_cast<double>(room.files) / gib,
                static_cast<long long>(size.width));
    for (Way const& way :
         {Way{"device"}, Way{"host-optimizer", Tier::host},
          Way{"shared", Tier::host, Tier::device, true}, Way{"host", Tier::host, Tier::host},
          Way{"nvme", Tier::nvme, Tier::nvme}}) {
      if (way.optimizer == Tier::nvme && folder.empty()) {
        std::puts("nvme: skipped, it wants a FOLDER on a disk");
        continue;
      }
      auto const choice = largest(way, size, room, folder);
      std::printf("%-14s %s\n", way.name.c_str(),
                  choice ? text_of(*choice).c_str() : "nothing fits");
      std::fflush(stdout);
      if (choice && ways.find("," + way.name + ",") != std::string::npos) train(way, *choice);
    }
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
