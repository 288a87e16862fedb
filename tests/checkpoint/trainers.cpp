// SPDX-License-Identifier: Apache-2.0
#include <checkpoint/trainers.hpp>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <stdexcept>

namespace checkpoints {

void on_ranks(Setup const& setup, std::function<void(AnyTrainer&)> const& f) {
  switch (setup.stage) {
    case 0:
      return on_ranks_as<0>(setup, f);
    case 1:
      return on_ranks_as<1>(setup, f);
    case 2:
      return on_ranks_as<2>(setup, f);
    default:
      return on_ranks_as<3>(setup, f);
  }
}

zero::SavedCheckpoint AnyTrainer::save(std::string const& dir, zero::SaveOptions const& o) {
  return zero::save(trainer(), dir, o);
}
zero::LoadedCheckpoint AnyTrainer::load(std::string const& dir, zero::LoadOptions const& o) {
  return zero::load(trainer(), dir, o);
}
void AnyTrainer::start(zero::BackgroundSave& save, std::string const& dir,
                       zero::SaveOptions const& o) {
  save.start(trainer(), dir, o);
}
void AnyTrainer::prepare(zero::BackgroundSave& save) { save.prepare(trainer()); }
std::vector<float> AnyTrainer::gather(std::string const& name, std::string const& what) {
  return zero::gather(trainer(), name, what);
}
void AnyTrainer::assign(std::string const& name, std::vector<float> const& values,
                        std::string const& what) {
  zero::assign(trainer(), name, values, what);
}
zero::SavedModel AnyTrainer::save_model(std::string const& dir, zero::ModelOptions const& o) {
  return zero::save_model(trainer(), dir, o);
}
zero::LoadedCheckpoint AnyTrainer::load_model(std::string const& dir,
                                              zero::LoadModelOptions const& o) {
  return zero::load_model(trainer(), dir, o);
}
std::vector<std::string> AnyTrainer::keep(zero::CheckpointKeeper& keeper,
                                          zero::CheckpointKeeper::Metrics const& metrics) {
  return keeper.keep(trainer(), metrics);
}
bool AnyTrainer::finish(zero::CheckpointKeeper& keeper) {
  return keeper.finish(trainer()).has_value();
}
void AnyTrainer::resume(zero::CheckpointKeeper& keeper) { keeper.resume(trainer()); }

void Collected::add(AnyTrainer& trainer) {
  static std::mutex mutex;
  std::lock_guard const lock(mutex);
  trainer.add_slices(all_);
}

Canonical state_after(Setup const& setup, std::function<void(AnyTrainer&)> const& f) {
  Collected collected;
  on_ranks(setup, [&](AnyTrainer& trainer) {
    f(trainer);
    collected.add(trainer);
  });
  return collected.all();
}

Folder::Folder() {
  std::string text = (std::filesystem::temp_directory_path() / "zero_checkpoint_XXXXXX").string();
  if (::mkdtemp(text.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = text;
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string error_of(std::function<void()> const& f) {
  try {
    f();
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}

std::vector<AnyOptimizer> menu() {
  return {zero::AdamW{.lr = 0.03f, .weight_decay = 0.1f},
          zero::Adam{.lr = 0.03f, .weight_decay = 0.1f},
          zero::Lamb{.lr = 0.03f, .weight_decay = 0.1f},
          zero::Lion{.lr = 0.03f, .weight_decay = 0.1f},
          zero::Adagrad{.lr = 0.03f, .lr_decay = 0.1f, .weight_decay = 0.1f},
          zero::Sgd{.lr = 0.03f, .momentum = 0.9f, .weight_decay = 0.1f, .nesterov = true}};
}

}  // namespace checkpoints
