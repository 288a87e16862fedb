// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one macro for functions that run on the host and, compiled by nvcc, in kernels.

#if defined(__CUDACC__)
#define ZERO_HOST_DEVICE __host__ __device__
/// Before a template for host and device that calls a functor of its caller, which may be for the
/// host alone.
#define ZERO_CALLS_CALLERS_FUNCTOR _Pragma("nv_exec_check_disable")
#else
#define ZERO_HOST_DEVICE
#define ZERO_CALLS_CALLERS_FUNCTOR
#endif
