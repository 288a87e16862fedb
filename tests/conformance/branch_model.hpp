// SPDX-License-Identifier: Apache-2.0
#pragma once
// A small model for tests of order, and a run of it. Its schedule is no palindrome and its sizes
// are chosen, so that no slot is gathered into twice in a row for the same unit: then stale bytes
// are wrong bits.

#include <zero/launch/threads.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/report/slices.hpp>
#include <zero/step/trainer.hpp>

#include <support/late_device.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

namespace zero_test {

/// Units 0 to 3, the middle two side by side.
struct BranchModel {
  struct Batch {
    float x = 0;
  };
  static constexpr int num_units = 4;
  static constexpr int backward_order[] = {3, 1, 0, 2};
  zero::Index growth = 120;  ///< elements by which a unit is larger than the one before
  bool evaluates = true;     ///< between steps, which gathers the next forward's bits beforehand

  zero::Units units() const {
    zero::Units all;
    for (int u = 0; u < num_units; ++u) {
      std::string const name = "u" + std::to_string(u);
      all.push_back(
          {.name = name,
           .tensors = {
               {.name = name + ".w",
                .shape = {50 + growth * u},
                .initial = zero::Initial::normal(0.5)},
               {.name = name + ".b", .shape = {3}, .initial = zero::Initial::constant(1)}}});
    }
    return all;
  }
  zero::Schedule schedule() const {
    zero::Schedule all;
    for (int u = 0; u < num_units; ++u) all.push_back({u, zero::Phase::forward});
    for (int u : backward_order) all.push_back({u, zero::Phase::backward});
    return all;
  }

  template <class Pass>
  void operator()(Pass& pass, Batch const& batch) {
    for (int u = 0; u < num_units; ++u) forward(pass, u, batch.x);
    if constexpr (Pass::trains) {
      for (int u : backward_order) {
        auto const lease = pass.backward(u);
        backward<Pass>(pass, lease.parameters[0], lease.parameters[1], lease.gradients[0],
                       lease.gradients[1], batch.x);
      }
    }
  }

  /// One forward visit, in the schedule's order or not.
  template <class Pass>
  static void forward(Pass& pass, int u, float x) {
    using D = typename Pass::Device;
    auto const w = pass.forward(u);
    pass.stream().enqueue([w = w[0], b = w[1], loss = pass.loss(), x] {
      auto const* const weights = D::resolve(w.address());
      auto const* const factors = D::resolve(b.address());
      double sum = 0;
      for (zero::Index i = 0; i < w.size(); ++i)
        sum += static_cast<double>(x * float(weights[i]) * float(factors[i % 3]));
      *D::resolve(loss.address()) += sum;
    });
  }

 private:
  template <class Pass, class In, class Out>
  static void backward(Pass& pass, In w, In b, Out to_w, Out to_b, float x) {
    using D = typename Pass::Device;
    using G = typename Pass::Gradient;
    pass.stream().enqueue([w, b, to_w, to_b, x] {
      auto const* const weights = D::resolve(w.address());
      auto const* const factors = D::resolve(b.address());
      G* const dw = D::resolve(to_w.address());
      G* const db = D::resolve(to_b.address());
      for (zero::Index i = 0; i < w.size(); ++i) {
        dw[i] = G(float(dw[i]) + x * float(factors[i % 3]));
        db[i % 3] = G(float(db[i % 3]) + x * float(weights[i]));
      }
    });
  }
};

/// All that a run leaves to see.
struct BranchResult {
  std::uint64_t hash = 0;
  double losses = 0;
  double norms = 0;
  zero::Index skipped = 0;
  std::string error;
  std::vector<LateWait> waits;  // where the device logs them

  bool operator==(BranchResult const& other) const {
    return hash == other.hash && losses == other.losses && norms == other.norms &&
           skipped == other.skipped && error == other.error;
  }
};

/// Steps and evaluations on every rank, the last one off the order.
template <class D, int Stage>
BranchResult run_branch(int world, zero::Options const& options, BranchModel const& model = {}) {
  BranchResult result;
  try {
    zero::launch<zero::ThreadsOn<D>>(
        world,
        [&](auto communicator) {
          zero::Trainer trainer{model,   communicator,           zero::AdamW{.lr = 1e-2f},
                                options, zero::Sharded<Stage>{}, zero::Bf16Mixed{}};
          BranchResult mine;
          for (int step = 0; step < 4; ++step) {
            if (step == 3 && model.evaluates)
              mine.losses = 3 * mine.losses + trainer.evaluate(BranchModel::Batch{0.3f});
            std::vector<BranchModel::Batch> batches;
            for (zero::Index i = 0; i < options.accumulation; ++i) {
              batches.push_back(
                  {0.1f * static_cast<float>(1 + 7 * step + 3 * i + communicator.rank())});
            }
            trainer.step(batches);
            mine.losses = 3 * mine.losses + trainer.mean_loss();
            mine.norms = 3 * mine.norms + trainer.decision().norm;
          }
          trainer.evaluate([](auto& pass) {  // off the order: into extra slots
            for (int u : {3, 2, 0, 1, 0}) BranchModel::forward(pass, u, 0.2f);
          });
          mine.losses = 3 * mine.losses + trainer.loss();
          mine.hash = zero::parameters_hash(trainer);
          mine.skipped = trainer.decision().skipped;
          if constexpr (requires { communicator.device().waits(); })
            mine.waits = communicator.device().waits();
          if (communicator.rank() == 0) result = mine;
        },
        {.timeout = std::chrono::seconds(60)});
  } catch (std::exception const& e) {
    result.error = e.what();
  }
  return result;
}

}  // namespace zero_test
