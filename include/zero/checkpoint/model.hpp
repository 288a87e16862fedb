// SPDX-License-Identifier: Apache-2.0
#pragma once
// The exchange with transformers: a trainer's weights written as a model that its from_pretrained
// reads, and such a model read by ranges straight into a trainer's slices.

#include <zero/checkpoint/gather.hpp>
#include <zero/checkpoint/load.hpp>
#include <zero/checkpoint/model_files.hpp>
#include <zero/checkpoint/save.hpp>

namespace zero {

/// How a model is written.
struct ModelOptions {
  /// Type of all elements: "BF16", "F16" or "F32"; empty: that of the parameters.
  std::string type{};
  /// Most bytes of tensors in one file, at least 1.
  Index max_shard_bytes = 5'000'000'000;
  /// DeepSpeed's key, which stage 3 asks for: writing whole tensors makes every rank gather them.
  bool stage3_gather_16bit_weights_on_model_save = false;
  Files* files = nullptr;  ///< null: the system's; outlives the call
};

/// What was written.
struct SavedModel {
  std::vector<std::string> names;     ///< of the files, in the folder
  std::vector<std::string> warnings;  ///< settings that do nothing
};

namespace detail {

inline SavedModel save_model_from(TrainerAccess& x, std::string const& dir,
                                  ModelOptions const& options) {
  x.synchronize();
  std::string const type = options.type.empty() ? std::string(x.parameter_type()) : options.type;
  if (type != "BF16" && type != "F16" && type != "F32")
    throw InvalidArgument("ModelOptions::type: found '" + type + "'; expected BF16, F16 or F32");
  if (options.max_shard_bytes < 1) {
    throw InvalidArgument("ModelOptions::max_shard_bytes: found " +
                          std::to_string(options.max_shard_bytes) + "; expected at least 1");
  }
  SavedModel saved;
  bool const key = options.stage3_gather_16bit_weights_on_model_save;
  if (x.shares().facts().shards_parameters && !key) {
    throw InvalidArgument(
        "save_model: stage3_gather_16bit_weights_on_model_save is false: at stage 3 no rank has "
        "whole tensors, and they are gathered only where it is true");
  }
  if (!x.shares().facts().shards_parameters && key) {
    saved.warnings.emplace_back(
        "stage3_gather_16bit_weights_on_model_save does nothing below stage 3");
  }
  Files& files = options.files == nullptr ? PosixFiles::of_system() : *options.files;
  Ranks const ranks = ranks_of(x, "save_model");
  std::vector<CheckpointTensor> tensors;
  for (Unit const& unit : x.units()) {
    for (Tensor const& t : unit.tensors) tensors.push_back({t.name, t.shape, t.trainable});
  }
  std::optional<ModelWriter> writer;
  std::string failure = failure_of([&] {
    if (x.rank() == 0) writer.emplace(files, dir, tensors, type, options.max_shard_bytes);
  });
  x.guarded([&] {
    for (CheckpointTensor const& t : tensors) {
      gather_tiles(x, find_tensor(x, t.name), {NumberKind::weight}, t.name,
                   [&](Index, std::span<float const> values) {
                     if (!writer || !failure.empty()) return;
                     failure = failure_of([&] { writer->append(values); });
                   });
    }
  });
  if (failure.empty() && writer) {
    failure = failure_of([&] { saved.names = writer->finish(x.config_json()); });
  }
  ranks.require_all(failure);
  return saved;
}

}  // namespace detail

/// Writes the weights as transformers keeps them: model.safetensors, or shards and an index above a
/// size, and config.json where the model brings one (HasModelConfig). A tensor that two places of
/// the model use is one tensor, which stands there once, under its name, as transformers itself
/// writes tied tensors. Every rank calls it, between steps; rank 0 writes. Memory: a tile of one
/// tensor, on every rank.
/// @param trainer a Trainer
/// @param dir made where it is missing; files of these names are replaced, each in one step
/// @param options the same on every rank
/// @throws InvalidArgument at stage 3 where stage3_gather_16bit_weights_on_model_save is off, and
/// for another type; CheckpointError on every rank where rank 0 cannot write
/// Communication: as gather, of every tensor.
inline SavedModel save_model(AnyTrainer const& trainer, std::string const& dir,
                             ModelOptions const& options = {}) {
  return detail::save_model_from(*trainer.access(), dir, options);
}

/// How a model is read.
struct LoadModelOptions {
  RenameTensor rename{};   ///< from the files' names to the model's; unset: they are the same
  bool strict = true;      ///< as LoadOptions
  Files* files = nullptr;  ///< null: the system's; outlives the call
};

namespace detail {

inline LoadedCheckpoint load_model_into(TrainerAccess& x, std::string const& dir,
                                        LoadModelOptions const& options) {
  ModelCheckpoint model;
  LoadOptions load;
  load.parts = LoadedParts::weights;
  load.strict = options.strict;
  load.files = options.files;
  return load_into(
      x, dir, load,
      [&](Files& files) {
        model = read_model_folder(files, dir, options.rename);
        return model.found;
      },
      [&](Files& files, FoundCheckpoint const& found, std::optional<SliceReader>& reader) {
        reader.emplace(files, found, std::move(model.slices));
      });
}

}  // namespace detail

/// Reads a model of transformers into a trainer: the weights alone, for a new run: step 0, states
/// 0. Every rank calls it and reads the ranges that it keeps. Such files have no checksums: their
/// headers are verified, their bytes are not.
/// @param trainer a Trainer
/// @param dir with model.safetensors, or its index and shards
/// @param options the same on every rank
/// @throws CheckpointError on every rank, before any state has changed, as load
inline LoadedCheckpoint load_model(AnyTrainer const& trainer, std::string const& dir,
                                   LoadModelOptions const& options = {}) {
  return detail::load_model_into(*trainer.access(), dir, options);
}

}  // namespace zero
