// SPDX-License-Identifier: Apache-2.0
// The meeting place of a world of threads, without devices.

#include <zero/core/meeting.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace {

using zero::Index;
using zero::Meeting;
using zero::Post;

constexpr std::chrono::seconds long_time{60};

Post post(std::string_view unit = "h.0", Index elements = 64) {
  return {.operation = "all_gather",
          .slice_elements = elements,
          .element_bytes = 4,
          .where = {"gather", unit, 12}};
}

/// Runs f(rank) on `world` threads and returns what each threw, "" where it returned.
template <class F>
std::vector<std::string> on_threads(int world, F f) {
  std::vector<std::string> errors(zero::at(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        f(rank);
      } catch (zero::CommunicationError const& e) {
        errors[zero::at(rank)] = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST_CASE("every rank sees all posts in rank order while all are there") {
  int const world = 4;
  Meeting meeting(world, long_time);
  std::vector<int> values(world, 0);
  std::vector<int> sums(world, 0);
  auto const errors = on_threads(world, [&](int rank) {
    for (int i = 0; i < 200; ++i) {
      values[zero::at(rank)] = rank + i;
      Post mine = post();
      mine.input = &values[zero::at(rank)];
      meeting.meet(rank, 1, mine, [&](std::vector<Post> const& posts) {
        for (std::size_t q = 0; q < posts.size(); ++q) {
          int const value = *static_cast<int const*>(posts[q].input);
          sums[zero::at(rank)] += value == static_cast<int>(q) + i ? value : -1000000;
        }
      });
    }
  });
  for (auto const& error : errors) CHECK(error == "");
  for (int sum : sums) CHECK(sum == 200 * (0 + 1 + 2 + 3) + world * (199 * 200 / 2));
}

TEST_CASE("one rank meets itself") {
  Meeting meeting(1, long_time);
  int parts = 0;
  for (int channel = 0; channel < Meeting::num_channels; ++channel)
    meeting.meet(0, channel, post(), [&](std::vector<Post> const&) { ++parts; });
  CHECK(parts == Meeting::num_channels);
}

TEST_CASE("nobody leaves while another still works on his memory, though all have been aborted") {
  Meeting meeting(2, long_time);
  std::atomic<bool> inside{false};
  std::atomic<bool> done{false};
  std::atomic<bool> left_early{false};
  std::thread aborts([&] {
    inside.wait(false);
    meeting.abort("planted");
  });
  on_threads(2, [&](int rank) {
    try {
      meeting.meet(rank, 0, post(), [&](std::vector<Post> const&) {
        if (rank == 0) return;
        inside = true;
        inside.notify_all();
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        done = true;
      });
    } catch (zero::CommunicationError const&) {
    }
    if (rank == 0) left_early = !done;
  });
  aborts.join();
  CHECK(!left_early);
}

TEST_CASE("nobody leaves while another still works on his memory, however long that takes") {
  Meeting meeting(2, std::chrono::milliseconds(30));
  std::atomic<bool> done{false};
  std::atomic<bool> left_early{false};
  auto const errors = on_threads(2, [&](int rank) {
    try {
      meeting.meet(rank, 0, post(), [&](std::vector<Post> const&) {
        if (rank == 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        done = true;
      });
    } catch (zero::CommunicationError const&) {
      left_early = left_early || !done;
      throw;
    }
    left_early = left_early || !done;
  });
  CHECK(!left_early);
  for (auto const& error : errors) CHECK(error == "");
}

TEST_CASE("the text names who has ended, and not who is merely late") {
  Meeting meeting(4, long_time);
  meeting.end(1);
  meeting.end(3);
  auto const errors = on_threads(
      1, [&](int rank) { meeting.meet(rank, 0, post(), [](std::vector<Post> const&) {}); });
  CHECK(errors[0].find("rank 1 (has ended)") != std::string::npos);
  CHECK(errors[0].find("rank 3 (has ended)") != std::string::npos);
  CHECK_MESSAGE(errors[0].find("rank 2") == std::string::npos, errors[0]);
}

TEST_CASE("the text of a missing rank says where it is instead, channel included") {
  Meeting meeting(2, std::chrono::milliseconds(100));
  auto const errors = on_threads(2, [&](int rank) {
    meeting.meet(rank, rank == 0 ? 1 : 2, post(), [](std::vector<Post> const&) {});
  });
  CHECK(errors[0] == errors[1]);
  CHECK_MESSAGE(errors[0].find("channel 1") != std::string::npos, errors[0]);
  CHECK_MESSAGE(errors[0].find("channel 2") != std::string::npos, errors[0]);
}

TEST_CASE("the longest timeout there is does not pass at once") {
  Meeting meeting(2, std::chrono::milliseconds::max());
  auto const errors = on_threads(2, [&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    meeting.meet(rank, 0, post(), [](std::vector<Post> const&) {});
  });
  for (auto const& error : errors) CHECK(error == "");
}

TEST_CASE("an abort reaches ranks that wait and ranks that come later") {
  Meeting meeting(3, long_time);
  auto const start = std::chrono::steady_clock::now();
  auto const errors = on_threads(3, [&](int rank) {
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      meeting.abort("planted");
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    meeting.meet(rank, 0, post(), [](std::vector<Post> const&) {});
  });
  for (auto const& error : errors) CHECK(error == "planted");
  CHECK(std::chrono::steady_clock::now() - start < long_time / 3);
}

TEST_CASE("an aborted text that is empty is a failure all the same") {
  Meeting meeting(2, long_time);
  meeting.abort("");
  CHECK_THROWS_AS(meeting.meet(0, 0, post(), [](std::vector<Post> const&) {}),
                  zero::CommunicationError);
}

TEST_CASE("channels meet at the same time, each in an order of its own") {
  Meeting meeting(2, long_time);
  std::atomic<int> parts{0};
  auto const errors = on_threads(4, [&](int thread) {
    int const rank = thread % 2;
    int const channel = thread / 2;
    for (Index i = 0; i < 300; ++i) {
      meeting.meet(rank, channel, post("u", channel + 10 * i),
                   [&](std::vector<Post> const&) { ++parts; });
    }
  });
  for (auto const& error : errors) CHECK(error == "");
  CHECK(parts == 4 * 300);
}

}  // namespace
