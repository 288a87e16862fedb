// SPDX-License-Identifier: Apache-2.0
#include <cuda/calls.hpp>
#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>

namespace zero_test {

Calls& calls() {
  thread_local Calls counted;
  return counted;
}

namespace {

class Book {
 public:
  void enter(cudaError_t status, void* address, size_t bytes, bool pinned) {
    if (status != cudaSuccess) return;
    std::lock_guard const lock(mutex_);
    entries_[address] = {static_cast<zero::Index>(bytes), pinned};
    count(entries_[address], 1);
  }
  void strike(cudaError_t status, void* address) {
    std::lock_guard const lock(mutex_);
    auto const found = entries_.find(address);
    if (status != cudaSuccess || found == entries_.end()) return;
    count(found->second, -1);
    entries_.erase(found);
  }
  Allocated allocated() {
    std::lock_guard const lock(mutex_);
    return allocated_;
  }
  void restart_peak() {
    std::lock_guard const lock(mutex_);
    allocated_.peak = allocated_.bytes;
  }

 private:
  struct Entry {
    zero::Index bytes = 0;
    bool pinned = false;
  };
  void count(Entry const& entry, int sign) {
    (entry.pinned ? allocated_.pinned : allocated_.bytes) += sign * entry.bytes;
    allocated_.peak = std::max(allocated_.peak, allocated_.bytes);
  }

  std::mutex mutex_;
  std::map<void*, Entry> entries_;
  Allocated allocated_;
};

Book& book() {
  static Book* const all = new Book;  // calls may come while the process ends
  return *all;
}

template <class F>
F* next(F*, char const* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

Allocated allocated() { return book().allocated(); }
void restart_peak() { book().restart_peak(); }

}  // namespace zero_test

// Each takes the place of the runtime's function of the same name and calls it.
#define ZERO_TEST_COUNT(counter, name, parameters, arguments)    \
  extern "C" cudaError_t name parameters {                       \
    static auto* const original = zero_test::next(&name, #name); \
    ++zero_test::calls().counter;                                \
    return original arguments;                                   \
  }

// The same of those that give memory out, at *a, and that have it back, which may wait for all
// work.
#define ZERO_TEST_GIVES(name, pinned, parameters, arguments)     \
  extern "C" cudaError_t name parameters {                       \
    static auto* const original = zero_test::next(&name, #name); \
    ++zero_test::calls().allocations;                            \
    cudaError_t const status = original arguments;               \
    zero_test::book().enter(status, *a, n, pinned);              \
    return status;                                               \
  }
#define ZERO_TEST_HAS_BACK(name, waiting, parameters, arguments) \
  extern "C" cudaError_t name parameters {                       \
    static auto* const original = zero_test::next(&name, #name); \
    zero_test::calls().waits += waiting;                         \
    cudaError_t const status = original arguments;               \
    zero_test::book().strike(status, a);                         \
    return status;                                               \
  }

ZERO_TEST_GIVES(cudaMalloc, false, (void** a, size_t n), (a, n))
ZERO_TEST_GIVES(cudaMallocAsync, false, (void** a, size_t n, cudaStream_t s), (a, n, s))
ZERO_TEST_GIVES(cudaMallocFromPoolAsync, false,
                (void** a, size_t n, cudaMemPool_t p, cudaStream_t s), (a, n, p, s))
ZERO_TEST_GIVES(cudaMallocHost, true, (void** a, size_t n), (a, n))
ZERO_TEST_GIVES(cudaHostAlloc, true, (void** a, size_t n, unsigned int f), (a, n, f))
ZERO_TEST_HAS_BACK(cudaFree, 1, (void* a), (a))
ZERO_TEST_HAS_BACK(cudaFreeAsync, 0, (void* a, cudaStream_t s), (a, s))
ZERO_TEST_HAS_BACK(cudaFreeHost, 1, (void* a), (a))
ZERO_TEST_HAS_BACK(cudaHostUnregister, 1, (void* a), (a))
extern "C" cudaError_t cudaHostRegister(void* a, size_t n, unsigned int flags) {
  static auto* const original = zero_test::next(&cudaHostRegister, "cudaHostRegister");
  ++zero_test::calls().allocations;
  cudaError_t const status = original(a, n, flags);
  zero_test::book().enter(status, a, n, true);
  return status;
}
ZERO_TEST_COUNT(allocations, cudaGraphInstantiate,
                (cudaGraphExec_t * e, cudaGraph_t g, unsigned long long f), (e, g, f))
ZERO_TEST_COUNT(allocations, cudaStreamCreateWithFlags, (cudaStream_t * s, unsigned int f), (s, f))
ZERO_TEST_COUNT(allocations, cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned int f), (e, f))
ZERO_TEST_COUNT(orders, cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned int f),
                (s, e, f))
ZERO_TEST_COUNT(waits, cudaStreamSynchronize, (cudaStream_t s), (s))
ZERO_TEST_COUNT(waits, cudaEventSynchronize, (cudaEvent_t e), (e))
ZERO_TEST_COUNT(waits, cudaDeviceSynchronize, (), ())
ZERO_TEST_COUNT(waits, cudaMemcpy, (void* to, void const* from, size_t n, cudaMemcpyKind k),
                (to, from, n, k))

// What this program's own objects call of the system: the linker, told to wrap these functions
// (programs.cmake), leaves the calls of CUDA, NCCL and the standard library alone, which are not
// the library's to answer for. Only std::condition_variable waits within the standard library.
#define ZERO_TEST_WRAP(counter, result, name, parameters, arguments) \
  extern "C" result __real_##name parameters;                        \
  extern "C" result __wrap_##name parameters {                       \
    ++zero_test::calls().counter;                                    \
    return __real_##name arguments;                                  \
  }

ZERO_TEST_WRAP(pauses, int, sched_yield, (), ())
ZERO_TEST_WRAP(pauses, int, nanosleep, (timespec const* time, timespec* left), (time, left))
ZERO_TEST_WRAP(pauses, int, clock_nanosleep,
               (clockid_t clock, int flags, timespec const* time, timespec* left),
               (clock, flags, time, left))
ZERO_TEST_WRAP(conditions, int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t* m), (c, m))
ZERO_TEST_WRAP(conditions, int, pthread_cond_timedwait,
               (pthread_cond_t * c, pthread_mutex_t* m, timespec const* until), (c, m, until))
ZERO_TEST_WRAP(conditions, int, pthread_cond_clockwait,
               (pthread_cond_t * c, pthread_mutex_t* m, clockid_t clock, timespec const* until),
               (c, m, clock, until))
// std::condition_variable::wait(std::unique_lock<std::mutex>&)
ZERO_TEST_WRAP(conditions, void, _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,
               (std::condition_variable * c, std::unique_lock<std::mutex>& lock), (c, lock))
