// SPDX-License-Identifier: Apache-2.0
// Ranks that go wrong while they train: every other rank throws within the timeout, on the host and
// where work runs later, and nobody goes on with what was left half done.

#include <comm/ranks.hpp>
#include <conformance/branch_model.hpp>
#include <doctest/doctest.h>
#include <support/death.hpp>
#include <support/late_device.hpp>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using zero::Host;
using zero_test::BranchModel;
using zero_test::lacks;
using zero_test::LateDevice;
using zero_test::outcomes;
using zero_test::Outcomes;
using Batch = BranchModel::Batch;

constexpr std::chrono::milliseconds soon{400};
constexpr std::chrono::seconds long_time{60};
constexpr double seconds_at_most = 20;

/// Makes a trainer on each of three ranks, steps once and calls f(trainer, rank).
template <class D, int Stage, class F>
Outcomes train(std::chrono::milliseconds timeout, F f) {
  return outcomes<D>(3, timeout, [&](auto& communicator, auto&) {
    zero::Trainer trainer{BranchModel{},   communicator,           zero::AdamW{},
                          zero::Options{}, zero::Sharded<Stage>{}, zero::Bf16Mixed{}};
    trainer.step(Batch{0.5f});
    trainer.loss();
    f(trainer, communicator.rank());
    trainer.synchronize();
  });
}

void check_others(Outcomes const& result, int culprit, std::vector<std::string> const& parts) {
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(result[rank].seconds < seconds_at_most);
    if (rank == culprit) continue;
    CAPTURE(rank);
    CHECK(result[rank].communication);
    CHECK(lacks(result[rank].error, parts) == "");
  }
}

TEST_CASE_TEMPLATE("stage 3: a rank whose step throws ends all", D, Host, LateDevice) {
  Outcomes const result = train<D, 3>(long_time, [](auto& trainer, int rank) {
    if (rank == 1) throw std::invalid_argument("planted");
    trainer.step(Batch{0.5f});
    trainer.loss();
  });
  check_others(result, 1, {"rank 1 failed: planted"});
  CHECK(result.rethrown == "planted");
}

TEST_CASE_TEMPLATE("stage 3: a rank that steps once less is named with unit and step", D, Host,
                   LateDevice) {
  Outcomes const result = train<D, 3>(long_time, [](auto& trainer, int rank) {
    if (rank == 2) return;
    trainer.step(Batch{0.5f});
    trainer.loss();
  });
  check_others(result, 2, {"rank 2 (has ended)", "all_gather", "unit 'u0'", "step 2"});
}

TEST_CASE_TEMPLATE("stage 3: a rank that stalls is named with unit and step", D, Host, LateDevice) {
  Outcomes const result = train<D, 3>(soon, [](auto& trainer, int rank) {
    if (rank == 0) std::this_thread::sleep_for(3 * soon);
    trainer.step(Batch{0.5f});
    trainer.loss();
  });
  check_others(result, -1, {"rank 0", "unit 'u0'", "step 2", "within 400 ms"});
}

TEST_CASE_TEMPLATE("stage 3: a rank that evaluates where the others step: both sides are named", D,
                   Host, LateDevice) {
  Outcomes const result = train<D, 3>(long_time, [](auto& trainer, int rank) {
    if (rank == 1) {
      trainer.evaluate(Batch{0.5f});
    } else {
      trainer.step(Batch{0.5f});
    }
    trainer.loss();
  });
  check_others(result, -1, {"rank 0 is in", "step 2", "rank 1 is in", "step 1"});
}

TEST_CASE_TEMPLATE("stage 3: a loss is not handed out when a gather has failed", D, Host,
                   LateDevice) {
  // An evaluation only gathers: the loss itself lies on another stream.
  std::vector<int> handed_out(3, 0);
  Outcomes const result = train<D, 3>(long_time, [&](auto& trainer, int rank) {
    if (rank == 1) return;
    trainer.evaluate(Batch{0.5f});
    handed_out[zero::at(rank)] = 1;
  });
  check_others(result, 1, {"rank 1 (has ended)", "all_gather"});
  CHECK(handed_out == std::vector<int>(3, 0));
}

TEST_CASE_TEMPLATE("stage 0: a decision is not handed out when a reduction has failed", D, Host,
                   LateDevice) {
  std::vector<int> handed_out(3, 0);
  Outcomes const result = train<D, 0>(long_time, [&](auto& trainer, int rank) {
    if (rank == 1) return;
    trainer.step(Batch{0.5f});
    trainer.decision();
    handed_out[zero::at(rank)] = 1;
  });
  check_others(result, 1, {"rank 1 (has ended)", "all_reduce"});
  CHECK(handed_out == std::vector<int>(3, 0));
}

TEST_CASE_TEMPLATE("work of a model that throws ends all ranks", D, Host, LateDevice) {
  Outcomes const result = train<D, 2>(long_time, [](auto& trainer, int rank) {
    trainer.evaluate([&](auto& pass) {
      if (rank == 1) pass.stream().enqueue([] { throw std::runtime_error("planted"); });
    });
    trainer.step(Batch{0.5f});
    trainer.decision();
  });
  check_others(result, 1, {"rank 1 failed: planted"});
  CHECK(result.rethrown == "planted");
}

TEST_CASE_TEMPLATE("a rank that throws while its step is under way ends all", D, Host, LateDevice) {
  Outcomes const result = train<D, 3>(long_time, [](auto& trainer, int rank) {
    trainer.step(Batch{0.5f});
    if (rank == 2) throw std::invalid_argument("planted");
    trainer.loss();
    trainer.step(Batch{0.5f});
    trainer.loss();
  });
  check_others(result, 2, {"rank 2 failed: planted"});
  CHECK(result.rethrown == "planted");
}

TEST_CASE_TEMPLATE("a model that throws in the middle of a pass ends all", D, Host, LateDevice) {
  Outcomes const result = train<D, 3>(long_time, [](auto& trainer, int rank) {
    trainer.evaluate([&](auto& pass) {
      for (int u = 0; u < BranchModel::num_units; ++u) {
        BranchModel::forward(pass, u, 0.5f);
        if (u == 1 && rank == 0) throw std::invalid_argument("planted");
      }
    });
    trainer.loss();
  });
  check_others(result, 0, {"rank 0 failed: planted"});
  CHECK(result.rethrown == "planted");
}

TEST_CASE_TEMPLATE("a custom loop that throws in the middle of a pass ends all", D, Host,
                   LateDevice) {
  Outcomes const result = outcomes<D>(3, long_time, [](auto& communicator, auto&) {
    BranchModel model;
    zero::Context context{model,           communicator,       zero::AdamW{},
                          zero::Options{}, zero::Sharded<3>{}, zero::Bf16Mixed{}};
    zero::Parameters parameters{context};
    for (int i = 0; i < 3; ++i) {
      zero::Pass pass{parameters};
      for (int u = 0; u < BranchModel::num_units; ++u) {
        BranchModel::forward(pass, u, 0.5f);
        if (i == 1 && u == 1 && communicator.rank() == 1) throw std::invalid_argument("planted");
      }
      pass.end();
    }
    context.wait();
  });
  check_others(result, 1, {"rank 1 failed: planted"});
  CHECK(result.rethrown == "planted");
}

TEST_CASE("a rank built with other options is named before the first step") {
  Outcomes const result = outcomes<Host>(3, long_time, [](auto& communicator, auto&) {
    zero::Trainer trainer{
        BranchModel{},      communicator,
        zero::AdamW{},      zero::Options{.prefetch = communicator.rank() == 2 ? 2 : 1},
        zero::Sharded<3>{}, zero::Bf16Mixed{}};
  });
  check_others(result, -1, {"rank 2", "Options::prefetch"});
}

TEST_CASE(
    "a custom loop that ends without waiting ends in order: its work is done on live memory") {
  int const signal = zero_test::signal_of([] {
    zero_test::LateSettings const settings{.deadline = std::chrono::seconds(30)};
    zero_test::WithLateSettings const with(settings);
    zero::launch<zero::ThreadsOn<LateDevice>>(2, [](auto communicator) {
      BranchModel model;
      zero::Context context{model,           communicator,       zero::AdamW{},
                            zero::Options{}, zero::Sharded<2>{}, zero::Bf16Mixed{}};
      zero::Parameters parameters{context};
      zero::Gradients gradients{context};
      zero::OptimizerState state{context, zero::AdamW{}};
      zero::Pass pass{parameters, gradients};
      model(pass, Batch{0.5f});
      pass.end();
      state.decide(gradients, 1);
      state.update(parameters, gradients);
      parameters.publish();
    });
  });
  CHECK(signal == 0);
}

}  // namespace
