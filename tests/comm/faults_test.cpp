// SPDX-License-Identifier: Apache-2.0
// A rank that does something else than the others makes all others throw, soon, with a text that
// says what happened where.

#include <comm/ranks.hpp>
#include <doctest/doctest.h>
#include <support/guarded_device.hpp>
#include <support/late_device.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace {

using zero::Host;
using zero::Where;
using zero_test::all_gather;
using zero_test::all_reduce;
using zero_test::GuardedDevice;
using zero_test::lacks;
using zero_test::LateDevice;
using zero_test::Outcome;
using zero_test::outcomes;
using zero_test::Outcomes;

constexpr std::chrono::milliseconds soon{300};
constexpr std::chrono::seconds long_time{60};
// No bound is about speed: a loaded machine and a sanitizer must fit in, a hang must not.
constexpr double seconds_at_most = 20;

constexpr Where gather_a{"gather", "h.0", 12};
constexpr Where gather_b{"gather", "h.1", 12};

/// Every rank but `culprit` has thrown the same CommunicationError with these parts, in time, and
/// launch has thrown it on.
void check_all_named(Outcomes const& result, int culprit, std::vector<std::string> const& parts) {
  for (int rank = 0; rank < static_cast<int>(result.ranks.size()); ++rank) {
    Outcome const& outcome = result[rank];
    CHECK(outcome.seconds < seconds_at_most);
    if (rank == culprit) continue;
    CAPTURE(rank);
    CHECK(outcome.communication);
    CHECK(lacks(outcome.error, parts) == "");
    CHECK(outcome.error == result[culprit == 0 ? 1 : 0].error);
  }
}

TEST_CASE_TEMPLATE("a rank that throws: all others throw its text, and launch what it threw", D,
                   Host, LateDevice, GuardedDevice) {
  Outcomes const result = outcomes<D>(4, long_time, [](auto& communicator, auto& stream) {
    all_reduce(communicator, stream, 64, gather_a);
    if (communicator.rank() == 2) throw std::invalid_argument("planted");
    all_reduce(communicator, stream, 64, gather_b);
  });
  check_all_named(result, 2, {"rank 2 failed: planted"});
  CHECK(result[2].error == "planted");
  CHECK(result.rethrown == "planted");
  CHECK(!result.communication);
}

TEST_CASE("what a rank throws keeps its type, whatever it is") {
  struct Odd {
    int number;
  };
  std::vector<std::string> texts(2);
  int caught = 0;
  try {
    zero::launch<zero::Threads>(2, [&](auto communicator) {
      if (communicator.rank() == 1) throw Odd{5};
      auto stream = communicator.device().stream();
      try {
        all_reduce(communicator, stream, 64, gather_a);
      } catch (zero::CommunicationError const& e) {
        texts[0] = e.what();
        throw;
      }
    });
  } catch (Odd const& odd) {
    caught = odd.number;
  }
  CHECK(caught == 5);
  CHECK(lacks(texts[0], {"rank 1 failed"}) == "");
}

TEST_CASE_TEMPLATE("work that throws on one rank ends all", D, Host, LateDevice, GuardedDevice) {
  Outcomes const result = outcomes<D>(3, long_time, [](auto& communicator, auto& stream) {
    if (communicator.rank() == 1) stream.enqueue([] { throw std::runtime_error("planted"); });
    all_reduce(communicator, stream, 64, gather_a);
  });
  check_all_named(result, 1, {"rank 1 failed: planted"});
  CHECK(result.rethrown == "planted");
}

TEST_CASE_TEMPLATE("a rank that returns early is named by all others at once", D, Host, LateDevice,
                   GuardedDevice) {
  Outcomes const result = outcomes<D>(3, long_time, [](auto& communicator, auto& stream) {
    all_gather(communicator, stream, 64, gather_a);
    if (communicator.rank() == 0) return;
    all_gather(communicator, stream, 64, gather_b);
  });
  check_all_named(result, 0,
                  {"rank 0 (has ended)", "all_gather", "unit 'h.1'", "gather", "step 12"});
  CHECK(result[0].error == "");
  CHECK(result.communication);
  CHECK(result.rethrown == result[1].error);
}

TEST_CASE_TEMPLATE("several ranks that stall are all named, and nobody else", D, Host, LateDevice) {
  Outcomes const result = outcomes<D>(5, soon, [](auto& communicator, auto& stream) {
    if (communicator.rank() % 2 == 1) std::this_thread::sleep_for(3 * soon);
    all_gather(communicator, stream, 64, gather_a);
  });
  for (int rank = 0; rank < 5; ++rank) {
    std::string const& error = result[rank].error;
    CHECK(result[rank].communication);
    CHECK(lacks(error, {"rank 1, rank 3, which did not come"}) == "");
  }
}

TEST_CASE_TEMPLATE("another collective: both sides are named", D, Host, LateDevice, GuardedDevice) {
  Outcomes const result = outcomes<D>(3, long_time, [](auto& communicator, auto& stream) {
    if (communicator.rank() == 2) {
      all_reduce(communicator, stream, 64, gather_a);
    } else {
      all_gather(communicator, stream, 64, gather_a);
    }
  });
  check_all_named(result, -1, {"rank 0", "all_gather", "rank 2", "all_reduce", "h.0"});
  CHECK(result.communication);
  CHECK(lacks(result.rethrown, {"all_gather", "all_reduce"}) == "");
}

TEST_CASE_TEMPLATE("another size: both sides are named", D, Host, LateDevice, GuardedDevice) {
  Outcomes const result = outcomes<D>(3, long_time, [](auto& communicator, auto& stream) {
    all_gather(communicator, stream, communicator.rank() == 1 ? 128 : 64, gather_a);
  });
  check_all_named(result, -1, {"rank 0", " 64 ", "rank 1", " 128 ", "h.0", "step 12"});
}

TEST_CASE_TEMPLATE("another type of the same operation: both sides are named", D, Host,
                   LateDevice) {
  Outcomes const result = outcomes<D>(2, long_time, [](auto& communicator, auto& stream) {
    if (communicator.rank() == 0) return all_reduce(communicator, stream, 64, gather_a);
    zero_test::DeviceMemory<zero::bf16, D> memory(communicator.device(), stream,
                                                  std::vector<zero::bf16>(128));
    auto claim = memory.claim(stream);
    communicator.all_reduce(claim.target(0, 128), gather_a);
    claim.end();
    stream.synchronize();
  });
  check_all_named(result, -1, {"rank 0", "x 4 bytes", "rank 1", "x 2 bytes"});
}

TEST_CASE_TEMPLATE("another unit of the same size: both sides are named", D, Host, LateDevice,
                   GuardedDevice) {
  Outcomes const result = outcomes<D>(3, long_time, [](auto& communicator, auto& stream) {
    all_gather(communicator, stream, 64, communicator.rank() == 1 ? gather_b : gather_a);
  });
  check_all_named(result, -1, {"rank 0", "'h.0'", "rank 1", "'h.1'", "all_gather"});
}

TEST_CASE_TEMPLATE(
    "another step, phase or count of micro-batches of the same unit: both sides are named", D, Host,
    LateDevice) {
  Outcomes const step = outcomes<D>(2, long_time, [](auto& communicator, auto& stream) {
    all_gather(communicator, stream, 64, Where{"gather", "h.0", 12 + communicator.rank()});
  });
  check_all_named(step, -1, {"rank 0", "step 12", "rank 1", "step 13"});
  Outcomes const phase = outcomes<D>(2, long_time, [](auto& communicator, auto& stream) {
    all_gather(communicator, stream, 64,
               Where{communicator.rank() == 0 ? "gather" : "publish", "h.0", 12});
  });
  check_all_named(phase, -1, {"rank 0", "gather", "rank 1", "publish"});
  Outcomes const count = outcomes<D>(2, long_time, [](auto& communicator, auto& stream) {
    all_gather(communicator, stream, 64, Where{"gather", "h.0", 12, 1 + communicator.rank()});
  });
  check_all_named(count, -1, {"rank 0", "rank 1", "2 micro-batches"});
}

TEST_CASE_TEMPLATE("another channel: after the timeout all say where the missing rank is", D, Host,
                   LateDevice) {
  Outcomes const result = outcomes<D>(3, soon, [](auto& communicator, auto& stream) {
    bool const strays = communicator.rank() == 2;
    all_gather(communicator, stream, 64, strays ? gather_b : gather_a, strays ? 2 : 1);
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(result[rank].communication);
    CHECK(lacks(result[rank].error, {"'h.0'", "'h.1'", "within 300 ms"}) == "");
    CHECK(result[rank].seconds < seconds_at_most);
    CHECK(result[rank].error == result.rethrown);
  }
}

TEST_CASE_TEMPLATE("a rank that stalls is named after the timeout, and fails when it comes", D,
                   Host, LateDevice, GuardedDevice) {
  Outcomes const result = outcomes<D>(3, soon, [](auto& communicator, auto& stream) {
    all_gather(communicator, stream, 64, gather_a);
    if (communicator.rank() == 1) std::this_thread::sleep_for(3 * soon);
    all_gather(communicator, stream, 64, gather_b);
  });
  check_all_named(result, -1, {"rank 1", "'h.1'", "all_gather", "step 12", "within 300 ms"});
  CHECK(result[0].seconds > 0.29);
  CHECK(result[0].seconds < result[1].seconds);
}

TEST_CASE_TEMPLATE("the first failure stays: whoever comes later throws its text", D, Host,
                   LateDevice) {
  Outcomes const result = outcomes<D>(2, long_time, [](auto& communicator, auto& stream) {
    communicator.abort("the first");
    communicator.abort("the second");
    all_gather(communicator, stream, 64, gather_a);
  });
  check_all_named(result, -1, {"the first"});
}

TEST_CASE_TEMPLATE("after a failure every further collective throws the same", D, Host,
                   LateDevice) {
  std::vector<std::string> again(2);
  Outcomes const result = outcomes<D>(2, long_time, [&](auto& communicator, auto& stream) {
    int const rank = communicator.rank();
    try {
      all_gather(communicator, stream, 64 * (1 + rank), gather_a);
    } catch (zero::CommunicationError const&) {
    }
    auto fresh = communicator.device().stream();
    try {
      all_gather(communicator, fresh, 64, gather_b, 3);
    } catch (zero::CommunicationError const& e) {
      again[zero::at(rank)] = e.what();
    }
  });
  CHECK(again[0] == again[1]);
  CHECK(lacks(again[0], {"64", "128", "'h.0'"}) == "");
}

TEST_CASE_TEMPLATE("ranks that finish need nobody: a late failure is launch's alone", D, Host,
                   LateDevice) {
  Outcomes const result = outcomes<D>(3, long_time, [](auto& communicator, auto& stream) {
    all_gather(communicator, stream, 64, gather_a);
    if (communicator.rank() == 1) throw std::runtime_error("planted");
  });
  CHECK(result[0].error == "");
  CHECK(result[2].error == "");
  CHECK(result.rethrown == "planted");
}

TEST_CASE_TEMPLATE("worlds fail apart", D, Host, LateDevice) {
  Outcomes good;
  std::thread beside([&] {
    good = outcomes<D>(2, long_time, [](auto& communicator, auto& stream) {
      for (int i = 0; i < 50; ++i) all_gather(communicator, stream, 64, gather_a);
    });
  });
  Outcomes const bad = outcomes<D>(2, long_time, [](auto& communicator, auto& stream) {
    if (communicator.rank() == 0) throw std::runtime_error("planted");
    all_gather(communicator, stream, 64, gather_a);
  });
  beside.join();
  CHECK(bad.rethrown == "planted");
  CHECK(good.rethrown == "");
}

}  // namespace
