// SPDX-License-Identifier: Apache-2.0
// The late test device does what it is there for: work runs only when it is asked for, a missing
// wait is seen, and nothing hangs.

#include <doctest/doctest.h>
#include <support/death.hpp>
#include <support/device_memory.hpp>
#include <support/late_device.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using zero_test::DeviceMemory;
using zero_test::LateDevice;
using zero_test::LateSettings;
using zero_test::WithLateSettings;

constexpr std::chrono::seconds never{1000};
constexpr std::chrono::milliseconds a_while{30};

TEST_CASE("a late stream does nothing until it is asked") {
  WithLateSettings const with({.deadline = never});
  LateDevice device;
  std::atomic<int> done{0};
  auto stream = device.stream();
  for (int i = 0; i < 5; ++i) stream.enqueue([&] { ++done; });
  stream.check();
  std::this_thread::sleep_for(a_while);
  CHECK(done == 0);
  stream.synchronize();
  CHECK(done == 5);
}

TEST_CASE("what one stream waits for is all that another does") {
  WithLateSettings const with({.deadline = never});
  LateDevice device;
  std::atomic<int> done{0};
  auto a = device.stream();
  auto b = device.stream();
  auto c = device.stream();
  auto event = device.event();
  auto second = device.event();
  a.enqueue([&] { done += 1; });
  a.record(event);
  a.enqueue([&] { done += 10; });
  b.wait(event);
  a.record(event);  // the wait above is for the record before it
  b.enqueue([&] { done += 100; });
  b.record(second);
  b.enqueue([&] { done += 1000; });
  c.wait(second);
  c.enqueue([&] { done += 10000; });
  c.synchronize();
  CHECK(done == 10101);
  b.synchronize();
  CHECK(done == 11101);
  a.synchronize();
  CHECK(done == 11111);
}

TEST_CASE("without any progress, the oldest work runs after the deadline, one by one") {
  // Work that takes longer than the deadline counts as no progress: a busy machine takes some time
  // for a push.
  WithLateSettings const with({.deadline = std::chrono::milliseconds(200)});
  LateDevice device;
  std::mutex mutex;
  std::vector<int> order;
  std::atomic<int> done{0};
  auto a = device.stream();
  auto b = device.stream();
  for (int i = 0; i < 6; ++i) {
    (i % 2 == 0 ? a : b).enqueue([&, i] {
      std::lock_guard const lock(mutex);
      order.push_back(i);
      ++done;
    });
  }
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (done < 6 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(a_while);
  std::lock_guard const lock(mutex);
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("work that blocks until another stream's is done is rescued by the deadline") {
  // What a collective does that needs another rank, which needs this rank's other stream.
  WithLateSettings const with({.deadline = std::chrono::milliseconds(2)});
  LateDevice device;
  std::atomic<bool> other{false};
  auto a = device.stream();
  auto b = device.stream();
  b.enqueue([] {});
  b.enqueue([&] {
    other = true;
    other.notify_all();
  });
  a.enqueue([&] { other.wait(false); });
  a.synchronize();
  CHECK(other);
}

TEST_CASE("a missing wait reads what was there before") {
  WithLateSettings const with({.deadline = never});
  LateDevice device;
  auto producer = device.stream();
  auto consumer = device.stream();
  DeviceMemory<float, LateDevice> memory(device, 64);
  producer.enqueue([to = memory.view()] { *LateDevice::resolve(to.address()) = 5; });
  float seen = 0;
  consumer.enqueue([&, from = memory.view()] { seen = *LateDevice::resolve(from.address()); });
  consumer.synchronize();
  CHECK(std::isnan(seen));
  producer.synchronize();
}

TEST_CASE("a wait that is planted to be ignored is, and no other") {
  for (zero::Index ignored : {LateSettings::no_wait, zero::Index{0}, zero::Index{1}, zero::Index{2},
                              LateSettings::every_wait}) {
    WithLateSettings const with({.deadline = never, .ignored_wait = ignored});
    int values[3] = {};  // before the streams, which end with their work
    std::vector<int> seen;
    LateDevice device;
    auto consumer = device.stream();
    auto event = device.event();
    std::vector<zero_test::LateStream> producers;
    for (int& value : values) {
      producers.push_back(device.stream());
      consumer.wait(device.event());  // never recorded: does not count
      producers.back().enqueue([&] { value = 1; });
      producers.back().record(event);
      consumer.wait(event);
      consumer.enqueue([&] { seen.push_back(value); });
      consumer.record(event);
      consumer.wait(event);  // of the same stream: does not count
    }
    consumer.synchronize();
    CHECK(device.num_waits() == 3);
    for (zero::Index i = 0; i < 3; ++i) {
      bool const left_out = ignored == LateSettings::every_wait || ignored == i;
      CHECK(seen[zero::at(i)] == (left_out ? 0 : 1));
    }
  }
}

TEST_CASE("an early stream runs ahead of what others ask for") {
  WithLateSettings const with({.deadline = never, .early = 1});
  LateDevice device;
  auto late = device.stream();   // 0
  auto early = device.stream();  // 1
  std::string order;             // no race: one stream runs at a time
  auto event = device.event();
  auto third = device.stream();
  late.enqueue([&] { order += 'a'; });
  late.record(event);
  late.enqueue([&] { order += 'b'; });
  early.wait(event);
  early.enqueue([&] { order += 'c'; });
  std::this_thread::sleep_for(a_while);
  early.synchronize();
  CHECK(order == "ac");
  third.enqueue([&] { order += 't'; });
  early.enqueue([&] {
    std::this_thread::sleep_for(a_while);
    order += 'd';
  });
  late.synchronize();
  CHECK(order == "acdb");
  third.synchronize();
  CHECK(order == "acdbt");
}

TEST_CASE("an error is kept, later work is dropped, and events complete") {
  WithLateSettings const with({.deadline = never});
  LateDevice device;
  auto failing = device.stream();
  auto waiting = device.stream();
  auto event = device.event();
  bool dropped = true;
  failing.enqueue([] { throw std::runtime_error("planted"); });
  failing.enqueue([&] { dropped = false; });
  failing.record(event);
  CHECK_NOTHROW(failing.check());  // it has not run yet
  bool ran = false;
  waiting.wait(event);
  waiting.enqueue([&] { ran = true; });
  waiting.synchronize();
  CHECK(ran);
  CHECK(dropped);
  CHECK_THROWS_WITH_AS(failing.check(), "planted", std::runtime_error);
  CHECK_THROWS_WITH_AS(failing.synchronize(), "planted", std::runtime_error);
  CHECK_NOTHROW(waiting.check());
  auto fresh = device.stream();
  fresh.enqueue([] {});
  CHECK_NOTHROW(fresh.synchronize());
}

TEST_CASE("a stream that failed is destroyed quietly") {
  LateDevice device;
  auto stream = device.stream();
  stream.enqueue([] { throw 5; });
}

TEST_CASE("streams are destroyed in any order while one waits for another") {
  WithLateSettings const with({.deadline = never});
  for (bool producer_first : {true, false}) {
    LateDevice device;
    int value = 0;
    int seen = 0;
    auto producer = std::make_unique<LateDevice::Stream>(device.stream());
    auto consumer = std::make_unique<LateDevice::Stream>(device.stream());
    auto event = device.event();
    producer->enqueue([&] { value = 5; });
    producer->record(event);
    consumer->wait(event);
    consumer->enqueue([&] { seen = value; });
    if (producer_first) producer.reset();
    consumer.reset();
    producer.reset();
    CHECK(seen == 5);
  }
}

TEST_CASE("random delays change no order") {
  WithLateSettings const with(
      {.longest_delay = std::chrono::microseconds(300), .early = LateSettings::every_stream});
  LateDevice device;
  auto a = device.stream();
  auto b = device.stream();
  auto event = device.event();
  int value = 0;
  for (int i = 0; i < 20; ++i) {
    a.wait(event);
    a.enqueue([&] { value = value * 2 + 1; });
    a.record(event);
    b.wait(event);
    b.enqueue([&] { value -= 1; });
    b.record(event);
  }
  b.synchronize();
  CHECK(value == 0);
}

TEST_CASE("the log says which waits others imply") {
  WithLateSettings const with({.log_waits = true});
  LateDevice device;
  auto a = device.stream();
  auto b = device.stream();
  auto c = device.stream();
  auto at_a = device.event();
  auto at_b = device.event();
  auto const work = [](auto& stream) { stream.enqueue([] {}); };
  work(a);
  a.record(at_a);
  b.wait(at_a);  // 0: needed
  work(b);
  b.wait(at_a);  // 1: implied by 0
  work(b);
  b.record(at_b);
  c.wait(at_b);  // 2: needed
  c.wait(at_a);  // 3: implied by 2 and 0
  work(c);
  work(a);
  a.record(at_a);
  c.wait(at_a);  // 4 and 5: one of them is needed, either would do
  c.wait(at_a);
  work(c);
  work(a);
  a.record(at_a);
  c.wait(at_a);  // 6: implied by 7, before anything is done
  work(a);
  a.record(at_a);
  c.wait(at_a);  // 7: needed
  work(c);
  c.wait(at_b);  // 8: implied by 2
  work(c);
  work(a);
  a.record(at_a);
  a.synchronize();
  b.wait(at_a);  // 9: the host has waited
  work(b);
  auto const& log = device.waits();
  REQUIRE(log.size() == 10);
  std::string implied;
  for (auto const& wait : log) implied += wait.implied ? 'i' : 'n';
  CHECK(implied == "niniiiinii");
  CHECK(log[2].waiting == 2);
  CHECK(log[2].recorded == 1);
}

TEST_CASE("a late address cannot be dereferenced, and work on memory given back ends the process") {
  LateDevice device;
  auto const buffer = device.allocate(64, "test");
  CHECK(zero_test::signal_of([&] { *reinterpret_cast<char volatile*>(buffer.address()) = 1; }) ==
        SIGSEGV);
  CHECK(zero_test::signal_of([] {
          LateDevice child;
          auto stream = child.stream();
          DeviceMemory<float, LateDevice> const memory(child, 64);
          stream.enqueue([view = memory.view()] { *LateDevice::resolve(view.address()) = 1; });
        }) == SIGABRT);
}

}  // namespace
