// SPDX-License-Identifier: Apache-2.0
#pragma once
// Trainers of any stage, world, optimizer and precision behind one interface, chosen by values:
// each stage is compiled once, in trainer_as.cpp.

#include <zero/checkpoint.hpp>

#include <support/model_spec.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace checkpoints {

using zero::at;
using zero::Index;

/// Precision and type of the states.
enum class Storage {
  floats,       ///< Fp32
  mixed,        ///< Bf16Mixed
  half,         ///< Fp16Mixed
  split,        ///< Bf16Split
  short_states  ///< Fp32, State<bf16>
};

using AnyOptimizer =
    std::variant<zero::AdamW, zero::Adam, zero::Lamb, zero::Lion, zero::Adagrad, zero::Sgd>;

struct Setup {
  int stage = 0;
  int world = 1;
  AnyOptimizer optimizer = zero::AdamW{.lr = 0.03f, .weight_decay = 0.1f};
  Storage storage = Storage::floats;
  zero::Units units = zero_test::everything().units;
  zero::Options options{.clip = 4};
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< of a collective
};

/// Bits of whole tensors, by kind and name: "master/wte", "state.exp_avg/wte", "parameter/mixed.f".
using Canonical = std::map<std::string, std::vector<std::uint32_t>>;

/// One rank's trainer.
class AnyTrainer {
 public:
  virtual ~AnyTrainer() = default;
  virtual int rank() const = 0;
  /// Trains one step on gradients that depend on step and element alone, so that they are the same
  /// at every world. @param step from 0
  virtual void step(int step) = 0;
  virtual zero::Decision decision() = 0;
  virtual Index steps() = 0;
  virtual std::uint64_t hash() = 0;
  /// Parameters as a visit sees them, by name, as floats; all of them on every rank.
  virtual std::map<std::string, std::vector<float>> seen() = 0;
  /// Adds this rank's slices, as the reader of report/slices.hpp has them.
  virtual void add_slices(Canonical& to) = 0;
  /// Lets the device have so many bytes more than now. @return how many in all
  virtual Index limit_memory(Index bytes) = 0;

  // What the room does with it, compiled once, in trainers.cpp.
  zero::SavedCheckpoint save(std::string const& dir, zero::SaveOptions const& options);
  zero::LoadedCheckpoint load(std::string const& dir, zero::LoadOptions const& options);
  void start(zero::BackgroundSave& save, std::string const& dir, zero::SaveOptions const& o);
  void prepare(zero::BackgroundSave& save);
  std::vector<float> gather(std::string const& name, std::string const& what);
  void assign(std::string const& name, std::vector<float> const& values, std::string const& what);
  zero::SavedModel save_model(std::string const& dir, zero::ModelOptions const& o);
  zero::LoadedCheckpoint load_model(std::string const& dir, zero::LoadModelOptions const& o);
  std::vector<std::string> keep(zero::CheckpointKeeper& keeper,
                                zero::CheckpointKeeper::Metrics const& metrics);
  bool finish(zero::CheckpointKeeper& keeper);
  void resume(zero::CheckpointKeeper& keeper);

 private:
  virtual zero::AnyTrainer trainer() = 0;
};

/// Runs f on every rank of a world of threads, each with a trainer of its own.
void on_ranks(Setup const& setup, std::function<void(AnyTrainer&)> const& f);

/// One stage; see trainer_as.cpp.
template <int Stage>
void on_ranks_as(Setup const& setup, std::function<void(AnyTrainer&)> const& f);

/// What the ranks of a world have together.
class Collected {
 public:
  void add(AnyTrainer& trainer);  ///< from any thread
  Canonical const& all() const { return all_; }

 private:
  Canonical all_;
};

/// What the ranks have after f.
Canonical state_after(Setup const& setup, std::function<void(AnyTrainer&)> const& f);

/// A folder of the system that is gone when the test ends.
class Folder {
 public:
  Folder();
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder();
  std::string const& path() const { return path_; }
  std::string operator/(std::string const& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The text of what f throws; empty where it throws nothing.
std::string error_of(std::function<void()> const& f);

std::vector<AnyOptimizer> menu();

}  // namespace checkpoints
