// SPDX-License-Identifier: Apache-2.0
// What each rank of a run does, from the first step to a sample of text, whatever trains and
// wherever it computes.

#include <zero/report/progress.hpp>

#include <gpt2/generate.hpp>
#include <gpt2/preflight.hpp>
#include <gpt2/trained.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace gpt2 {

namespace {

/// One rank's part of a run.
class Rank {
 public:
  Rank(Trained& trained, Settings const& settings, Corpus const& corpus)
      : trained_(trained),
        settings_(settings),
        batches_(corpus.training(), corpus.validation(), batch_shape(settings, trained.rank()),
                 settings.seed),
        at_start_(trained.ledger().kinds()) {}

  Outcome run(zero::Metrics* metrics, zero::StopSignal const& stop) {
    std::optional<zero::Progress> progress;
    if (trained_.rank() == 0) progress.emplace(settings_.last_step(), zero::Screen(stderr));
    Index const validate_every = std::max<Index>(settings_.steps / 20, 1);
    Outcome outcome;
    double training_seconds = 0;
    auto const checkpoints = trained_.checkpoints(settings_, batches_);
    Index const before = outcome.steps = checkpoints->begin();
    for (Index step = before + 1; step <= settings_.last_step(); ++step) {
      zero::StepRecord record = make_step(step);
      training_seconds += seconds_;
      bool const last = step == settings_.last_step();
      bool const evaluates = checkpoints->evaluates(step);
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
      if (evaluates || (ends && checkpoints->evaluates_at_end(step))) {
        if (!last && !evaluates) outcome.validation_loss = validate(8);
        checkpoints->keep(step, *outcome.validation_loss);
      }
      checkpoints->save(step, ends);
      if (ends) break;
    }
    if (progress) progress->finish();
    if (outcome.steps > before) {
      outcome.tokens_per_s =
          static_cast<double>(settings_.tokens_a_step() * (outcome.steps - before)) /
          training_seconds;
    }
    checkpoints->end(outcome.stopped_by != 0);
    outcome.parameters_hash = trained_.parameters_hash();
    if (outcome.stopped_by == 0) outcome.sample = sample();  // who stops a run wants it to end
    report_memory(outcome);
    return outcome;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  zero::StepRecord make_step(Index step) {
    std::vector<TokenBatch> const micro_batches = batches_.step(step - 1);
    trained_.sent().clear();
    zero::PhaseSeconds const before = trained_.seconds();
    auto const start = Clock::now();
    trained_.step(micro_batches);
    zero::Decision const decision = trained_.decision();
    seconds_ = since(start);
    zero::StepRecord record;
    record.step = step;
    record.wire_elements = trained_.sent().wire_elements();
    record.loss = trained_.mean_loss();
    record.learning_rate = static_cast<double>(decision.learning_rate);
    record.gradient_norm = decision.norm;
    record.loss_scale = static_cast<double>(decision.used_scale);
    record.skipped_steps = decision.skipped;
    record.tokens_per_s = static_cast<double>(settings_.tokens_a_step()) / seconds_;
    record.phase_seconds = phases(before, trained_.seconds());
    for (zero::PlannedBuffer const* buffer : trained_.plan().buffers()) {
      record.memory_bytes.emplace_back(buffer->kind, 0);
    }
    record.memory_bytes.emplace_back("extra slots", 0);
    for (auto const& kind : trained_.ledger().kinds()) {
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
    for (std::uint64_t signal : trained_.exchange(std::span(&mine, 1), "stop")) {
      if (signal != 0) return static_cast<int>(signal);
    }
    return 0;
  }

  double validate(Index num_batches) {
    double sum = 0;
    auto const batches = batches_.validation(num_batches);
    for (TokenBatch const& batch : batches) {
      trained_.evaluate(batch);
      sum += trained_.mean_loss();
    }
    return sum / static_cast<double>(batches.size());
  }

  /// All ranks generate the same text, and all of them gather for it.
  std::string sample() {
    auto const next_logits = [&](std::span<Token const> seen) {
      return trained_.next_logits(seen);
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
    zero::Ledger& ledger = trained_.ledger();
    outcome.planned_bytes = trained_.plan().total_bytes();
    auto const mine = static_cast<std::uint64_t>(ledger.peak_bytes());
    for (std::uint64_t peak : trained_.exchange(std::span(&mine, 1), "peak memory")) {
      outcome.measured_bytes = std::max(outcome.measured_bytes, static_cast<Index>(peak));
    }
    for (zero::PlannedBuffer const* buffer : trained_.plan().buffers()) {
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
    trained_.report_below(outcome);
  }

  Trained& trained_;
  Settings const& settings_;
  Batches batches_;
  std::vector<zero::Ledger::Kind> at_start_;
  double seconds_ = 0;  ///< of the last step
};

}  // namespace

Outcome run_rank(Trained& trained, Settings const& settings, Corpus const& corpus,
                 zero::Metrics* metrics, zero::StopSignal const& stop) {
  return Rank(trained, settings, corpus).run(metrics, stop);
}

}  // namespace gpt2
