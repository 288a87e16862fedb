// SPDX-License-Identifier: Apache-2.0
#include <cuda/calls.hpp>
#include <cuda_runtime_api.h>

#include <dlfcn.h>

namespace zero_test {

Calls& calls() {
  thread_local Calls counted;
  return counted;
}

namespace {

template <class F>
F* next(F*, char const* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace zero_test

// Each takes the place of the runtime's function of the same name and calls it.
#define ZERO_TEST_COUNT(counter, name, parameters, arguments)    \
  extern "C" cudaError_t name parameters {                       \
    static auto* const original = zero_test::next(&name, #name); \
    ++zero_test::calls().counter;                                \
    return original arguments;                                   \
  }

ZERO_TEST_COUNT(allocations, cudaMalloc, (void** a, size_t n), (a, n))
ZERO_TEST_COUNT(allocations, cudaMallocAsync, (void** a, size_t n, cudaStream_t s), (a, n, s))
ZERO_TEST_COUNT(allocations, cudaMallocFromPoolAsync,
                (void** a, size_t n, cudaMemPool_t p, cudaStream_t s), (a, n, p, s))
ZERO_TEST_COUNT(allocations, cudaHostRegister, (void* a, size_t n, unsigned int f), (a, n, f))
ZERO_TEST_COUNT(allocations, cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned int f), (s, f))
ZERO_TEST_COUNT(allocations, cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned int f), (e, f))
ZERO_TEST_COUNT(waits, cudaStreamSynchronize, (cudaStream_t s), (s))
ZERO_TEST_COUNT(waits, cudaEventSynchronize, (cudaEvent_t e), (e))
ZERO_TEST_COUNT(waits, cudaDeviceSynchronize, (), ())
ZERO_TEST_COUNT(waits, cudaMemcpy, (void* to, void const* from, size_t n, cudaMemcpyKind k),
                (to, from, n, k))
