// SPDX-License-Identifier: Apache-2.0
// The host as a device: what conformance/ does not ask of every device.

#include <zero/device/host_elementwise.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

namespace {

using zero::Host;

TEST_CASE("the host's streams run work where it is enqueued") {
  Host device;
  auto stream = device.stream();
  int order = 0;
  stream.enqueue([&] { order = 1; });
  CHECK(order == 1);
}

TEST_CASE("what work throws on the host is thrown where it is enqueued, and not again") {
  Host device;
  auto stream = device.stream();
  CHECK_THROWS_WITH_AS(stream.enqueue([] { throw std::runtime_error("planted"); }), "planted",
                       std::runtime_error);
  CHECK_NOTHROW(stream.check());
  CHECK_NOTHROW(stream.synchronize());
}

TEST_CASE("the host reads and writes its views as spans") {
  Host device;
  auto const buffer = device.allocate(64 * sizeof(float), "test");
  zero::View<float, Host> const view(reinterpret_cast<float*>(buffer.address()), 64);
  std::span<float> const all = view;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i);
  std::span<float const> const middle = zero::View<float const, Host>(view).sub(10, 5);
  CHECK(std::vector<float>(middle.begin(), middle.end()) == std::vector<float>{10, 11, 12, 13, 14});
}

#if !ZERO_TESTS_SANITIZED  // whose allocators end the process instead
TEST_CASE("more memory than there is ends in OutOfMemory, and the ledger forgets it") {
  Host device;
  zero::Index const too_much = zero::Index{1} << 60;
  CHECK_THROWS_AS(device.allocate(too_much, "dreams"), zero::OutOfMemory);
  CHECK(device.ledger().bytes() == 0);
}
#endif

TEST_CASE("large buffers begin at places of a page that their neighbours do not have") {
  zero::Host device;
  std::vector<zero::HostBuffer> buffers;
  std::set<std::uintptr_t> places;
  for (int i = 0; i < 16; ++i) {
    buffers.push_back(device.allocate(zero::Index{1} << 16, "test"));
    auto const address = reinterpret_cast<std::uintptr_t>(buffers.back().address());
    CHECK(address % 256 == 0);
    places.insert(address % 4096);
  }
  CHECK(places.size() == 16);
  CHECK(device.ledger().bytes() == 16 * (zero::Index{1} << 16));
}

TEST_CASE("a buffer that is assigned to itself keeps its memory") {
  Host device;
  auto buffer = device.allocate(100, "test");
  auto* const address = buffer.address();
  auto& alias = buffer;
  buffer = std::move(alias);
  CHECK(buffer.address() == address);
  CHECK(device.ledger().bytes() == 100);
}

}  // namespace
