// SPDX-License-Identifier: Apache-2.0
#pragma once
// One run of the test model, for one kind of trainer; runner.cpp chooses among these.

#include <support/guarded_device.hpp>
#include <support/observer.hpp>
#include <support/runner.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace zero_test {

/// @tparam D the device
/// @tparam Stage of Sharded
/// @throws as run
template <class D, int Stage>
void run_as(Config const& config, Result& result);

namespace detail {

using std::chrono::steady_clock;

/// One rank's part of a run.
/// @tparam X a Context
template <class X>
class RankRun {
 public:
  using C = typename X::Communicator;

  RankRun(Config const& config, Result& result, int rank)
      : config_(config), result_(result), rank_(rank), numbers_(result.ranks[zero::at(rank)]) {
    for (int s = 0; s < config.steps; ++s) batches_.push_back(make_batches(config, rank, s));
  }

  template <class Inner>
  void operator()(Inner communicator) {
    C recording(std::move(communicator), log_);
    if (config_.loop == Loop::parts) {
      PartsLoop<X> loop(model(), recording, config_.optimizer, config_.options);
      train(loop);
    } else {
      TrainerLoop<X> loop(model(), recording, config_.optimizer, config_.options);
      train(loop);
    }
  }

 private:
  TestModel model() const {
    Director direct = config_.direct;
    if (!direct) {
      direct = [script = in_order(config_.model)](Batch const&, bool) { return script; };
    }
    zero::Index const own = static_cast<zero::Index>(config_.model.chain.size());
    return {config_.model, std::move(direct), own + config_.longest};
  }

  /// Steps in turn with the trainer that is watched, on the same ranks.
  std::unique_ptr<TrainerLoop<X>> make_companion(X& context) {
    if (config_.loop != Loop::two_trainers) return nullptr;
    zero::Options options = config_.options;
    options.seed += 1;
    auto companion = std::make_unique<TrainerLoop<X>>(model(), C(context.communicator),
                                                      config_.optimizer, options);
    numbers_.planned_bytes = companion->parts().context.plan.total_bytes();
    return companion;
  }

  template <class Loop>
  void train(Loop& loop) {
    Parts<X> parts = loop.parts();
    Observer<X> observer(parts, numbers_);
    auto const companion = make_companion(parts.context);
    std::size_t snapshots = 0;
    zero::Index allocations = 0;
    for (int s = 0; s < config_.steps; ++s) {
      bool const last = s + 1 == config_.steps;
      zero::Index const sent = log_.wire_elements();
      loop.step(batches_[zero::at(s)]);
      numbers_.wire_elements = log_.wire_elements() - sent;
      if (companion) companion->step(batches_[zero::at(s)]);
      if (config_.watch || last) {
        StepResult& step = result_.steps[zero::at(s)];
        step.losses[zero::at(rank_)] = loop.loss();
        step.decisions[zero::at(rank_)] = loop.decision();
        observer.snapshot(result_.snapshots[snapshots++]);
        if constexpr (requires { loop.trainer(); }) numbers_.mean_loss = loop.trainer().mean_loss();
      }
      if (config_.evaluates) evaluate(loop, s);
      if (s == 0) allocations = parts.context.device().ledger().allocations();
    }
    count(parts.context, allocations);
    observer.frozen(result_.frozen);
    if constexpr (requires { loop.trainer(); }) {
      auto& trainer = loop.trainer();
      numbers_.parameters_hash = zero::parameters_hash(trainer);
      numbers_.readers_agree =
          observer.readers_agree(trainer, result_.snapshots.back(), result_.frozen);
    }
    observer.replicas(loop, result_.replicas[zero::at(rank_)]);
  }

  /// The next batch without its backward, and then the model three times in one pass, as when it
  /// generates.
  template <class Loop>
  void evaluate(Loop& loop, int s) {
    zero::Index const reductions = log_.totals("reduce").collectives;
    zero::Index const gathers = log_.totals("gather").collectives;
    Batch const& batch = batches_[zero::at((s + 1) % config_.steps)].front();
    StepResult& step = result_.steps[zero::at(s)];
    step.evaluations[zero::at(rank_)] = loop.evaluate(batch);
    loop.look([&](auto& pass) {
      for (int round = 0; round < (config_.apart ? 1 : 3); ++round) loop.model()(pass, batch);
    });
    X& context = loop.parts().context;
    step.generations[zero::at(rank_)] = read_slot<double>(context, context.loss(), 0, 1)[0];
    numbers_.reductions_in_evaluations += log_.totals("reduce").collectives - reductions;
    numbers_.gathers_in_evaluations += log_.totals("gather").collectives - gathers;
  }

  void count(X& context, zero::Index allocations) {
    zero::Ledger& ledger = context.device().ledger();
    numbers_.late_allocations = ledger.allocations() - allocations;
    numbers_.extra_slots = context.extra_parameters.made() + context.extra_gradients.made();
    numbers_.planned_bytes += context.plan.total_bytes();
    numbers_.peak_bytes = ledger.peak_bytes();
    numbers_.deviations = context.deviations;
    if (config_.loop == Loop::parts) return;  // it looks at batches besides
    numbers_.planned_wire_elements = zero::plan_wire_elements(
        context.units, context.timeline.schedule(), context.world(), context.shares.facts(),
        context.options, static_cast<zero::Index>(batches_.back().size()));
  }

  Config const& config_;
  Result& result_;
  int rank_;
  RankNumbers& numbers_;
  std::vector<std::vector<Batch>> batches_;
  zero::CollectiveLog log_;
};

template <class D, int Stage, class Precision>
void run_on_ranks(Config const& config, Result& result) {
  using C = zero::Recording<zero::ThreadCommunicator<D>>;
  using X = zero::Context<C, zero::Policies<zero::Sharded<Stage>, Precision>>;
  auto const begin = steady_clock::now();
  try {
    zero::launch<zero::ThreadsOn<D>>(
        config.world,
        [&](zero::ThreadCommunicator<D> communicator) {
          int const rank = communicator.rank();
          try {
            RankRun<X>(config, result, rank)(communicator);
          } catch (std::exception const& e) {
            result.errors[zero::at(rank)] = e.what();
            throw;
          }
        },
        zero::LaunchOptions{.timeout = config.timeout});
  } catch (std::exception const&) {
    if (!config.may_fail) throw;
    result.error_seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  }
}

}  // namespace detail

template <class D, int Stage>
void run_as(Config const& config, Result& result) {
  if (config.fp16) {
    if constexpr (std::same_as<D, GuardedDevice>) {
      throw std::logic_error("fp16 is not built for the guarded device");
    } else {
      detail::run_on_ranks<D, Stage, zero::Fp16Mixed>(config, result);
    }
  } else if (config.bf16) {
    detail::run_on_ranks<D, Stage, zero::Bf16Mixed>(config, result);
  } else {
    detail::run_on_ranks<D, Stage, zero::Fp32>(config, result);
  }
}

}  // namespace zero_test
