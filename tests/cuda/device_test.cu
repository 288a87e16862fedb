// SPDX-License-Identifier: Apache-2.0
// Memory, streams and events of a GPU: what is counted, ordered, given back, and said when it
// fails.

#include <zero/cuda/cuda.cuh>

#include <cuda/calls.hpp>
#include <cuda/values.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace zero_test {
namespace {

using zero::Index;
using zero::cuda::Device;

__global__ void slow_write(int* to, int value, long long cycles) {
  long long const begin = clock64();
  while (clock64() - begin < cycles) {
  }
  *to = value;
}

/// Bytes that this device's pool holds of the GPU.
std::uint64_t reserved_bytes(zero::cuda::Pool const& pool) {
  std::uint64_t bytes = 0;
  zero::cuda::check(
      cudaMemPoolGetAttribute(pool.native(), cudaMemPoolAttrReservedMemCurrent, &bytes),
      "cudaMemPoolGetAttribute");
  return bytes;
}

TEST_CASE("memory is counted to the byte, aligned, poisoned and given back") {
  Device device;
  auto stream = device.stream();
  {
    auto a = device.allocate(1000, "first");
    auto b = device.allocate(0, "second");
    auto c = device.allocate(Index{1} << 28, "first");
    CHECK(device.ledger().bytes() == 1000 + (Index{1} << 28));
    CHECK(reinterpret_cast<std::uintptr_t>(a.address()) % 256 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(c.address()) % 256 == 0);
    std::vector<unsigned char> bytes(1000);
    zero::View<unsigned char const, Device> const view{
        reinterpret_cast<unsigned char*>(a.address()), 1000};
    copy_out(stream, bytes.data(), view);
    stream.synchronize();
    CHECK(bytes == std::vector<unsigned char>(1000, 0xff));
    zero::cuda::Buffer moved = std::move(a);
    CHECK(a.address() == nullptr);
    CHECK(device.ledger().bytes() == 1000 + (Index{1} << 28));
  }
  CHECK(device.ledger().bytes() == 0);
  CHECK(device.ledger().peak_bytes() == 1000 + (Index{1} << 28));
}

TEST_CASE("a pool takes no more than it gives out, rounded to its granularity, and keeps it") {
  zero::cuda::Pool pool(0);
  std::byte* const memory = pool.take(Index{1} << 28);
  std::uint64_t const held = reserved_bytes(pool);
  CHECK(held >= std::uint64_t{1} << 28);
  CHECK(held <= (std::uint64_t{1} << 28) + (std::uint64_t{1} << 26));
  pool.give(memory);
  CHECK(pool.take(Index{1} << 28) != nullptr);
  CHECK(reserved_bytes(pool) == held);
}

TEST_CASE("memory that is not there is refused: by the limit, and by the GPU") {
  Device device;
  device.ledger().limit_bytes(1 << 20);
  CHECK_THROWS_AS(device.allocate((1 << 20) + 1, "too much"), zero::OutOfMemory);
  device.ledger().limit_bytes(0);
  std::string text;
  try {
    device.allocate(Index{1} << 50, "far too much");
  } catch (zero::OutOfMemory const& e) {
    text = e.what();
  }
  CHECK(text.find("no 1125899906842624 bytes for far too much") != text.npos);
  CHECK(text.find("cudaErrorMemoryAllocation") != text.npos);
  CHECK(device.ledger().bytes() == 0);
  auto after = device.allocate(64, "fits");
  CHECK(device.stream().native() != nullptr);
}

TEST_CASE("pinned memory is registered at its size, counted and given back") {
  Device device;
  auto stream = device.stream();
  {
    auto pinned = device.pinned(5000, "staging");
    CHECK(device.pinned_ledger().bytes() == 5000);
    cudaPointerAttributes attributes{};
    zero::cuda::check(cudaPointerGetAttributes(&attributes, pinned.address() + 4999), "attributes");
    CHECK(attributes.type == cudaMemoryTypeHost);
    auto* const numbers = reinterpret_cast<int*>(pinned.address());
    numbers[0] = 17;
    GuardedMemory<int> on_gpu(device, stream, 1);
    copy_in(stream, on_gpu.view(), numbers);
    copy_out(stream, numbers + 1, on_gpu.read());
    stream.synchronize();
    CHECK(numbers[1] == 17);
  }
  CHECK(device.pinned_ledger().bytes() == 0);
  CHECK(device.pinned_ledger().peak_bytes() == 5000);
}

TEST_CASE("an event orders streams, and transfers that are pinned are not waited for") {
  Device device;
  auto first = device.stream();
  auto second = device.stream();
  auto event = device.event();
  GuardedMemory<int> value(device, first, std::vector<int>{0});
  auto pinned = device.pinned(sizeof(int), "staging");
  auto* const seen = reinterpret_cast<int*>(pinned.address());
  *seen = -1;
  second.wait(zero::cuda::Event());  // never recorded: complete
  second.wait(event);                // not recorded yet: complete
  slow_write<<<1, 1, 0, first.native()>>>(value.view().address(), 5, 400'000'000);
  first.record(event);
  second.wait(event);
  copy_out(second, seen, value.read());
  CHECK(*static_cast<int volatile*>(seen) == -1);
  second.synchronize();
  CHECK(*seen == 5);
}

TEST_CASE(
    "a stream enqueues no wait for what it has recorded itself, wherever the two have moved") {
  Device device;
  auto first = device.stream();
  auto second = device.stream();
  auto event = device.event();
  auto const enqueued = [](auto& stream, auto const& of) {
    zero::Index const before = calls().orders;
    stream.wait(of);
    return calls().orders - before;
  };
  first.record(event);
  CHECK(enqueued(first, event) == 0);
  CHECK(enqueued(second, event) == 1);
  second.record(event);
  CHECK(enqueued(second, event) == 0);
  CHECK(enqueued(first, event) == 1);
  auto moved_event = std::move(event);
  auto moved_stream = std::move(second);
  CHECK(enqueued(moved_stream, moved_event) == 0);
  CHECK(enqueued(first, moved_event) == 1);
  second = device.stream();  // in the place of the one that has recorded
  CHECK(enqueued(second, moved_event) == 1);
  std::swap(first, moved_stream);
  CHECK(enqueued(first, moved_event) == 0);
  CHECK(enqueued(moved_stream, moved_event) == 1);
  auto other = device.event();
  moved_stream.record(other);
  other = std::move(moved_event);
  CHECK(enqueued(first, other) == 0);
  CHECK(enqueued(moved_stream, other) == 1);
}

TEST_CASE("what cannot be recorded surfaces at check, with call and place") {
  Device device;
  auto stream = device.stream();
  zero::cuda::Event none;
  stream.record(none);
  std::string text;
  try {
    stream.check();
  } catch (zero::cuda::Failure const& e) {
    text = e.what();
  }
  CHECK(text.find("cudaEventRecord failed: cudaErrorInvalidValue") != text.npos);
  CHECK(text.find("stream.hpp:") != text.npos);
  stream.check();
}

struct CountingWatcher : zero::cuda::Watcher {
  int looks = 0;
  int most = 1 << 30;
  void look(bool host_waits) override {
    looks += host_waits;
    if (looks > most) throw zero::CommunicationError("planted");
  }
};

__global__ void spin_for(long long cycles) {
  long long const begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

TEST_CASE("whoever waits for an event looks at what it may wait for in vain") {
  zero::cuda::Device device;
  auto const watcher = std::make_shared<CountingWatcher>();
  device.watch(watcher);
  auto stream = device.stream();
  auto other = device.stream();
  auto event = device.event();
  stream.synchronize(event);  // never recorded: complete
  CHECK(watcher->looks == 0);
  spin_for<<<1, 1, 0, stream.native()>>>(50'000'000);  // tens of milliseconds
  stream.record(event);
  other.synchronize(event);
  CHECK(watcher->looks > 0);
  CHECK(cudaEventQuery(event.native()) == cudaSuccess);
  CHECK(cudaStreamQuery(stream.native()) == cudaSuccess);
  spin_for<<<1, 1, 0, stream.native()>>>(50'000'000);
  stream.record(event);
  watcher->most = watcher->looks + 2;
  CHECK_THROWS_WITH_AS(other.synchronize(event), "planted", zero::CommunicationError);
  watcher->most = 1 << 30;
  stream.synchronize();
}

TEST_CASE("a GPU that is not there is refused") {
  int count = 0;
  zero::cuda::check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  CHECK_THROWS_AS(Device{count}, zero::InvalidArgument);
  CHECK_THROWS_AS(Device{-1}, zero::InvalidArgument);
}

TEST_CASE("a workspace is made once and is zero at first") {
  Device device;
  auto stream = device.stream();
  std::byte* const at_first = stream.workspace(512);
  std::vector<char> bytes(512);
  copy_out(stream, bytes.data(),
           zero::View<char const, Device>(reinterpret_cast<char*>(at_first), 512));
  stream.synchronize();
  CHECK(bytes == std::vector<char>(512, 0));
  CHECK(stream.workspace(100) == at_first);
  CHECK_THROWS_AS(stream.workspace(513), zero::InvalidArgument);
  CHECK_THROWS_AS(stream.use_workspace(at_first, 512), zero::InvalidArgument);

  auto given = device.stream();
  auto const memory = device.allocate(512, "given");
  given.use_workspace(memory.address(), 512);
  Index const used = device.ledger().bytes();
  CHECK(given.workspace(512) == memory.address());
  CHECK(device.ledger().bytes() == used);
  std::vector<std::byte> host(512, std::byte{1});
  copy_out(given, host.data(), zero::View<std::byte const, Device>(memory.address(), 512));
  given.synchronize();
  CHECK(std::ranges::all_of(host, [](std::byte b) { return b == std::byte{0}; }));
  CHECK(device.ledger().bytes() == 512 + 512);  // its own of the first stream, and what was given
}

}  // namespace
}  // namespace zero_test
