// SPDX-License-Identifier: Apache-2.0
#pragma once
// The statuses of NCCL calls as exceptions, and NCCL's names for our types.

#include <zero/core/dtype.hpp>
#include <zero/cuda/status.hpp>

#include <nccl.h>

#include <type_traits>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
#error "zero: nccl.h is older than 2.28, the first that gathers by copy engines"
#endif

namespace zero::cuda {

/// An NCCL call that failed.
struct NcclFailure : CommunicationError {
  using CommunicationError::CommunicationError;
};

/// "ncclAllGather failed: unhandled system error (last: ...), at file.hpp:12"
/// @param status, call, where what failed
/// @param communicator whose last error is asked for; may be null
inline std::string describe(ncclResult_t status, ncclComm_t communicator, std::string_view call,
                            std::source_location where) {
  char const* const last = ncclGetLastError(communicator);
  std::string text = std::string(call) + " failed: " + ncclGetErrorString(status);
  if (last != nullptr && *last != '\0') text += " (" + std::string(last) + ")";
  return text + ", at " + detail::place(where);
}

/// @throws NcclFailure unless the status is ncclSuccess
inline void check(ncclResult_t status, std::string_view call, ncclComm_t communicator = nullptr,
                  std::source_location where = std::source_location::current()) {
  if (status != ncclSuccess) throw NcclFailure(describe(status, communicator, call, where));
}

/// NCCL's name for a type.
template <class T>
constexpr ncclDataType_t nccl_type() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, bf16> || std::is_same_v<T, fp16> ||
                    std::is_same_v<T, double>,
                "zero: NCCL is given float, bf16, fp16 and double");
  if constexpr (std::is_same_v<T, float>) return ncclFloat32;
  if constexpr (std::is_same_v<T, bf16>) return ncclBfloat16;
  if constexpr (std::is_same_v<T, fp16>) return ncclFloat16;
  return ncclFloat64;
}

}  // namespace zero::cuda
