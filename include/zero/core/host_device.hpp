// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one macro for functions that run on the host and, compiled by nvcc, in kernels.

#if defined(__CUDACC__)
#define ZERO_HOST_DEVICE __host__ __device__
#else
#define ZERO_HOST_DEVICE
#endif
