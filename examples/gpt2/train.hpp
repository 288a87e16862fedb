// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each rank of a run does, from the first step to a sample of text, wherever it computes.

#include <zero/zero.hpp>

#include <gpt2/batches.hpp>
#include <gpt2/checkpoints.hpp>
#include <gpt2/corpus.hpp>
#include <gpt2/generate.hpp>
#include <gpt2/outcome.hpp>
#include <gpt2/preflight.hpp>
#include <gpt2/run.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpt2 {

namespace detail {

/// One rank's part of a run.
/// @tparam Place where it computes: OnHost, OnGpu
template <class Place, class Sharding, class PrecisionPolicy, zero::Communicator C,
          zero::Optimizer O>
class Rank {
 public:
  Rank(C communicator, O const& optimizer, Settings const& settings, Corpus const& corpus)
      : settings_(settings),
        batches_(corpus.training(), corpus.validation(), batch_shape(settings, communicator.rank()),
                 settings.seed),
        communicator_(std::move(communicator), log_),
        trainer_(Place::template model<PrecisionPolicy>(communicator_.device(), settings),
                 communicator_, optimizer, options_of(settings), Sharding{}, PrecisionPolicy{}),
        at_start_(communicator_.device().ledger().kinds()) {}

  Outcome run(zero::Metrics* metrics, zero::StopSignal const& stop) {
    std::optional<zero::Progress> progress;
    if (communicator_.rank() == 0) progress.emplace(settings_.last_step(), zero::Screen(stderr));
    Index const validate_every = std::max<Index>(settings_.steps / 20, 1);
    Outcome outcome;
    double training_seconds = 0;
    Checkpoints<Trainer> checkpoints(settings_, trainer_, batches_);
    Index const before = outcome.steps = checkpoints.begin();
    for (Index step = before + 1; step <= settings_.last_step(); ++step) {
      zero::StepRecord record = make_step(step);
      training_seconds += seconds_;
      bool const last = step == settings_.last_step();
      bool const evaluates = checkpoints.evaluates(step);
      if (last || evaluates || step % validate_every == 0)
        record.validation_loss = validate(last || evaluates ? 8 : 2);
      if (progress) progress->show(record);
      if (metrics != nullptr && progress) metrics->write(record);
      outcome.steps = step;
      if (step == before + 1) outcome.first_loss = record.loss;
      outcome.last_loss = record.loss;
      if (record.validation_loss) outcome.validation_loss = record.validation_loss;
      outcome.skipped_steps = record.skipped_steps;
      outcome.wire_elements_per_step = record.wire_elements;
      if (!last) outcome.stopped_by = told_to_stop(stop.received());
      bool const ends = last || outcome.stopped_by != 0;
      if (evaluates || (ends && checkpoints.evaluates_at_end(step))) {
        if (!last && !evaluates) outcome.validation_loss = validate(8);
        checkpoints.keep(step, *outcome.validation_loss);
      }
      checkpoints.save(step, ends);
      if (ends) break;
    }
    if (progress) progress->finish();
    if (outcome.steps > before) {
      outcome.tokens_per_s =
          static_cast<double>(settings_.tokens_a_step() * (outcome.steps - before)) /
          training_seconds;
    }
    checkpoints.end(outcome.stopped_by != 0);
    outcome.parameters_hash = zero::parameters_hash(trainer_);
    if (outcome.stopped_by == 0) outcome.sample = sample();  // who stops a run wants it to end
    report_memory(outcome);
    return outcome;
  }

 private:
  using Model = typename Place::template Model<PrecisionPolicy>;
  using Trainer =
      zero::Trainer<Model, zero::Recording<C>, O, zero::Policies<Sharding, PrecisionPolicy>>;
  using Clock = std::chrono::steady_clock;

  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  zero::StepRecord make_step(Index step) {
    std::vector<TokenBatch> const micro_batches = batches_.step(step - 1);
    log_.clear();
    zero::PhaseSeconds const before = trainer_.context().seconds;
    auto const start = Clock::now();
    trainer_.step(micro_batches);
    zero::Decision const decision = trainer_.decision();
    seconds_ = since(start);
    zero::StepRecord record;
    record.step = step;
    record.wire_elements = log_.wire_elements();
    record.loss = trainer_.mean_loss();
    record.learning_rate = static_cast<double>(decision.learning_rate);
    record.gradient_norm = decision.norm;
    record.loss_scale = static_cast<double>(decision.used_scale);
    record.skipped_steps = decision.skipped;
    record.tokens_per_s = static_cast<double>(settings_.tokens_a_step()) / seconds_;
    record.phase_seconds = phases(before, trainer_.context().seconds);
    for (zero::PlannedBuffer const* buffer : trainer_.plan().buffers()) {
      record.memory_bytes.emplace_back(buffer->kind, 0);
    }
    record.memory_bytes.emplace_back("extra slots", 0);
    for (auto const& kind : communicator_.device().ledger().kinds()) {
      auto const row =
          std::ranges::find(record.memory_bytes, kind.name, &std::pair<std::string, Index>::first);
      if (row != record.memory_bytes.end()) row->second = kind.bytes;
    }
    return record;
  }

  /// What the step spent in each of the library's phases, and in the model.
  std::vector<std::pair<std::string, double>> phases(zero::PhaseSeconds const& from,
                                                     zero::PhaseSeconds const& to) {
    std::vector<std::pair<std::string, double>> parts{{"gather", to.gather - from.gather},
                                                      {"reduce", to.reduce - from.reduce},
                                                      {"clip", to.clip - from.clip},
                                                      {"update", to.update - from.update},
                                                      {"publish", to.publish - from.publish}};
    double model = seconds_;
    for (auto const& [phase, seconds] : parts) model -= seconds;
    parts.insert(parts.begin(), {"model", model});
    return parts;
  }

  /// The signal that a rank has received, the first one that has; 0: none has.
  int told_to_stop(int received) {
    auto const mine = static_cast<std::uint64_t>(received);
    for (std::uint64_t signal : trainer_.context().exchange(std::span(&mine, 1), "stop")) {
      if (signal != 0) return static_cast<int>(signal);
    }
    return 0;
  }

  double validate(Index num_batches) {
    double sum = 0;
    auto const batches = batches_.validation(num_batches);
    for (TokenBatch const& batch : batches) {
      trainer_.evaluate(batch);
      sum += trainer_.mean_loss();
    }
    return sum / static_cast<double>(batches.size());
  }

  /// All ranks generate the same text, and all of them gather for it.
  std::string sample() {
    auto const next_logits = [&](std::span<Token const> seen) {
      std::span<float const> logits;
      trainer_.evaluate([&](auto& pass) { logits = trainer_.model().next_logits(pass, seen); });
      return logits;
    };
    if (settings_.tokens.empty()) {
      return printable(
          generate(tokens_of("\n"), settings_.size.context, {.seed = settings_.seed}, next_logits));
    }
    // What the numbers stand for only their tokenizer knows.
    std::string numbers;
    for (Token token : generate({0}, settings_.size.context, {.tokens = 30, .seed = settings_.seed},
                                next_logits)) {
      numbers += (numbers.empty() ? "" : " ") + std::to_string(token);
    }
    return numbers;
  }

  /// Planned is what the library plans, and what the model had allocated before the first step.
  void report_memory(Outcome& outcome) {
    zero::Ledger& ledger = communicator_.device().ledger();
    outcome.planned_bytes = trainer_.plan().total_bytes();
    auto const mine = static_cast<std::uint64_t>(ledger.peak_bytes());
    for (std::uint64_t peak : trainer_.context().exchange(std::span(&mine, 1), "peak memory")) {
      outcome.measured_bytes = std::max(outcome.measured_bytes, static_cast<Index>(peak));
    }
    for (zero::PlannedBuffer const* buffer : trainer_.plan().buffers()) {
      outcome.memory.push_back({std::string(buffer->kind), {buffer->bytes, 0}});
    }
    for (auto const& kind : ledger.kinds()) {
      auto const same = [&](auto const& row) { return row.first == kind.name; };
      auto row = std::ranges::find_if(outcome.memory, same);
      if (row == outcome.memory.end()) {
        auto const start = std::ranges::find(at_start_, kind.name, &zero::Ledger::Kind::name);
        Index const own = start == at_start_.end() ? 0 : start->bytes;
        row = outcome.memory.insert(row, {kind.name, {own, 0}});
        outcome.planned_bytes += own;
      }
      row->second[1] = kind.peak_bytes;
    }
    if constexpr (Trainer::Context::has_tiers) {
      auto& tiers = trainer_.context().tiers;
      outcome.host_bytes = tiers.memory().ledger().peak_bytes();
      outcome.locked_bytes = tiers.memory().locked().bytes();
      outcome.nvme_bytes = tiers.files().peak_bytes();
      zero::TierPlan const& plan = tiers.plan();
      outcome.planned_below = {plan.host_bytes(), plan.locked_bytes(), plan.nvme_bytes()};
    }
  }

  Settings const& settings_;
  Batches batches_;
  zero::CollectiveLog log_;
  zero::Recording<C> communicator_;
  Trainer trainer_;
  std::vector<zero::Ledger::Kind> at_start_;
  double seconds_ = 0;  ///< of the last step
};

}  // namespace detail

/// A run of one stage at one precision.
/// @tparam Place where it computes: OnHost, OnGpu
template <class Place, class Sharding, class PrecisionPolicy>
Outcome train(Settings const& settings, Corpus const& corpus, zero::Metrics* metrics,
              zero::StopSignal const& stop) {
  constexpr bool offloads = Sharding::optimizer_tier != zero::Tier::device ||
                            Sharding::parameter_tier != zero::Tier::device;
  Outcome outcome;
  zero::LaunchOptions const launching{.threads = Place::update_threads(settings)};
  auto const on_each = [&](auto communicator) {
    auto const on_rank = [&]<class O>(O const& optimizer) {
      using Here = detail::Rank<Place, Sharding, PrecisionPolicy, decltype(communicator), O>;
      auto rank = std::make_unique<Here>(communicator, optimizer, settings, corpus);
      Outcome mine = rank->run(metrics, stop);
      if (communicator.rank() == 0) outcome = std::move(mine);
    };
    with_optimizer(settings, [&](auto const& named) {
      auto const optimizer = trained_as(named);
      // Others are refused when flags are checked: each tier is a trainer of its own to compile.
      if constexpr (!offloads || std::same_as<decltype(optimizer), AdamOrAdamW const>)
        on_rank(optimizer);
    });
  };
  zero::launch<typename Place::Backend>(settings.ranks, on_each, launching);
  return outcome;
}

}  // namespace gpt2
