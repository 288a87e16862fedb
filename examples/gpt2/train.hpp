// SPDX-License-Identifier: Apache-2.0
#pragma once
// The trainers of a run, wherever it computes: what is compiled for every way to shard, precision
// and optimizer, and no more than that.

#include <zero/zero.hpp>

#include <gpt2/preflight.hpp>
#include <gpt2/run.hpp>
#include <gpt2/trained.hpp>
#include <gpt2/trainer_checkpoints.hpp>

#include <memory>
#include <utility>

namespace gpt2 {

namespace detail {

/// One rank's trainer.
/// @tparam Place where it computes: OnHost, OnGpu
template <class Place, class Sharding, class PrecisionPolicy, zero::Communicator C,
          zero::Optimizer O>
class TrainedAs final : public Trained {
 public:
  TrainedAs(C communicator, O const& optimizer, Settings const& settings)
      : communicator_(std::move(communicator), sent()),
        trainer_(Place::template model<PrecisionPolicy>(communicator_.device(), settings),
                 communicator_, optimizer, options_of(settings), Sharding{}, PrecisionPolicy{}) {}

  int rank() const override { return communicator_.rank(); }
  void step(std::vector<TokenBatch> const& micro_batches) override { trainer_.step(micro_batches); }
  zero::Decision decision() override { return trainer_.decision(); }
  double mean_loss() override { return trainer_.mean_loss(); }
  void evaluate(TokenBatch const& batch) override { trainer_.evaluate(batch); }
  std::span<float const> next_logits(std::span<Token const> seen) override {
    std::span<float const> logits;
    trainer_.evaluate([&](auto& pass) { logits = trainer_.model().next_logits(pass, seen); });
    return logits;
  }
  std::vector<std::uint64_t> exchange(std::span<std::uint64_t const> words,
                                      std::string_view what) override {
    return trainer_.context().exchange(words, what);
  }
  std::uint64_t parameters_hash() override { return zero::parameters_hash(trainer_); }
  zero::MemoryPlan const& plan() override { return trainer_.plan(); }
  zero::PhaseSeconds seconds() override { return trainer_.context().seconds; }
  zero::Ledger& ledger() override { return communicator_.device().ledger(); }
  void report_below([[maybe_unused]] Outcome& outcome) override {
    if constexpr (Trainer::Context::has_tiers) {
      auto& tiers = trainer_.context().tiers;
      outcome.host_bytes = tiers.memory().ledger().peak_bytes();
      outcome.locked_bytes = tiers.memory().locked().bytes();
      outcome.nvme_bytes = tiers.files().peak_bytes();
      zero::TierPlan const& plan = tiers.plan();
      outcome.planned_below = {plan.host_bytes(), plan.locked_bytes(), plan.nvme_bytes()};
    }
  }
  std::unique_ptr<Checkpoints> checkpoints(Settings const& settings, Batches& batches) override {
    return checkpoints_of(trainer_, settings, batches);
  }

 private:
  using Model = typename Place::template Model<PrecisionPolicy>;
  using Trainer =
      zero::Trainer<Model, zero::Recording<C>, O, zero::Policies<Sharding, PrecisionPolicy>>;

  zero::Recording<C> communicator_;
  Trainer trainer_;
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
      using Here = detail::TrainedAs<Place, Sharding, PrecisionPolicy, decltype(communicator), O>;
      auto const trained = std::make_unique<Here>(communicator, optimizer, settings);
      Outcome mine = run_rank(*trained, settings, corpus, metrics, stop);
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
