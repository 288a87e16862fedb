// SPDX-License-Identifier: Apache-2.0
// Launching ranks as threads.

#include <zero/launch/threads.hpp>

#include <doctest/doctest.h>
#include <support/death.hpp>
#include <support/device_memory.hpp>
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using zero::Host;
using zero::Where;
using zero_test::DeviceMemory;
using zero_test::GuardedDevice;
using zero_test::LateDevice;

static_assert(zero::Backend<zero::Threads>);
static_assert(zero::Backend<zero::ThreadsOn<LateDevice>>);
static_assert(zero::Backend<zero::ThreadsOn<GuardedDevice>>);

TEST_CASE_TEMPLATE("every rank runs once, on a thread and a device of its own", D, Host, LateDevice,
                   GuardedDevice) {
  for (int world : {1, 2, 3, 8}) {
    std::vector<int> runs(zero::at(world), 0);
    std::vector<std::thread::id> threads(zero::at(world));
    std::vector<void const*> devices(zero::at(world));
    zero::launch<zero::ThreadsOn<D>>(world, [&](auto communicator) {
      std::size_t const rank = zero::at(communicator.rank());
      CHECK(communicator.size() == world);
      ++runs[rank];
      threads[rank] = std::this_thread::get_id();
      devices[rank] = &communicator.device();
      // All are here at once, or addresses might repeat.
      auto stream = communicator.device().stream();
      DeviceMemory<float, D> memory(communicator.device(), stream,
                                    std::vector<float>(zero::at(world), 1.0f));
      auto claim = memory.claim(stream);
      communicator.all_reduce(claim.target(0, world), Where{"test", "u", 0});
      claim.end();
      stream.synchronize();
    });
    CHECK(runs == std::vector<int>(zero::at(world), 1));
    CHECK(std::set(threads.begin(), threads.end()).size() == zero::at(world));
    CHECK(std::set(devices.begin(), devices.end()).size() == zero::at(world));
    CHECK(std::set(threads.begin(), threads.end()).count(std::this_thread::get_id()) == 0);
  }
}

TEST_CASE("a world of no rank is refused, and nothing runs") {
  for (int ranks : {0, -1, -100}) {
    int runs = 0;
    std::string text;
    try {
      zero::launch<zero::Threads>(ranks, [&](auto) { ++runs; });
    } catch (zero::InvalidArgument const& e) {
      text = e.what();
    }
    CHECK(runs == 0);
    CHECK_MESSAGE(text.find(std::to_string(ranks)) != std::string::npos, text);
    CHECK(text.find("at least 1") != std::string::npos);
  }
}

TEST_CASE("a timeout that is no time is refused, and nothing runs") {
  for (int timeout : {0, -1}) {
    int runs = 0;
    CHECK_THROWS_AS(zero::launch<zero::Threads>(2, [&](auto) { ++runs; },
                                                {.timeout = std::chrono::milliseconds(timeout)}),
                    zero::InvalidArgument);
    CHECK(runs == 0);
  }
}

TEST_CASE("launch waits for all ranks, also where one fails") {
  std::atomic<int> ended{0};
  CHECK_THROWS_WITH_AS(
      zero::launch<zero::Threads>(4,
                                  [&](auto communicator) {
                                    if (communicator.rank() == 0)
                                      throw std::runtime_error("planted");
                                    std::this_thread::sleep_for(std::chrono::milliseconds(30));
                                    ++ended;
                                  }),
      "planted", std::runtime_error);
  CHECK(ended == 3);
}

TEST_CASE("the first of several failures is thrown") {
  std::string text;
  try {
    zero::launch<zero::Threads>(3, [&](auto communicator) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60 * (2 - communicator.rank())));
      throw std::runtime_error("rank " + std::to_string(communicator.rank()));
    });
  } catch (std::runtime_error const& e) {
    text = e.what();
  }
  CHECK(text == "rank 2");
}

TEST_CASE("the root cause is thrown, though others fail of it before it has unwound") {
  // What a trainer does: it aborts where the failure is, and the rank's stack unwinds afterwards.
  std::string text;
  try {
    zero::launch<zero::Threads>(3, [&](auto communicator) {
      if (communicator.rank() == 1) {
        communicator.abort("rank 1 failed: planted");
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        throw std::invalid_argument("planted");
      }
      auto stream = communicator.device().stream();
      DeviceMemory<float, Host> memory(communicator.device(), 3);
      auto claim = memory.claim(stream);
      communicator.all_reduce(claim.target(0, 3), Where{"test", "u", 0});
    });
  } catch (std::invalid_argument const& e) {
    text = e.what();
  } catch (zero::CommunicationError const& e) {
    text = std::string("only its consequence: ") + e.what();
  }
  CHECK(text == "planted");
}

TEST_CASE("a function that can only be moved or called as a reference is launched") {
  std::atomic<int> sum{0};
  zero::launch<zero::Threads>(3,
                              [&sum, held = std::make_unique<int>(5)](auto communicator) mutable {
                                sum += *held + communicator.rank();
                              });
  CHECK(sum == 18);
}

TEST_CASE("worlds may be launched by ranks of a world") {
  std::atomic<int> runs{0};
  zero::launch<zero::Threads>(2,
                              [&](auto) { zero::launch<zero::Threads>(3, [&](auto) { ++runs; }); });
  CHECK(runs == 6);
}

TEST_CASE("a device's memory is given back before launch returns") {
  std::shared_ptr<int> counted = std::make_shared<int>(0);
  zero::launch<zero::ThreadsOn<LateDevice>>(2, [counted](auto communicator) {
    auto stream = communicator.device().stream();
    stream.enqueue([counted] {});
  });
  CHECK(counted.use_count() == 1);
}

#if !ZERO_TESTS_SANITIZED  // whose own threads and memory a limit would hit
TEST_CASE("threads that the system refuses are an error, not the end of the process") {
  int const signal = zero_test::signal_of([] {
    rlimit const little{std::size_t{512} << 20, std::size_t{512} << 20};
    setrlimit(RLIMIT_AS, &little);
    try {
      // A stack is megabytes: these do not fit.
      zero::launch<zero::Threads>(2000, [](auto communicator) {
        auto stream = communicator.device().stream();
        DeviceMemory<float, Host> memory(communicator.device(), 2000);
        auto claim = memory.claim(stream);
        communicator.all_reduce(claim.target(0, 2000), Where{"test", "u", 0});
      });
    } catch (std::exception const&) {
      return;
    }
  });
  CHECK(signal == 0);
}

TEST_CASE(
    "a failure whose text does not fit into memory is thrown on its rank and ends the others") {
  struct Long : std::exception {
    explicit Long(char const* all) : text(all) {}
    char const* what() const noexcept override { return text; }
    char const* text;
  };
  int const signal = zero_test::signal_of([] {
    std::string const text(std::size_t{64} << 20, 'x');
    std::string heard;
    bool thrown = false;
    try {
      zero::launch<zero::Threads>(2, [&](auto communicator) {
        auto stream = communicator.device().stream();
        DeviceMemory<float, Host> memory(communicator.device(), 2);
        auto claim = memory.claim(stream);
        communicator.all_reduce(claim.target(0, 2), Where{"test", "u", 0});
        if (communicator.rank() == 1) {
          rlimit const little{std::size_t{1} << 20, std::size_t{1} << 20};
          setrlimit(RLIMIT_AS, &little);  // whatever is there stays, and no more comes
          throw Long(text.c_str());
        }
        try {
          communicator.all_reduce(claim.target(0, 2), Where{"test", "u", 1});
        } catch (zero::CommunicationError const& e) {
          heard = e.what();
        }
      });
    } catch (Long const&) {
      thrown = true;
    }
    if (!thrown || heard != "out of memory") std::abort();
  });
  CHECK(signal == 0);
}
#endif

}  // namespace
