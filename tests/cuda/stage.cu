// SPDX-License-Identifier: Apache-2.0
// The trainers of stage ZERO_TEST_STAGE, on threads over the host and over GPUs. Numbers above 3
// are stages with state below the device, or with UncheckedGradients, as training.hpp names them:
// over GPUs alone, since nvcc takes its time.

#include <zero/cuda/cuda.cuh>
#include <zero/zero.hpp>

#include <cuda/chain_model.hpp>
#include <cuda/delayed_device.cuh>
#include <cuda/training.hpp>

#include <filesystem>
#include <mutex>

namespace zero_test {
namespace {

using zero::OnDevice, zero::OnHost, zero::OnNvme;
#if ZERO_TEST_STAGE <= 3
using Sharding = zero::Sharded<ZERO_TEST_STAGE>;
#elif ZERO_TEST_STAGE == 4
using Sharding = zero::Sharded<1, zero::Offload<OnHost>>;
#elif ZERO_TEST_STAGE == 5
using Sharding = zero::Sharded<3, zero::Offload<OnHost, OnHost>>;
#elif ZERO_TEST_STAGE == 6 || ZERO_TEST_STAGE == 8
using Sharding = zero::Sharded<3, zero::Offload<OnNvme, OnNvme>>;
#elif ZERO_TEST_STAGE == 7
using Sharding = zero::Sharded<3, zero::Offload<OnHost>>;
#else
using Sharding = zero::Sharded<ZERO_TEST_STAGE - 7>;
#endif
using Checking =
    std::conditional_t<(ZERO_TEST_STAGE >= 7), zero::UncheckedGradients, zero::CheckedGradients>;

template <class Trainer>
void read_elements(Trainer& trainer, Trained& trained, std::mutex& mutex) {
  auto const read = [&](int which) {
    return [&, which](zero::PlacedTensor const& tensor, zero::Index first, auto values) {
      std::lock_guard const lock(mutex);
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto const element = first + static_cast<zero::Index>(i);
        trained.elements[{tensor.number, element}][zero::at(which)] = values[i];
      }
    };
  };
  zero::read_weights(trainer, read(0));
  zero::read_state(trainer, 0, read(1));
  zero::read_state(trainer, 1, read(2));
}

template <class Backend, class P>
Trained run(Training const& training) {
  Trained trained;
  trained.losses.resize(zero::at(training.world));
  std::mutex mutex;
  zero::LaunchOptions const patient{.timeout = training.timeout, .threads = training.threads};
  Allocated const before = allocated();
  zero::launch<Backend>(
      training.world,
      [&](auto communicator) {
        using D = typename decltype(communicator)::Device;
        int const rank = communicator.rank();
        D& device = communicator.device();
        if constexpr (zero::BringsGatheredMemory<decltype(communicator)>) {
          if (training.copy_engines) communicator.gather_by_copy_engines();
        }
        ChainModel<D> model(training.model, device, training.own_gradients);
        zero::Index const of_model = device.ledger().bytes();
        Allocated const with_model = allocated();
        restart_peak();
        zero::AdamW const adamw{
            .lr = 0.02f, .weight_decay = 0.1f, .schedule = zero::LearningRate::linear(2, 50)};
        {
          zero::Options options = training.options;
          options.offload.nvme_path = std::filesystem::temp_directory_path().string();
          zero::Trainer trainer{std::move(model), communicator, adamw,     options,
                                Sharding{},       P{},          Checking{}};
          std::vector<std::vector<Batch>> batches(zero::at(training.steps));
          for (int s = 0; s < training.steps; ++s) {
            for (int m = 0; m < training.options.accumulation; ++m)
              batches[zero::at(s)].push_back(make_batch(training.first_rank + rank, s, m));
            if (s == training.bad_step && rank == 0)
              batches[zero::at(s)].back().poisons.push_back({0});
          }
          Calls counted{};
          int const counts_from =
              training.options.replay ? 2 : 1;  // the second step records graphs
          for (int s = 0; s < training.steps; ++s) {
            if (s == counts_from) counted = calls();
            if (training.before_step) training.before_step(rank, s);
            trainer.step(batches[zero::at(s)]);
            if (training.quiet) continue;
            trained.losses[zero::at(rank)].push_back(trainer.loss());
            zero::Decision const d = trainer.decision();
            if (rank == 0) {
              trained.decisions.push_back(
                  {d.skip != 0 ? 0.0 : d.norm, d.clip_factor, double{d.learning_rate},
                   double(d.skip), double(d.updates), double(d.bad_unit), double{d.loss_scale}});
            }
          }
          if (rank == 0) trained.calls = calls() - counted;
          read_elements(trainer, trained, mutex);
          std::uint64_t const hash = zero::parameters_hash(trainer);
          if (rank == 0) {
            trained.parameters_hash = hash;
            trained.planned_bytes = trainer.plan().total_bytes();
            trained.peak_bytes = device.ledger().peak_bytes() - of_model;
            trained.allocated.peak = allocated().peak - with_model.bytes;
          }
        }
        if (rank == 0) trained.left_bytes = device.ledger().bytes();
      },
      patient,
      training.on == RunsOn::nccl ? zero::Environment::of_process()
                                  : zero::Environment(zero::Environment::Variables{}));
  trained.allocated.bytes = allocated().bytes - before.bytes;
  trained.allocated.pinned = allocated().pinned - before.pinned;
  return trained;
}

template <class P>
Trained run_on(Training const& training) {
  constexpr bool anywhere = ZERO_TEST_STAGE <= 3;
  constexpr bool fp16 = std::is_same_v<P, zero::Fp16Mixed>;
  switch (training.on) {
    case RunsOn::host:
      if constexpr (anywhere) return run<zero::Threads, P>(training);
      break;
    case RunsOn::nccl:
      if constexpr (anywhere && !fp16) return run<zero::cuda::Nccl, P>(training);
      break;
    case RunsOn::delayed_gpu:
      if constexpr (!fp16) return run<zero::cuda::SharedDeviceOn<DelayedDevice>, P>(training);
      break;
    case RunsOn::gpu:
      return run<zero::cuda::SharedDevice, P>(training);
  }
  throw zero::Error("stage.cu: there is no such trainer");
}

}  // namespace

template <>
Trained train<ZERO_TEST_STAGE>(Training const& training) {
  switch (training.precision) {
    case Precision::fp32:
      return run_on<zero::Fp32>(training);
    case Precision::bf16:
      return run_on<zero::Bf16Mixed>(training);
    case Precision::fp16:
      if constexpr (ZERO_TEST_STAGE <= 3) return run_on<zero::Fp16Mixed>(training);
  }
  throw zero::Error("stage.cu: there is no such trainer");
}

}  // namespace zero_test
