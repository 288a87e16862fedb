// SPDX-License-Identifier: Apache-2.0
#include <zero/device/slot.hpp>
#include <zero/mpi/polling_host.hpp>
#include <zero/optim/adamw.hpp>

#include <doctest/doctest.h>
#include <support/heap.hpp>

#include <array>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using zero::Index;
using zero::PollingHost;

/// Work that is finished after a number of looks, or when it is let go.
struct Gate {
  int looks = 0;
  bool open = false;
  bool waited = false;
};

auto behind(Gate& gate) {
  return [&gate](bool waiting) {
    ++gate.looks;
    gate.waited = gate.waited || waiting;
    return gate.open;
  };
}

}  // namespace

TEST_CASE("Work runs where it is enqueued while nothing is unfinished") {
  PollingHost device;
  auto stream = device.stream();
  int ran = 0;
  stream.enqueue([&] { ++ran; });
  CHECK(ran == 1);
  CHECK_THROWS_WITH(stream.enqueue([] { throw std::runtime_error("here"); }), "here");
  stream.enqueue([&] { ++ran; });
  CHECK(ran == 2);
  stream.enqueue_polled([&](bool) { return ++ran > 2; });
  CHECK(ran == 3);
}

TEST_CASE("Work behind unfinished work waits for it, in order") {
  PollingHost device;
  auto stream = device.stream();
  Gate gate;
  std::string order;
  stream.enqueue_polled(behind(gate));
  stream.enqueue([&] { order += 'a'; });
  stream.enqueue([&] { order += 'b'; });
  CHECK(order.empty());
  gate.open = true;
  stream.enqueue([&] { order += 'c'; });
  CHECK(order == "abc");
  CHECK(!gate.waited);
}

TEST_CASE("Whatever is enqueued anywhere looks after what is unfinished") {
  PollingHost device;
  auto transfers = device.stream();
  auto compute = device.stream();
  Gate gate;
  transfers.enqueue_polled(behind(gate));
  int const before = gate.looks;
  for (int i = 0; i < 5; ++i) compute.enqueue([] {});
  CHECK(gate.looks == before + 5);
  gate.open = true;
  transfers.synchronize();
}

TEST_CASE("Waiting for an event finishes what was recorded and leaves the rest") {
  PollingHost device;
  auto transfers = device.stream();
  auto compute = device.stream();
  Gate first{.open = false};
  Gate second;
  transfers.enqueue_polled(
      [&](bool waiting) { return behind(first)(waiting) || first.looks > 50; });
  auto event = device.event();
  compute.wait(event);  // never recorded: complete
  transfers.record(event);
  transfers.enqueue_polled(behind(second));
  compute.wait(event);
  CHECK(first.looks == 51);
  CHECK(first.waited);
  CHECK(!second.open);
  compute.wait(event);  // still complete
  second.open = true;
  transfers.synchronize();
}

TEST_CASE("A claim's elements may be read at once, though they come from an unfinished transfer") {
  PollingHost device;
  auto transfers = device.stream();
  auto compute = device.stream();
  auto buffer = device.allocate(256, "x");
  zero::Slot<PollingHost> slot(buffer.address(), 256, device.event());
  {
    auto claim = slot.on<float>(transfers);
    int looks = 0;
    transfers.enqueue_polled([to = claim.view(0, 64), looks](bool) mutable {
      if (++looks < 20) return false;
      for (float& x : std::span<float>(to)) x = 3;
      return true;
    });
  }
  auto claim = slot.on<float>(compute);
  auto const values = claim.view(0, 64).span();
  for (float x : values) CHECK(x == 3);
}

TEST_CASE("A failure of unfinished work is thrown by the next call on any stream, and again") {
  PollingHost device;
  auto transfers = device.stream();
  auto compute = device.stream();
  Gate gate;
  int later = 0;
  transfers.enqueue_polled([&](bool) -> bool {
    if (!gate.open) return false;
    throw std::runtime_error("lost");
  });
  transfers.enqueue([&] { ++later; });
  gate.open = true;
  CHECK_THROWS_WITH(compute.enqueue([&] { ++later; }), "lost");
  CHECK_THROWS_WITH(compute.enqueue([&] { ++later; }), "lost");
  CHECK_THROWS_WITH(transfers.synchronize(), "lost");
  CHECK_THROWS_WITH(compute.check(), "lost");
  CHECK_THROWS_WITH(compute.wait(device.event()), "lost");
  CHECK(later == 0);
}

TEST_CASE("Memory that is given back during a transfer stays until the transfer is over") {
  PollingHost device;
  Gate gate;
  std::byte* address = nullptr;
  auto transfers = device.stream();
  {
    auto buffer = device.allocate(1 << 20, "x");
    address = buffer.address();
    transfers.enqueue_polled([&](bool) {
      if (gate.open) *address = std::byte{7};  // a sanitizer would see it
      return gate.open;
    });
  }
  CHECK(device.ledger().bytes() == 1 << 20);
  gate.open = true;
  transfers.synchronize();
  CHECK(device.ledger().bytes() == 0);
}

TEST_CASE("A stream that ends finishes its work, except while an exception unwinds") {
  PollingHost device;
  int looks = 0;
  int done = 0;
  {
    auto stream = device.stream();
    stream.enqueue_polled([&](bool) { return ++looks > 30; });
    stream.enqueue([&] { ++done; });
  }
  CHECK(done == 1);
  Gate gate;
  try {
    auto stream = device.stream();
    stream.enqueue_polled(behind(gate));
    stream.enqueue([&] { ++done; });
    throw std::runtime_error("model");
  } catch (std::runtime_error const&) {
  }
  gate.open = true;
  auto stream = device.stream();
  stream.enqueue([] {});
  CHECK(done == 1);
}

TEST_CASE("What a stream left unfinished while an exception unwound is not waited for") {
  PollingHost device;
  Gate gate;
  PollingHost::Event event;
  try {
    auto stream = device.stream();
    stream.enqueue_polled(behind(gate));
    stream.record(event);
    throw std::runtime_error("model");
  } catch (std::runtime_error const&) {
  }
  auto stream = device.stream();
  CHECK_THROWS_WITH_AS(stream.wait(event),
                       "what is waited for was left unfinished by a stream that ended while an "
                       "exception unwound",
                       zero::Error);
  gate.open = true;
}

TEST_CASE("Large work, many pieces, streams in turn") {
  PollingHost device;
  std::array<char, 4000> large{};
  large[3999] = 5;
  int sum = 0;
  for (int round = 0; round < 3; ++round) {
    auto stream = device.stream();
    Gate gate;
    stream.enqueue_polled(behind(gate));
    for (int i = 0; i < 100; ++i) stream.enqueue([large, &sum] { sum += large[3999]; });
    gate.open = true;
    auto moved = std::move(stream);
    moved.synchronize();
    CHECK(sum == 500 * (round + 1));
  }
}

TEST_CASE("A queue that has reached its length allocates no more") {
  PollingHost device;
  auto stream = device.stream();
  std::array<char, 300> state{};
  auto const round = [&] {
    Gate gate;
    stream.enqueue_polled(behind(gate));
    for (int i = 0; i < 20; ++i) stream.enqueue([state] { static_cast<void>(state); });
    gate.open = true;
    stream.synchronize();
  };
  round();
  Index const before = heap::requested_bytes();
  for (int i = 0; i < 10; ++i) round();
  CHECK(heap::requested_bytes() == before);
}

TEST_CASE("An update that threads of the device share has the bits of one") {
  // Several parts for each of seven threads, the last one cut.
  Index const n = 100'032;
  using Row = std::vector<float>;
  auto const trained = [n](int threads) {
    PollingHost device = PollingHost::with_threads(threads);
    auto stream = device.stream();
    Row weights, gradients, states(2 * static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) {
      weights.push_back(static_cast<float>(i % 1000) * 0.01f - 5);
      gradients.push_back(static_cast<float>(i % 777) * 0.01f - 4);
    }
    zero::AdamW const optimizer{.weight_decay = 0.3f};
    zero::Segment const segment{0, n, 0, 0, 1, 1};
    zero::Decision decision;
    decision.learning_rate = 1e-2f;
    for (decision.updates = 1; decision.updates <= 3; ++decision.updates) {
      zero::update(stream, zero::Update<zero::AdamW, float, float, PollingHost>{
                               optimizer,
                               zero::View<float const, PollingHost>(gradients.data(), n),
                               zero::View<float, PollingHost>(weights.data(), n),
                               zero::View<float, PollingHost>(states.data(), 2 * n),
                               {},
                               zero::View<zero::Segment const, PollingHost>(&segment, 1),
                               zero::View<zero::Decision const, PollingHost>(&decision, 1)});
    }
    stream.synchronize();
    return std::pair{weights, states};
  };
  auto const alone = trained(1);
  for (int threads : {2, 3, 7}) {
    CAPTURE(threads);
    CHECK(trained(threads) == alone);
  }
}
