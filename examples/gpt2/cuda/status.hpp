// SPDX-License-Identifier: Apache-2.0
#pragma once
// The statuses of cuBLASLt and cuDNN as exceptions, as zero::cuda::check does those of CUDA.

#include <zero/core/size.hpp>
#include <zero/cuda/status.hpp>

#include <cublasLt.h>
#include <cudnn.h>

#include <source_location>
#include <string>
#include <string_view>

namespace gpt2::cuda {

using zero::at;
using zero::Index;
using zero::cuda::check;

/// @throws zero::cuda::Failure for everything else but success: the call, cuBLASLt's text, the
/// place
inline void check(cublasStatus_t status, std::string_view call,
                  std::source_location where = std::source_location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw zero::cuda::Failure(std::string(call) + " failed: " + cublasLtGetStatusName(status) +
                            ", at " + where.file_name() + ":" + std::to_string(where.line()));
}

/// @throws zero::cuda::Failure as above, with what cuDNN says was wrong with the call's arguments
inline void check(cudnnStatus_t status, std::string_view call,
                  std::source_location where = std::source_location::current()) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char reason[512] = {};
  cudnnGetLastErrorString(reason, sizeof reason);
  throw zero::cuda::Failure(std::string(call) + " failed: " + cudnnGetErrorString(status) + " (" +
                            reason + "), at " + where.file_name() + ":" +
                            std::to_string(where.line()));
}

}  // namespace gpt2::cuda
