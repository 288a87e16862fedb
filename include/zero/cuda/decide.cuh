// SPDX-License-Identifier: Apache-2.0
#pragma once
// start_record and decide, one thread each: the decision of a step is made on the GPU, and no host
// waits for it. The arithmetic is that of optim/decision.hpp.

#include <zero/cuda/pack.cuh>
#include <zero/cuda/transfer.hpp>
#include <zero/optim/decision.hpp>

namespace zero {

namespace cuda::detail {

// A template, because two translation units may define a template only.
template <class Value>
__global__ void start_record_kernel(Value* record, Value hash) {
  record[0] = 0;
  record[1] = 0;
  record[2] = hash;
  record[3] = 0;
}

template <class LearningRate>
__global__ void decide_kernel(double const* records, Decision* decision, DecisionInputs inputs,
                              LearningRate learning_rate) {
  zero::decide(*decision, records, inputs, learning_rate);
}

}  // namespace cuda::detail

/// record = [0, 0, hash, 0]
template <cuda::RunsKernels D>
void start_record(typename D::Stream& stream, View<double, D> record, std::uint64_t hash) {
  cuda::detail::start_record_kernel<<<1, 1, 0, stream.native()>>>(record.address(),
                                                                  static_cast<double>(hash >> 11));
  cuda::detail::launched("start_record");
}

/// Replaces the decision with that of this step.
/// @param learning_rate (Index update) -> float, callable on the GPU, copied there
template <class LearningRate, cuda::RunsKernels D>
void decide(typename D::Stream& stream, View<double const, D> records, View<Decision, D> decision,
            DecisionInputs inputs, LearningRate learning_rate) {
  cuda::detail::decide_kernel<<<1, 1, 0, stream.native()>>>(records.address(), decision.address(),
                                                            inputs, learning_rate);
  cuda::detail::launched("decide");
}

}  // namespace zero
