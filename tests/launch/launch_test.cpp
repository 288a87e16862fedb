// SPDX-License-Identifier: Apache-2.0
#include <zero/comm/single_rank.hpp>
#include <zero/launch/launch.hpp>
#include <zero/launch/threads.hpp>

#include <doctest/doctest.h>
#include <launch/environments.hpp>

#include <atomic>

namespace {

using namespace environments;

/// A communicator that claims a place, and a backend that joins such a world.
struct Claimed : zero::SingleRank<> {
  int claimed_rank = 0;
  int claimed_size = 1;
  int rank() const { return claimed_rank; }
  int size() const { return claimed_size; }
  Claimed channel(int) const { return *this; }
};
struct Joining {
  using Communicator = Claimed;
  struct World {
    Claimed claimed;
    int rank() const { return claimed.rank(); }
    int size() const { return claimed.size(); }
    template <class F>
    void run(F& f) {
      f(claimed);
    }
  };
  static World from(zero::Environment const& environment, zero::LaunchOptions const&) {
    World world;
    world.claimed.claimed_rank = *environment.number("SEEN_RANK", 0, 100);
    world.claimed.claimed_size = *environment.number("SEEN_SIZE", 0, 100);
    return world;
  }
  template <class F>
  static void run(int ranks, F& f, zero::LaunchOptions const& options) {
    zero::Threads::run(ranks, f, options);
  }
};
static_assert(zero::JoinsProcesses<Joining> && !zero::JoinsProcesses<zero::Threads>);

/// Calls on this process, and the size that each saw.
template <class Backend>
std::pair<int, int> calls(Variables variables, int ranks = 3) {
  std::atomic<int> count = 0;
  std::atomic<int> size = 0;
  zero::launch<Backend>(
      ranks,
      [&](auto communicator) {
        ++count;
        size = communicator.size();
      },
      {}, zero::Environment(std::move(variables)));
  return {count.load(), size.load()};
}

std::string refusal(auto f) {
  try {
    f();
  } catch (zero::InvalidArgument const& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("Without a launcher the ranks are threads, whatever the backend") {
  CHECK(calls<zero::Threads>({}) == std::pair(3, 3));
  CHECK(calls<Joining>({}) == std::pair(3, 3));
  CHECK(calls<Joining>(batch_script(4)) == std::pair(3, 3));
}

TEST_CASE("A launcher that has started one rank leaves the ranks to the program") {
  CHECK(calls<zero::Threads>(open_mpi(0, 1)) == std::pair(3, 3));
  CHECK(calls<Joining>(torchrun(0, 1, 1)) == std::pair(3, 3));
}

TEST_CASE("Under a launcher of several ranks its world counts") {
  CHECK(calls<Joining>(with(open_mpi(2, 4), {{"SEEN_RANK", "2"}, {"SEEN_SIZE", "4"}}), 7) ==
        std::pair(1, 4));
}

TEST_CASE("R01 threads under a launcher of several ranks are refused with the variables named") {
  std::string const text = refusal([] { calls<zero::Threads>(open_mpi(2, 4)); });
  CAPTURE(text);
  for (std::string const part : {"mpirun of Open MPI", "rank 2 of 4", "OMPI_COMM_WORLD_RANK=\"2\"",
                                 "OMPI_COMM_WORLD_SIZE=\"4\"", "inside one process"}) {
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("R01 a backend that sees another world than the environment is refused") {
  for (auto const& [rank, size] : {std::pair("0", "1"), std::pair("1", "4"), std::pair("2", "3")}) {
    std::string const text = refusal([&] {
      calls<Joining>(with(torchrun(2, 4, 1), {{"SEEN_RANK", rank}, {"SEEN_SIZE", size}}));
    });
    CAPTURE(text);
    std::string const seen = std::string("is rank ") + rank + " of " + size;
    for (std::string const& part :
         {std::string("RANK=\"2\""), std::string("WORLD_SIZE=\"4\""), seen}) {
      CHECK(text.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("A launch refuses worlds without ranks, and what find_place refuses") {
  CHECK(refusal([] { calls<zero::Threads>({}, 0); }).find("at least 1 rank") != std::string::npos);
  CHECK(refusal([] {
          calls<zero::Threads>({{"RANK", "x"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}});
        }).find("RANK=\"x\"") != std::string::npos);
}
