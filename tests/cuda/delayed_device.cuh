// SPDX-License-Identifier: Apache-2.0
#pragma once
// A GPU whose streams are late at random: before every record and after every wait a kernel spins
// for up to 50 microseconds, so that what no event orders comes in another order from run to run.

#include <zero/core/noise.hpp>
#include <zero/cuda/device.hpp>

#include <atomic>
#include <utility>

namespace zero_test {

template <class Cycles>
__global__ void spin(Cycles cycles) {
  Cycles const begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

class DelayedStream : public zero::cuda::Stream {
 public:
  using Event = zero::cuda::Event;

  explicit DelayedStream(zero::cuda::Stream&& stream) : zero::cuda::Stream(std::move(stream)) {}

  void record(Event& event) noexcept {
    delay();
    zero::cuda::Stream::record(event);
  }
  void wait(Event const& event) {
    zero::cuda::Stream::wait(event);
    delay();
  }

  static inline std::atomic<std::uint64_t> seed{1};

 private:
  void delay() noexcept {
    std::uint64_t const bits = zero::mix(seed.fetch_add(1));
    if (bits % 4 != 0) return;  // most work is on time, or all would be late alike
    spin<<<1, 1, 0, native()>>>(static_cast<long long>((bits >> 8) % 90'000));
  }
};

class DelayedDevice : public zero::cuda::Device {
 public:
  using Stream = DelayedStream;
  using zero::cuda::Device::Device;

  DelayedStream stream() { return DelayedStream(zero::cuda::Device::stream()); }
};

static_assert(zero::cuda::RunsKernels<DelayedDevice>);

}  // namespace zero_test
