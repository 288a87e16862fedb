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
