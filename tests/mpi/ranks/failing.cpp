// SPDX-License-Identifier: Apache-2.0
// Rank 1 goes wrong in step 3: what the others say of it, and how all end, is failing.sh's
// business.
#include <mpi/ranks/training.hpp>
#include <netinet/in.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

namespace ranks {

namespace {

using namespace std::chrono_literals;

/// Trains at a stage on the processes of the launcher, with the time limits of failing.sh.
void train(std::string const& stage, Training const& training) {
  zero::LaunchOptions const options{.timeout = 2s, .grace = 1s};
  auto world = zero::Mpi::from(zero::Environment::of_process(), options);
  auto const on_rank = [&](Ranks communicator) {
    auto const at_stage = stage == "0"   ? trace_at<0>
                          : stage == "1" ? trace_at<1>
                          : stage == "2" ? trace_at<2>
                                         : trace_at<3>;
    at_stage(communicator, training);
  };
  world.run(on_rank);
}

/// The scenario: rank 1 does `wrong` before its third step.
template <class Wrong>
void before_third_step(Arguments const& arguments, Wrong wrong) {
  Training training{.steps = 4};
  training.before_step = [&](int rank, int step) {
    if (rank == 1 && step == 2) wrong();
  };
  train(arguments.at(0), training);
}
/// The scenario: rank 1 does something in the third step.
template <class Alter>
void in_third_step(Arguments const& arguments, Alter alter) {
  Training training{.steps = 4};
  training.alter = [&](zero_test::Batch const& batch, zero_test::Script& script) {
    if (batch.rank == 1 && batch.step == 2) alter(script);
  };
  train(arguments.at(0), training);
}

Add const model_throws("model-throws", [](Arguments const& a) {
  in_third_step(a, [](zero_test::Script& script) { script.throws_at = 4; });
});
Add const loop_throws("loop-throws", [](Arguments const& a) {
  before_third_step(a, [] { throw std::runtime_error("the data is gone"); });
});
Add const loop_throws_no_exception("loop-throws-a-number", [](Arguments const& a) {
  before_third_step(a, [] { throw 5; });
});
Add const another_visit("another-visit", [](Arguments const& a) {
  in_third_step(a, [](zero_test::Script& script) { script.extra = {4}; });
});
Add const no_step("no-step", [](Arguments const& a) {
  before_third_step(a, [] { std::this_thread::sleep_for(6s); });
});
Add const late("late", [](Arguments const& a) {
  before_third_step(a, [] { std::this_thread::sleep_for(1s); });
});
Add const stops("stops",
                [](Arguments const& a) { before_third_step(a, [] { std::raise(SIGSTOP); }); });
Add const killed("is-killed",
                 [](Arguments const& a) { before_third_step(a, [] { std::raise(SIGKILL); }); });
Add const exits("exits", [](Arguments const& a) { before_third_step(a, [] { std::exit(0); }); });

/// Uneven data: rank 1 has two batches, the others four. It goes on to what follows the loop, or
/// returns.
void uneven(Arguments const& arguments, bool returns) {
  zero::LaunchOptions const options{.timeout = 2s, .grace = 1s};
  auto world = zero::Mpi::from(zero::Environment::of_process(), options);
  auto const on_rank = [&](Ranks communicator) {
    bool const short_of_data = communicator.rank() == 1;
    Training const training{.steps = short_of_data ? 2 : 4, .returns = short_of_data && returns};
    (arguments.at(0) == "0" ? trace_at<0> : trace_at<3>)(communicator, training);
  };
  world.run(on_rank);
}
/// Rank 1 comes to the second world of the program long after the others have given it up.
Add const joins_late("joins-late", [](Arguments const&) {
  for (bool second : {false, true}) {
    zero::LaunchOptions const options{.timeout = 2s, .grace = 1s};
    zero::Environment const here = zero::Environment::of_process();
    if (second && zero::find_place(here)->rank == 1) std::this_thread::sleep_for(6s);
    auto world = zero::Mpi::from(here, options);
    auto const on_rank = [](Ranks communicator) { zero::agree(communicator, true); };
    world.run(on_rank);
  }
});
Add const runs_out("runs-out", [](Arguments const& a) { uneven(a, false); });
Add const returns("returns", [](Arguments const& a) { uneven(a, true); });

/// Uneven data, and an agreement before each step.
Add const agrees("agrees", [](Arguments const&) {
  zero::launch<zero::Mpi>(2, [](auto communicator) {
    zero::Agreement agreement{communicator};
    int const mine = communicator.rank() == 1 ? 2 : 4;
    int made = 0;
    while (agreement.all(made < mine)) ++made;
    demand(made == 2, "all stop after the batches of the one that has fewest");
    demand(agreement.least(mine) == 2, "the fewest batches");
    demand(agreement.any(communicator.rank() == 1), "one is enough");
  });
});

/// Rank 1 was built differently.
Add const differs("differs", [](Arguments const& a) {
  zero::LaunchOptions const options{.timeout = 2s, .grace = 1s};
  auto world = zero::Mpi::from(zero::Environment::of_process(), options);
  bool const other = world.rank() == 1;
  std::string const in = a.at(0);
  Training training;
  if (other && in == "clip") training.options.clip = 7;
  if (other && in == "seed") training.options.seed = 7;
  if (other && in == "prefetch") training.options.prefetch = 3;
  if (other && in == "layout") training.model.units[4].tensors[1].shape = {2};
  if (other && in == "schedule") {
    training.model.schedule.front().held = 1;
    training.options.prefetch = 1;
  }
  auto const on_rank = [&](Ranks communicator) {
    (other && in == "policy" ? trace_at<2> : trace_at<3>)(communicator, training);
  };
  world.run(on_rank);
});

/// Takes a free port, writes its number to a file and keeps it for a minute.
Add const listens("listens", [](Arguments const& a) {
  int const listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  socklen_t size = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  demand(listener >= 0 && ::bind(listener, any, size) == 0 && ::listen(listener, 1) == 0 &&
             ::getsockname(listener, any, &size) == 0,
         "no port to listen on");
  std::ofstream(a.at(0)) << ntohs(address.sin_port) << std::endl;
  std::this_thread::sleep_for(60s);
});

}  // namespace

}  // namespace ranks
