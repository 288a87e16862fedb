// SPDX-License-Identifier: Apache-2.0
#pragma once
// start_record, mark_not_finite and decide, one thread each: the decision of a step is made on the
// GPU, and no host waits for it. The arithmetic is that of optim/decision.hpp.

#include <zero/cuda/pack.cuh>
#include <zero/cuda/transfer.hpp>
#include <zero/optim/decision.hpp>

#include <type_traits>

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

template <class From, class To>
__global__ void mark_kernel(From const* from, To* to) {
  using Wide = std::conditional_t<std::is_same_v<From, double>, double, float>;
  if (!isfinite(static_cast<Wide>(*from))) *to = static_cast<To>(__int_as_float(0x7fc00000));
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

/// Where from[0] is not finite, to[0] becomes NaN; else it stays.
template <class From, class To, cuda::RunsKernels D>
void mark_not_finite(typename D::Stream& stream, View<From const, D> from, View<To, D> to) {
  cuda::detail::mark_kernel<<<1, 1, 0, stream.native()>>>(from.address(), to.address());
  cuda::detail::launched("mark_not_finite");
}

/// Replaces the decision with that of this step.
/// learning_rate: (Index update) -> float, callable on the GPU, copied there; its constants are
/// kept
template <class LearningRate, cuda::RunsKernels D>
void decide(typename D::Stream& stream, View<double const, D> records, View<Decision, D> decision,
            DecisionInputs inputs, LearningRate learning_rate) {
  cuda::detail::decide_kernel<<<1, 1, 0, stream.native()>>>(records.address(), decision.address(),
                                                            inputs, learning_rate);
  cuda::detail::launched("decide");
}

}  // namespace zero
