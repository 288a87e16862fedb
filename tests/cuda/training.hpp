// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs of the chain model, chosen by values: one kind of trainer a stage is compiled in stage.cu.

#include <zero/policy/options.hpp>

#include <cuda/calls.hpp>

#include <support/model_spec.hpp>
#include <support/script.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace zero_test {

enum class RunsOn { host, gpu, delayed_gpu, nccl };
enum class Precision { fp32, bf16, fp16 };

struct Training {
  ModelSpec model;
  RunsOn on = RunsOn::gpu;
  int world = 1;
  Precision precision = Precision::fp32;  ///< fp16 on the host and on GPUs that are not late alone
  bool own_gradients = false;
  bool copy_engines = false;  ///< over NCCL: who gathers
  int first_rank = 0;         ///< rank r has the batches of rank first_rank + r
  int bad_step = -1;          ///< step in which rank 0's gradient is not finite
  int steps = 4;
  int threads = 1;     ///< of the host, that share a rank's work below its GPU
  bool quiet = false;  ///< asks for nothing between steps, so that calls can be counted
  std::chrono::milliseconds timeout = std::chrono::seconds(120);
  std::function<void(int rank, int step)> before_step{};  ///< what goes wrong there
  zero::Options options{};
};

/// What came of it, padding excluded.
struct Trained {
  std::vector<std::vector<double>> losses;  ///< [rank, step]
  std::vector<std::array<double, 7>>
      decisions;  ///< [step]: norm, clip, rate, skip, updates, bad unit, next loss scale
  std::map<std::pair<zero::Index, zero::Index>, std::array<float, 3>>
      elements;  ///< (tensor, element): weight and states
  std::uint64_t parameters_hash = 0;
  zero::Index planned_bytes = 0;
  zero::Index peak_bytes = 0;  ///< of rank 0's device, without the model's own
  Calls calls{};  ///< of rank 0 from step 2 on, where replayed from step 3, where quiet
  zero::Index left_bytes = 0;  ///< once the trainer is gone
  Allocated allocated{};       ///< peak of this process, without the model's own; left at the end
};

template <int Stage>
Trained train(Training const& training);

inline Trained train(int stage, Training const& training);

/// Where two differ first; nothing when their bits are equal.
std::string difference(Trained const& a, Trained const& b);

template <>
Trained train<0>(Training const&);
template <>
Trained train<1>(Training const&);
template <>
Trained train<2>(Training const&);
template <>
Trained train<3>(Training const&);
/// Stage 1, the optimizer's state in host memory.
template <>
Trained train<4>(Training const&);
/// Stage 3, both kinds of state in host memory.
template <>
Trained train<5>(Training const&);
/// Stage 3, both kinds of state in files.
template <>
Trained train<6>(Training const&);
/// Stage 3, the optimizer's state in host memory, with UncheckedGradients.
template <>
Trained train<7>(Training const&);
/// Stage 3, both kinds of state in files, with UncheckedGradients.
template <>
Trained train<8>(Training const&);

/// Stage 2 with UncheckedGradients.
template <>
Trained train<9>(Training const&);
/// Stage 3 with UncheckedGradients.
template <>
Trained train<10>(Training const&);

/// Of the stages whose state lies on the device.
inline Trained train_stage(int stage, Training const& training) {
  switch (stage) {
    case 0:
      return train<0>(training);
    case 1:
      return train<1>(training);
    case 2:
      return train<2>(training);
    default:
      return train<3>(training);
  }
}

inline Trained train(int stage, Training const& training) {
  switch (stage) {
    case 4:
      return train<4>(training);
    case 5:
      return train<5>(training);
    case 6:
      return train<6>(training);
    case 7:
      return train<7>(training);
    case 8:
      return train<8>(training);
    case 9:
      return train<9>(training);
    case 10:
      return train<10>(training);
    default:
      return train_stage(stage, training);
  }
}

}  // namespace zero_test
