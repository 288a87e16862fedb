// SPDX-License-Identifier: Apache-2.0
// The counters of calls.cpp count: a thread waits in each way that there is, and is seen. No GPU is
// needed, since a call that fails is a call.

#include <cuda/calls.hpp>
#include <cuda_runtime_api.h>

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace zero_test {
namespace {

using std::chrono::milliseconds;

template <class F>
Calls counted(F f) {
  Calls const before = calls();
  f();
  return calls() - before;
}

TEST_CASE("yields and sleeps are counted as pauses of the thread that makes them") {
  CHECK(counted([] { std::this_thread::yield(); }).pauses == 1);
  CHECK(counted([] { std::this_thread::sleep_for(milliseconds(1)); }).pauses >= 1);
  auto const until = [] { return std::chrono::steady_clock::now() + milliseconds(1); };
  CHECK(counted([&] { std::this_thread::sleep_until(until()); }).pauses >= 1);
  CHECK(counted([] { std::thread([] { std::this_thread::yield(); }).join(); }).pauses == 0);
  CHECK(counted([] {}).pauses == 0);
}

TEST_CASE("waits for another thread's word are counted, with and without a limit") {
  std::mutex mutex;
  std::condition_variable changed;
  bool told = false;
  CHECK(counted([&] {
          std::unique_lock lock(mutex);
          changed.wait_for(lock, milliseconds(1), [] { return false; });
        }).conditions >= 1);
  CHECK(counted([&] {
          std::unique_lock lock(mutex);
          changed.wait_until(lock, std::chrono::system_clock::now() + milliseconds(1));
        }).conditions >= 1);
  Calls const found = counted([&] {
    std::unique_lock lock(mutex);
    std::thread other([&] {  // comes to the mutex when it is waited for
      std::lock_guard const mine(mutex);
      told = true;
      changed.notify_all();
    });
    changed.wait(lock, [&] { return told; });
    lock.unlock();
    other.join();
  });
  CHECK(found.conditions >= 1);
  CHECK(found.pauses == 0);
}

TEST_CASE("CUDA's own waits and allocations are counted, whatever they answer") {
  CHECK(counted([] { static_cast<void>(cudaDeviceSynchronize()); }).waits == 1);
  CHECK(counted([] { static_cast<void>(cudaFree(nullptr)); }).waits == 1);
  CHECK(counted([] {
          void* address = nullptr;
          if (cudaMalloc(&address, 1) == cudaSuccess) static_cast<void>(cudaFree(address));
        }).allocations == 1);
  static_cast<void>(cudaGetLastError());
}

}  // namespace
}  // namespace zero_test
