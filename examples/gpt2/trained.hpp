// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's trainer as a run sees it, behind one interface: all that a run does beside training is
// compiled once, and not once for every way to shard, precision and optimizer.

#include <zero/core/collective_log.hpp>
#include <zero/core/counters.hpp>
#include <zero/core/ledger.hpp>
#include <zero/launch/stop_signal.hpp>
#include <zero/optim/decision.hpp>
#include <zero/report/metrics.hpp>
#include <zero/step/memory_plan.hpp>

#include <gpt2/batches.hpp>
#include <gpt2/checkpoints.hpp>
#include <gpt2/corpus.hpp>
#include <gpt2/outcome.hpp>
#include <gpt2/settings.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace gpt2 {

/// A trainer and what it stands on. Every rank calls the same members in the same order; errors are
/// those of zero::Trainer's members.
class Trained {
 public:
  virtual ~Trained() = default;

  virtual int rank() const = 0;
  virtual void step(std::vector<TokenBatch> const& micro_batches) = 0;
  virtual zero::Decision decision() = 0;               ///< of the last step; waits
  virtual double mean_loss() = 0;                      ///< over ranks; waits
  virtual void evaluate(TokenBatch const& batch) = 0;  ///< then mean_loss is the batch's
  /// Logits of what follows, [vocabulary], valid until the next call.
  virtual std::span<float const> next_logits(std::span<Token const> seen) = 0;
  /// Every rank's words, in rank order.
  virtual std::vector<std::uint64_t> exchange(std::span<std::uint64_t const> words,
                                              std::string_view what) = 0;
  virtual std::uint64_t parameters_hash() = 0;
  virtual zero::MemoryPlan const& plan() = 0;
  virtual zero::PhaseSeconds seconds() = 0;  ///< so far
  virtual zero::Ledger& ledger() = 0;        ///< of the rank's device
  /// Enters what lies below the device, where anything does.
  virtual void report_below(Outcome& outcome) = 0;
  /// Those that the settings ask for; all of them outlive it.
  virtual std::unique_ptr<Checkpoints> checkpoints(Settings const& settings, Batches& batches) = 0;

  zero::CollectiveLog& sent() { return sent_; }  ///< by this rank

 private:
  zero::CollectiveLog sent_;
};

/// One rank's part of a run, from the first step to a sample of text.
/// @param metrics where rank 0 writes a row a step, or null
/// @param stop a signal to any rank ends the run on all of them after the step under way
Outcome run_rank(Trained& trained, Settings const& settings, Corpus const& corpus,
                 zero::Metrics* metrics, zero::StopSignal const& stop);

}  // namespace gpt2
