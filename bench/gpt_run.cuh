// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GPT's training on one GPU as benches measure it: what runs, its batches, the model alone, and
// a line of report.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <gpt2/cuda/model.cuh>
#include <gpt2/cuda/plain_pass.cuh>
#include <gpt2/units.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace bench {

using gpt2::Index;
using zero::bf16;
using Model = gpt2::cuda::Gpt2<bf16>;

inline constexpr double gib = 1024.0 * 1024 * 1024;

/// What is measured.
struct Run {
  std::string name;
  gpt2::Configuration size;
  Index batch;
  gpt2::Recompute recompute;
  int steps;
  int warm_ups;
  bool overlap;
  bool checked;
  bool copy_engines = false;  ///< gather; over NCCL
  bool replay = false;

  Index tokens() const { return batch * size.context; }
  Index parameters() const {
    Index n = 0;
    for (auto const& unit : gpt2::units_of(size)) {
      for (auto const& tensor : unit.tensors) n += tensor.elements();
    }
    return n;
  }
};

/// Writes to so many bytes of host memory once and gives them back. A virtual machine's memory may
/// grow as it is used: until then it says that there is less than it has.
/// @return whether the system gave as much
inline bool touch_host_memory(Index bytes, int threads) {
  Index const page = 4096;
  std::unique_ptr<void, void (*)(void*)> const memory(
      std::aligned_alloc(zero::at(page), zero::at(zero::round_up(bytes, page))), std::free);
  if (memory == nullptr) return false;
  zero::HostWorkers workers(threads);
  auto* const first = static_cast<std::byte volatile*>(memory.get());
  workers.run(bytes, [&](Index begin, Index end) {
    for (Index i = zero::round_up(begin, page); i < end; i += page) first[i] = std::byte{1};
  });
  return true;
}

/// Tokens by chance: what they are does not change how long a step takes.
inline gpt2::TokenBatch batch_of(Run const& run, int rank, int step) {
  gpt2::TokenBatch b{.length = run.size.context, .inputs = {}, .targets = {}};
  for (Index i = 0; i < run.tokens(); ++i) {
    auto const bits = zero::noise_bits(7, Index{rank} * 1000 + step, i);
    b.inputs.push_back(static_cast<gpt2::Token>(bits % 50257));
    b.targets.push_back(static_cast<gpt2::Token>((bits >> 32) % 50257));
  }
  return b;
}

/// Median milliseconds of work(step), which ends when the GPU has done it.
inline double median_ms(Run const& run, std::function<void(int)> const& work) {
  std::vector<double> times;
  for (int step = 0; step < run.warm_ups + run.steps; ++step) {
    auto const start = std::chrono::steady_clock::now();
    work(step);
    std::chrono::duration<double, std::milli> const took = std::chrono::steady_clock::now() - start;
    if (step >= run.warm_ups) times.push_back(took.count());
  }
  std::nth_element(times.begin(), times.begin() + run.steps / 2, times.end());
  return times[static_cast<std::size_t>(run.steps / 2)];
}

inline void report(Run const& run, char const* what, double ms, int world, double peak_bytes,
                   double loss) {
  std::printf("%-5s %-22s %8.1f ms  %8.0f tokens/s  peak %6.2f GiB  MFU %4.1f %%  loss %.4f\n",
              run.name.c_str(), what, ms, 1000 / ms * world * static_cast<double>(run.tokens()),
              peak_bytes / gib,
              100 * 6.0 * static_cast<double>(run.parameters() * run.tokens()) / (ms * 989e9),
              loss);
  std::fflush(stdout);
}

/// Norm, decision and AdamW of a step by hand: a unit's tensors lie one behind the other in flat
/// memory, as a trainer's do. The gradients are zeros; what they are does not change how long it
/// takes.
class PlainOptimizer {
 public:
  using Device = zero::cuda::Device;

  PlainOptimizer(Device& device, zero::cuda::Stream& stream, zero::Units const& units) {
    records_ = view<double>(device, stream, zero::norm_record_doubles);
    decision_ = view<zero::Decision>(device, stream, 1);
    zero::Decision const first;
    copy_in(stream, decision_, &first);
    for (zero::Unit const& unit : units) {
      std::vector<zero::Segment> segments;
      Index n = 0;
      for (zero::Tensor const& tensor : unit.tensors) {
        Index const end = n + zero::round_up(tensor.elements(), zero::alignment_elements);
        segments.push_back({n, end, std::ssize(segments)});
        n = end;
      }
      Flat& flat = units_.emplace_back();
      flat.gradients = view<bf16>(device, stream, n);
      flat.weights = view<float>(device, stream, n);
      flat.states = view<float>(device, stream, 2 * n);
      flat.rounded = view<bf16>(device, stream, n);
      flat.segments = view<zero::Segment>(device, stream, std::ssize(segments));
      copy_in(stream, flat.segments, segments.data());
      stream.synchronize();
    }
  }
  void operator()(zero::cuda::Stream& stream) {
    start_record(stream, records_, 0);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      add_squares(stream, zero::View<bf16 const, Device>(units_[u].gradients), records_,
                  static_cast<Index>(u));
    }
    decide(stream, zero::View<double const, Device>(records_), decision_,
           zero::DecisionInputs{.clip = 1}, zero::LearningRateOf<zero::AdamW>{adamw_});
    for (Flat const& flat : units_) {
      update(stream, zero::Update<zero::AdamW, bf16, bf16, Device>{
                         adamw_, flat.gradients, flat.weights, flat.states, flat.rounded,
                         flat.segments, decision_});
    }
  }

 private:
  struct Flat {
    zero::View<bf16, Device> gradients;
    zero::View<float, Device> weights;
    zero::View<float, Device> states;
    zero::View<bf16, Device> rounded;
    zero::View<zero::Segment, Device> segments;
  };
  template <class T>
  zero::View<T, Device> view(Device& device, zero::cuda::Stream& stream, Index n) {
    buffers_.push_back(device.allocate(n * Index{sizeof(T)}, "plain optimizer"));
    zero::View<T, Device> const all{reinterpret_cast<T*>(buffers_.back().address()), n};
    zero::cuda::check(cudaMemsetAsync(all.address(), 0, zero::at(n) * sizeof(T), stream.native()),
                      "cudaMemsetAsync");
    return all;
  }

  zero::AdamW adamw_{.lr = 1e-4f};
  std::vector<Device::Buffer> buffers_;
  zero::View<double, Device> records_;
  zero::View<zero::Decision, Device> decision_;
  std::vector<Flat> units_;
};

/// The same kernels without a Trainer: forward and backward into plain memory.
/// @param optimizes whether norm, decision and update follow, as in a trainer's step
inline double model_alone(Run const& run, bool optimizes = false) {
  zero::cuda::Device device;
  gpt2::cuda::PlainMemory<bf16> memory(device, gpt2::units_of(run.size));
  memory.initialise(1);
  Model model(device, run.size, {.batch = run.batch, .recompute = run.recompute});
  std::optional<PlainOptimizer> optimizer;
  if (optimizes) optimizer.emplace(device, memory.stream, gpt2::units_of(run.size));
  std::vector<gpt2::TokenBatch> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(batch_of(run, 0, i));
  double const ms = median_ms(run, [&](int step) {
    gpt2::cuda::PlainPass<bf16, true> pass(memory);
    model(pass, batches[static_cast<std::size_t>(step % 4)]);
    if (optimizer) (*optimizer)(memory.stream);
    memory.stream.synchronize();
  });
  double loss = 0;
  zero::copy_out(memory.stream, &loss, zero::View<double const, zero::cuda::Device>(memory.loss));
  memory.stream.synchronize();
  report(run, optimizes ? "model, norm and AdamW" : "model alone", ms, 1,
         static_cast<double>(device.ledger().peak_bytes()), loss);
  return ms;
}

}  // namespace bench
