// SPDX-License-Identifier: Apache-2.0
// What every device promises of its streams and events.

#include <doctest/doctest.h>
#include <support/device_memory.hpp>
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using zero::Host;
using zero::Index;
using zero_test::DeviceMemory;
using zero_test::GuardedDevice;
using zero_test::LateDevice;

/// What the work of a stream threw, whether where it was enqueued or when it was asked for.
template <class Stream, class F>
std::string failure(Stream& stream, F work) {
  try {
    stream.enqueue(work);
    stream.synchronize();
  } catch (std::exception const& e) {
    return e.what();
  }
  return "";
}

TEST_CASE_TEMPLATE("work on one stream runs in order", D, Host, LateDevice, GuardedDevice) {
  D device;
  auto stream = device.stream();
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) stream.enqueue([&order, i] { order.push_back(i); });
  stream.synchronize();
  REQUIRE(order.size() == 1000);
  for (int i = 0; i < 1000; ++i) CHECK(order[zero::at(i)] == i);
}

TEST_CASE_TEMPLATE("a stream takes any callable, and lets go of it", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto stream = device.stream();
  int sum = 0;
  std::function<void()> const copied = [&] { sum += 1; };
  stream.enqueue(copied);
  stream.enqueue(std::function<void()>(copied));
  stream.enqueue([held = std::make_unique<int>(10), &sum] { sum += *held; });
  static int calls = 0;
  void (*const function)() = [] { ++calls; };
  calls = 0;
  stream.enqueue(function);
  auto const shared = std::make_shared<int>(100);
  stream.enqueue([shared, &sum] { sum += *shared; });
  stream.synchronize();
  CHECK(sum == 112);
  CHECK(calls == 1);
  CHECK(shared.use_count() == 1);
}

TEST_CASE_TEMPLATE("work behind a wait sees what was enqueued before the record", D, Host,
                   LateDevice, GuardedDevice) {
  D device;
  auto producer = device.stream();
  auto consumer = device.stream();
  DeviceMemory<float, D> a(device, 64);
  DeviceMemory<float, D> b(device, 64);
  auto event = device.event();
  for (int i = 0; i < 20; ++i) {
    producer.wait(event);
    producer.enqueue([to = a.view(), i] { *D::resolve(to.address()) = static_cast<float>(i); });
    producer.record(event);
    consumer.wait(event);
    consumer.enqueue([to = b.view(), from = a.view()] {
      *D::resolve(to.address()) = *D::resolve(from.address());
    });
    consumer.record(event);
    if (i % 3 == 0) CHECK(b.read(consumer)[0] == static_cast<float>(i));
  }
  consumer.synchronize();
}

TEST_CASE_TEMPLATE("an event that was never recorded is complete", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto stream = device.stream();
  auto const never = device.event();
  bool ran = false;
  stream.wait(never);
  stream.enqueue([&] { ran = true; });
  stream.synchronize();
  CHECK(ran);
}

TEST_CASE_TEMPLATE("an event may be moved, recorded again and waited for by several streams", D,
                   Host, LateDevice, GuardedDevice) {
  D device;
  auto a = device.stream();
  auto b = device.stream();
  auto c = device.stream();
  int value = 0;
  auto first = device.event();
  a.enqueue([&] { value = 1; });
  a.record(first);
  auto event = std::move(first);
  int seen_b = 0;
  b.wait(event);
  b.enqueue([&] { seen_b = value; });
  b.record(event);  // c now waits for b, and through it for a
  int seen_c = 0;
  c.wait(event);
  c.enqueue([&] { seen_c = seen_b + 10; });
  c.synchronize();
  CHECK(seen_b == 1);
  CHECK(seen_c == 11);
}

TEST_CASE_TEMPLATE("an event may outlive the stream that recorded it", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  auto event = device.event();
  int value = 0;
  {
    auto stream = device.stream();
    stream.enqueue([&] { value = 5; });
    stream.record(event);
  }
  auto other = device.stream();
  int seen = 0;
  other.wait(event);
  other.enqueue([&] { seen = value; });
  other.synchronize();
  CHECK(seen == 5);
}

TEST_CASE_TEMPLATE("a stream that is moved keeps its work and its order", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  std::vector<int> order;
  auto first = device.stream();
  first.enqueue([&] { order.push_back(1); });
  auto second = std::move(first);
  second.enqueue([&] { order.push_back(2); });
  auto third = device.stream();
  third = std::move(second);
  third.enqueue([&] { order.push_back(3); });
  third.synchronize();
  CHECK(order == std::vector<int>{1, 2, 3});
}

TEST_CASE_TEMPLATE("the work of a stream that is destroyed is done", D, Host, LateDevice,
                   GuardedDevice) {
  D device;
  int done = 0;
  {
    auto stream = device.stream();
    for (int i = 0; i < 100; ++i) stream.enqueue([&] { ++done; });
  }
  CHECK(done == 100);
}

TEST_CASE_TEMPLATE("what work throws reaches the host, by synchronize at the latest", D, Host,
                   LateDevice, GuardedDevice) {
  D device;
  auto stream = device.stream();
  CHECK(failure(stream, [] { throw std::runtime_error("planted"); }) == "planted");
  auto other = device.stream();
  bool ran = false;
  CHECK(failure(other, [&] { ran = true; }) == "");
  CHECK(ran);
}

TEST_CASE_TEMPLATE("nobody hangs who waits for an event behind work that threw", D, Host,
                   LateDevice, GuardedDevice) {
  D device;
  auto failing = device.stream();
  auto waiting = device.stream();
  auto event = device.event();
  try {
    failing.enqueue([] { throw std::runtime_error("planted"); });
    failing.enqueue([] {});
  } catch (std::runtime_error const&) {
  }
  failing.record(event);
  waiting.wait(event);
  bool ran = false;
  waiting.enqueue([&] { ran = true; });
  waiting.synchronize();
  CHECK(ran);
}

TEST_CASE_TEMPLATE("an address is resolved inside work, and only there", D, LateDevice,
                   GuardedDevice) {
  D device;
  auto stream = device.stream();
  auto const buffer = device.allocate(64, "test");
  CHECK_THROWS_AS(D::resolve(buffer.address()), zero::Error);
  bool resolved = false;
  stream.enqueue([&resolved, address = buffer.address()] {
    std::byte* const bytes = D::resolve(address);
    resolved = bytes != address && *bytes == std::byte{0xff};
  });
  stream.synchronize();
  CHECK(resolved);
  CHECK_THROWS_AS(D::resolve(buffer.address()), zero::Error);
  std::byte host[64];
  CHECK(failure(stream, [&] { D::resolve(&host[0]); }) != "");
}

TEST_CASE_TEMPLATE("no address resolves to none", D, Host, LateDevice, GuardedDevice) {
  D device;
  auto stream = device.stream();
  bool none = false;
  stream.enqueue([&] { none = D::resolve(static_cast<float*>(nullptr)) == nullptr; });
  stream.synchronize();
  CHECK(none);
}

}  // namespace
