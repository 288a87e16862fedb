// SPDX-License-Identifier: Apache-2.0
// The guarded test device does what it is there for: each stray access is a SIGSEGV.

#include <doctest/doctest.h>
#include <support/death.hpp>
#include <support/device_memory.hpp>
#include <support/guarded_device.hpp>

#include <csignal>
#include <vector>

namespace {

using zero_test::GuardedDevice;
using zero_test::signal_of;
using Memory = zero_test::DeviceMemory<float, GuardedDevice>;

/// A read, or a write, that the compiler may not leave out.
void touch(float* address) { *static_cast<float volatile*>(address) = 1; }
float look(float const* address) { return *static_cast<float const volatile*>(address); }

TEST_CASE("a host read of a guarded view is a SIGSEGV") {
  GuardedDevice device;
  auto stream = device.stream();
  Memory const memory(device, stream, std::vector<float>(64, 1.0f));
  CHECK(signal_of([&] { look(memory.view().address()); }) == SIGSEGV);
  CHECK(signal_of([&] { look(memory.view().address() + 63); }) == SIGSEGV);
}

TEST_CASE("a host write to a guarded view is a SIGSEGV") {
  GuardedDevice device;
  Memory const memory(device, 64);
  CHECK(signal_of([&] { touch(memory.view().address()); }) == SIGSEGV);
}

TEST_CASE("work that dereferences a view without resolving it is a SIGSEGV") {
  GuardedDevice device;
  auto stream = device.stream();
  Memory const memory(device, 64);
  CHECK(signal_of([&] {
          stream.enqueue([view = memory.view()] {
            touch(GuardedDevice::resolve(view.address()));  // this one is in order
            touch(view.address());
          });
        }) == SIGSEGV);
  CHECK(signal_of([&] {
          stream.enqueue([view = memory.view()] { touch(GuardedDevice::resolve(view.address())); });
        }) == 0);
}

TEST_CASE("an address that was resolved is good for that work alone") {
  GuardedDevice device;
  auto stream = device.stream();
  Memory const memory(device, 64);
  float* kept = nullptr;
  stream.enqueue([&kept, view = memory.view()] { kept = GuardedDevice::resolve(view.address()); });
  CHECK(signal_of([&] { touch(kept); }) == SIGSEGV);
  CHECK(signal_of([&] { stream.enqueue([&] { touch(kept); }); }) == SIGSEGV);
}

TEST_CASE("memory is closed again when work throws") {
  GuardedDevice device;
  auto stream = device.stream();
  Memory const memory(device, 64);
  float* kept = nullptr;
  CHECK_THROWS_AS(stream.enqueue([&kept, view = memory.view()] {
    kept = GuardedDevice::resolve(view.address());
    throw zero::Error("planted");
  }),
                  zero::Error);
  CHECK(signal_of([&] { touch(kept); }) == SIGSEGV);
}

TEST_CASE("work inside work closes only what it has opened") {
  GuardedDevice device;
  auto outer = device.stream();
  auto inner = device.stream();
  Memory const memory(device, 64);
  Memory const other(device, 64);
  outer.enqueue([&] {
    float* const x = GuardedDevice::resolve(memory.view().address());
    inner.enqueue([&] {
      *GuardedDevice::resolve(memory.view().address()) = 1;
      *GuardedDevice::resolve(other.view().address()) = 2;
    });
    CHECK(*x == 1.0f);  // still open
    *x = 3;
  });
  CHECK(signal_of([&] { look(memory.view().address()); }) == SIGSEGV);
}

TEST_CASE("work that writes behind a buffer is a SIGSEGV") {
  GuardedDevice device;
  auto stream = device.stream();
  for (zero::Index n : {64, 128, 1024, 64 * 17}) {
    Memory const memory(device, n);
    auto const write_at = [&](zero::Index i) {
      return signal_of([&] {
        stream.enqueue([&] { touch(GuardedDevice::resolve(memory.view().address()) + i); });
      });
    };
    CHECK(write_at(n - 1) == 0);
    CHECK(write_at(n) == SIGSEGV);
  }
}

TEST_CASE("a buffer that was given back is a SIGSEGV, and no longer resolved") {
  GuardedDevice device;
  auto stream = device.stream();
  zero::View<float, GuardedDevice> view;
  {
    Memory const memory(device, 64);
    view = memory.view();
  }
  CHECK(signal_of([&] { look(view.address()); }) == SIGSEGV);
  CHECK_THROWS_AS(stream.enqueue([&] { GuardedDevice::resolve(view.address()); }), zero::Error);
}

TEST_CASE("signal_of tells a crash from none") {
  CHECK(signal_of([] {}) == 0);
  CHECK(signal_of([] { throw 1; }) == 0);
  CHECK(signal_of([] { std::raise(SIGSEGV); }) == SIGSEGV);
  CHECK(signal_of([] { std::abort(); }) == SIGABRT);
}

}  // namespace
