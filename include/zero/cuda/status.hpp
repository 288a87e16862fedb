// SPDX-License-Identifier: Apache-2.0
#pragma once
// The statuses of CUDA calls as exceptions. A failure says which call it was, where it stands, and
// CUDA's own name and text.

#include <zero/core/error.hpp>

#include <cuda_runtime_api.h>

#include <source_location>
#include <string>
#include <string_view>

namespace zero::cuda {

/// A CUDA call that failed, or work on a device that failed before it.
struct Failure : Error {
  using Error::Error;
};

namespace detail {

inline std::string place(std::source_location const& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

}  // namespace detail

/// "cudaMalloc failed: cudaErrorMemoryAllocation (out of memory), at file.cu:12"
inline std::string describe(cudaError_t status, std::string_view call, std::source_location where) {
  return std::string(call) + " failed: " + cudaGetErrorName(status) + " (" +
         cudaGetErrorString(status) + "), at " + detail::place(where);
}

/// @param status what was returned
/// @param call names what returned it
/// @param where it was called
/// @throws OutOfMemory when memory was refused, Failure for everything else but cudaSuccess
inline void check(cudaError_t status, std::string_view call,
                  std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // what is not sticky must not be found again by a later, innocent check
  std::string const text = describe(status, call, where);
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  throw Failure(text);
}

/// The same where nothing may be thrown: destructors, which run when the process goes down as well.
inline void ignore(cudaError_t status) noexcept {
  if (status != cudaSuccess) cudaGetLastError();
}

}  // namespace zero::cuda
