// SPDX-License-Identifier: Apache-2.0
#pragma once
// A trainer of any stage and precision behind one interface, chosen by values: each kind is
// compiled once for all the proofs that need every kind.

#include <zero/comm/recording.hpp>
#include <zero/launch/threads.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/step/context.hpp>

#include <archetypes/ranks.hpp>
#include <archetypes/walker.hpp>

#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>

namespace rig {

/// What is trained, and how.
struct Setup {
  zero::Units units{};
  zero::Schedule schedule{};  ///< empty: forward and back
  int stage = 0;
  bool bf16 = false;
  zero::Options options{};
  zero::AdamW optimizer{};
  GradientOf gradient{};  ///< unset: 0.25
  zero::Fill fill = zero::Fill::add;
};

/// "stage 3, bf16, accumulation 3, ..."
std::string describe(Setup const& setup);
inline std::ostream& operator<<(std::ostream& out, Setup const& s) { return out << describe(s); }

/// The schedule of a setup, and its policy as values.
zero::Schedule schedule_of(Setup const& setup);
zero::Facts facts_of(Setup const& setup);

using Weights = std::function<void(zero::PlacedTensor const&, Index first, std::span<float const>)>;

/// One rank's trainer.
class Trainer {
 public:
  virtual ~Trainer() = default;
  virtual void step(Batch const& batch) = 0;
  virtual void step(std::span<Batch const> batches) = 0;
  virtual double evaluate(Batch const& batch) = 0;
  /// Forward visits of these units, in one pass.
  virtual void visit(std::span<int const> units) = 0;
  virtual zero::Decision decision() = 0;
  virtual double loss() = 0;
  virtual std::uint64_t parameters_hash() = 0;
  virtual void read_weights(Weights const& f) = 0;
  /// A tensor as a forward visit shows it.
  virtual std::vector<float> tensor(int unit, Index index) = 0;
  /// Whether whole units, as forward visits show them, hold zeros where no tensor lies.
  virtual bool padding_is_zero() = 0;
  virtual zero::MemoryPlan const& plan() const = 0;
  virtual zero::Layout const& layout() const = 0;
  virtual zero::Deviations deviations() const = 0;
};

/// @param log of everything the trainer sends; outlives it
/// @throws what the trainer's constructor throws
std::unique_ptr<Trainer> make(Setup const& setup, Ranks ranks, zero::CollectiveLog& log);

/// A rank among its echoes: a device, a log and a trainer.
class Alone {
 public:
  Alone(Setup const& setup, int rank, int world)
      : trainer_(make(setup, Ranks(rank, world, device_), log_)), rank_(rank) {}

  Trainer& trainer() { return *trainer_; }
  Trainer* operator->() { return trainer_.get(); }
  zero::CollectiveLog& log() { return log_; }
  zero::Ledger& ledger() { return device_.ledger(); }
  /// One step over `micro_batches` micro-batches.
  void step(Index micro_batches) {
    batches_.clear();
    for (Index i = 0; i < micro_batches; ++i) batches_.push_back({rank_, i});
    trainer_->step(batches_);
  }

 private:
  zero::Host device_;
  zero::CollectiveLog log_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<Batch> batches_;
  int rank_;
};

/// One trainer for each stage and precision; see rig_stage.cpp.
template <int Stage>
std::unique_ptr<Trainer> make_stage(Setup const& setup, Ranks ranks, zero::CollectiveLog& log);

}  // namespace rig
