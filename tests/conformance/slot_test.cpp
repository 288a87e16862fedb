// SPDX-License-Identifier: Apache-2.0
// Slots on every device: whoever claims the bytes waits for whoever used them last.

#include <doctest/doctest.h>
#include <support/device_memory.hpp>
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>

#include <string>
#include <utility>
#include <vector>

namespace {

using zero::Host;
using zero::Index;
using zero_test::DeviceMemory;
using zero_test::GuardedDevice;
using zero_test::LateDevice;

template <class D>
void set(typename D::Stream& stream, zero::View<float, D> to, float value) {
  stream.enqueue([to, value] {
    float* const x = D::resolve(to.address());
    for (Index i = 0; i < to.size(); ++i) x[i] = value;
  });
}

template <class D>
void increment(typename D::Stream& stream, zero::View<float, D> to) {
  stream.enqueue([to] {
    float* const x = D::resolve(to.address());
    for (Index i = 0; i < to.size(); ++i) x[i] += 1;
  });
}

TEST_CASE_TEMPLATE("a claim waits for the last claim's work on another stream", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto a = device.stream();
  auto b = device.stream();
  auto c = device.stream();
  DeviceMemory<float, D> memory(device, 100);
  {
    auto claim = memory.claim(a);
    set<D>(a, claim.view(), 0);
  }
  for (int i = 0; i < 30; ++i) {
    for (auto* stream : {&c, &b, &a}) {
      auto const claim = memory.claim(*stream);
      increment<D>(*stream, claim.view());
    }
  }
  CHECK(memory.read(b) == std::vector<float>(100, 90.0f));
}

TEST_CASE_TEMPLATE("a slot that one stream claims is refused to every other", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto a = device.stream();
  auto b = device.stream();
  DeviceMemory<float, D> memory(device, 64);
  auto first = memory.claim(a);
  CHECK_THROWS_AS(memory.claim(b), zero::Error);
  auto second = memory.claim(a);
  first.end();
  CHECK_THROWS_AS(memory.claim(b), zero::Error);
  second.end();
  CHECK_NOTHROW(memory.claim(b));
  CHECK_NOTHROW(memory.claim(a));
}

TEST_CASE_TEMPLATE("a claim that was refused leaves the slot as it was", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto a = device.stream();
  auto b = device.stream();
  DeviceMemory<float, D> memory(device, 64);
  {
    auto claim = memory.claim(a);
    CHECK_THROWS_AS(memory.claim(b), zero::Error);
    set<D>(a, claim.view(), 3);
  }
  CHECK(memory.read(b) == std::vector<float>(64, 3.0f));
}

TEST_CASE_TEMPLATE("two claims on one stream end in any order, and both are awaited", D, Host,
                   LateDevice, GuardedDevice) {
  D device;
  auto a = device.stream();
  auto b = device.stream();
  DeviceMemory<float, D> memory(device, 64);
  auto first = memory.claim(a);
  set<D>(a, first.view(), 1);
  auto second = memory.claim(a);
  first.end();
  increment<D>(a, second.view());
  second.end();
  CHECK(memory.read(b) == std::vector<float>(64, 2.0f));
}

TEST_CASE_TEMPLATE("a claim moves, and ends once", D, Host, LateDevice, GuardedDevice) {
  D device;
  auto a = device.stream();
  auto b = device.stream();
  DeviceMemory<float, D> memory(device, 64);
  auto claim = memory.claim(a);
  auto moved = std::move(claim);
  claim.end();  // holds nothing any more
  CHECK_THROWS_AS(memory.claim(b), zero::Error);
  set<D>(a, moved.view(), 7);
  moved.end();
  moved.end();
  auto other = memory.claim(b);
  CHECK_THROWS_AS(memory.claim(a), zero::Error);
  other = zero::Claim<float, D>();  // assigning ends what was held
  CHECK(memory.read(a) == std::vector<float>(64, 7.0f));

  DeviceMemory<float, D> second(device, 64);
  auto x = memory.claim(a);
  x = second.claim(b);
  CHECK_NOTHROW(memory.claim(b));
  CHECK_THROWS_AS(second.claim(a), zero::Error);
}

TEST_CASE_TEMPLATE("a claim that was never made ends quietly", D, Host, LateDevice, GuardedDevice) {
  zero::Claim<float, D> none;
  none.end();
  CHECK(none.view().size() == 0);
}

TEST_CASE_TEMPLATE("a claim that ends while an exception unwinds gives the slot back", D, Host,
                   LateDevice, GuardedDevice) {
  D device;
  auto a = device.stream();
  auto b = device.stream();
  DeviceMemory<float, D> memory(device, 64);
  try {
    auto claim = memory.claim(a);
    set<D>(a, claim.view(), 5);
    throw zero::Error("planted");
  } catch (zero::Error const&) {
  }
  CHECK(memory.read(b) == std::vector<float>(64, 5.0f));
}

TEST_CASE_TEMPLATE("a claim shows the bytes as elements of the type asked for", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto stream = device.stream();
  DeviceMemory<float, D> memory(device, 64);
  CHECK(memory.slot().bytes() == 256);
  CHECK(memory.slot().template on<double>(stream).view().size() == 32);
  CHECK(memory.slot().template on<zero::bf16>(stream).view().size() == 128);
  auto claim = memory.claim(stream);
  CHECK(claim.view(10, 5).size() == 5);
  CHECK(claim.view(10, 5).address() == claim.view().address() + 10);
  zero::Ordered<float const, D> const source = claim.source(3, 4);
  zero::Ordered<float, D> const target = claim.target(3, 4);
  CHECK(source.view().address() == claim.view().address() + 3);
  CHECK(target.view().size() == 4);
  CHECK(&source.stream() == &stream);
  CHECK(&target.stream() == &stream);
}

TEST_CASE_TEMPLATE("slots of one buffer are ordered apart", D, Host, LateDevice, GuardedDevice) {
  D device;
  auto a = device.stream();
  auto b = device.stream();
  DeviceMemory<float, D> memory(device, 128);
  zero::Slot<D> low(reinterpret_cast<std::byte*>(memory.view().address()), 256, device.event());
  zero::Slot<D> high(reinterpret_cast<std::byte*>(memory.view().address() + 64), 256,
                     device.event());
  auto x = low.template on<float>(a);
  auto y = high.template on<float>(b);
  set<D>(a, x.view(), 1);
  set<D>(b, y.view(), 2);
  x.end();
  y.end();
  auto z = low.template on<float>(b);
  auto w = high.template on<float>(b);
  increment<D>(b, z.view());
  increment<D>(b, w.view());
  z.end();
  w.end();
  std::vector<float> expected(128, 2.0f);
  for (std::size_t i = 64; i < 128; ++i) expected[i] = 3.0f;
  b.synchronize();
  CHECK(memory.read(b) == expected);
}

}  // namespace
