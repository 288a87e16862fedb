// SPDX-License-Identifier: Apache-2.0
#pragma once
// The test model trained over MPI and over threads: everything that a rank has after each step.

#include <zero/launch/agree.hpp>
#include <zero/mpi/backend.hpp>
#include <zero/report/slices.hpp>
#include <zero/zero.hpp>

#include <mpi/ranks/scenario.hpp>
#include <support/test_model.hpp>

#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace ranks {

using zero::Index;

struct Training {
  zero_test::ModelSpec model = zero_test::everything();
  zero::Options options{};
  bool bf16 = false;
  bool delays = false;  ///< ranks are late now and then
  int steps = 3;
  bool returns = false;  ///< after its steps, without the hash and the mean loss
  std::function<void(int rank, int step)> before_step{};
  std::function<void(zero_test::Batch const&, zero_test::Script&)> alter{};
};

/// Hashes and numbers of one rank, in order.
using Trace = std::vector<std::uint64_t>;

template <class T>
std::uint64_t bits(T x) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<std::uint64_t>(x);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<std::uint32_t>(x);
  } else {
    return x.bits;
  }
}

/// Trains on this rank and notes losses, decisions, weights and states of every step.
template <class Sharding, class Precision, class C>
Trace trace(C communicator, Training const& training) {
  auto const direct = [&training](zero_test::Batch const& batch, bool trains) {
    zero_test::Script script;
    script.chain = training.model.chain;
    if (training.alter && trains) training.alter(batch, script);
    return script;
  };
  zero::Trainer trainer{zero_test::TestModel(training.model, direct, 16),
                        communicator,
                        zero::AdamW{.lr = 0.03f, .weight_decay = 0.1f},
                        training.options,
                        Sharding{},
                        Precision{}};
  Trace notes;
  int const rank = communicator.rank();
  for (int step = 0; step < training.steps; ++step) {
    std::vector<zero_test::Batch> batches;
    for (int micro = 0; micro < training.options.accumulation; ++micro)
      batches.push_back(zero_test::make_batch(rank, step, micro));
    if (training.delays && zero::noise_uniform(5, rank, step) < 0.5)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (training.before_step) training.before_step(rank, step);
    trainer.step(batches);
    notes.push_back(bits(trainer.loss()));
    zero::Decision const d = trainer.decision();
    for (double x : {d.norm, static_cast<double>(d.factor), static_cast<double>(d.learning_rate)})
      notes.push_back(bits(x));
    auto const note = [&](zero::PlacedTensor const& t, Index first, auto values) {
      zero::Hash hash;
      hash.add(t.number).add(first);
      for (auto x : values) hash.add(bits(x));
      notes.push_back(hash.value());
    };
    zero::read_weights(trainer, note);
    zero::read_state(trainer, 0, note);
    zero::read_state(trainer, 1, note);
    notes.push_back(bits(trainer.evaluate(batches.front())));
  }
  if (training.returns) return notes;
  notes.push_back(zero::parameters_hash(trainer));
  notes.push_back(bits(trainer.mean_loss()));
  return notes;
}

using Ranks = zero::MpiCommunicator<zero::PollingHost>;
/// The same at one stage, compiled in a file of its own.
template <int Stage>
Trace trace_at(Ranks communicator, Training const& training);

/// One training at one stage, over MPI and over as many threads.
template <int Stage, class Precision>
void compare(Training const& training, std::string const& what) {
  Trace mine;
  int rank = 0;
  int size = 1;
  zero::LaunchOptions const options{.timeout = std::chrono::seconds(60)};
  zero::launch<zero::Mpi>(
      2,
      [&](auto communicator) {
        rank = communicator.rank();
        size = communicator.size();
        mine = trace<zero::Sharded<Stage>, Precision>(communicator, training);
      },
      options);
  Trace expected;
  Training on_time = training;
  on_time.delays = false;
  auto const on_thread = [&](zero::ThreadCommunicator<zero::Host> communicator) {
    Trace its = trace<zero::Sharded<Stage>, Precision>(communicator, on_time);
    if (communicator.rank() == rank) expected = std::move(its);
  };
  zero::Threads::run(size, on_thread, options);
  demand(!mine.empty() && mine == expected,
         what + ", world " + std::to_string(size) + ": not the trajectory of threads");
}

/// The trainings that are compared at each stage.
template <int Stage>
void compare_all() {
  int number = 0;
  for (bool bf16 : {false, true}) {
    for (zero_test::ModelSpec const& model : {zero_test::everything(), zero_test::padding_only()}) {
      for (int prefetch : {0, 2}) {
        for (Index accumulation : {1, 3}) {
          Training training{.model = model, .bf16 = bf16, .delays = ++number % 4 == 0};
          training.options = {.accumulation = accumulation,
                              .clip = 4,
                              .prefetch = prefetch,
                              .bucket = prefetch == 0 ? 0 : 300,
                              .persistence_threshold = prefetch == 0 ? 100 : 0,
                              .release_after_forward = prefetch == 0};
          if (accumulation > 1 && prefetch == 0)
            training.options.reduction = zero::Reduction::boundary;
          std::string const what = "stage " + std::to_string(Stage) + ", training " +
                                   std::to_string(number) + " (" + model.name + ")";
          if (bf16) {
            compare<Stage, zero::Bf16Mixed>(training, what);
          } else {
            compare<Stage, zero::Fp32>(training, what);
          }
        }
      }
    }
  }
}

}  // namespace ranks
