// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loading a checkpoint into a trainer of any stage, world and precision. Tensors are found by name;
// a rank reads the ranges that it keeps, from whatever rank's file they lie in. Everything is
// compared and verified, on every rank, before any state changes for good.

#include <zero/checkpoint/displaced_values.hpp>
#include <zero/checkpoint/staging_memory.hpp>

namespace zero {

/// What is loaded, and how strictly.
struct LoadOptions {
  LoadedParts parts = LoadedParts::everything;  ///< what is taken
  /// false: tensors that are missing or of another shape keep their values, foreign ones are left,
  /// and of another optimizer the states of the same names are taken; all of it is listed.
  bool strict = true;
  /// Host memory, in bytes, that a rank may take to keep the values that it has until all ranks
  /// have read and verified theirs. Where they fit, as a save would store them, each block is read
  /// once, past the system's memory, and goes into the trainer while others are read; should
  /// anything fail the values are put back. Else, and where strict = false takes a part of the
  /// states, blocks are read twice.
  Index staging_bytes = 0;
  /// Where they are kept, in place of memory that is taken for this load alone: what it has counts
  /// as allowed, and it grows up to staging_bytes. Each rank has its own, such as
  /// BackgroundSave::memory(). Null: none; outlives the call.
  StagingMemory* staging_memory = nullptr;
  Files* files = nullptr;  ///< null: the system's; outlives the call
};

/// What a load has found.
struct LoadedCheckpoint {
  std::string folder;                    ///< path of the checkpoint
  Manifest manifest{};                   ///< what it says of itself: step, data, user section
  std::vector<std::string> differences;  ///< taken as they are, with strict = false
  std::vector<std::string> warnings;     ///< settings that differ: the trainer's are used
  Index bytes_read = 0;                  ///< by this rank
};

namespace detail {

/// Counts, rate and loss scale as they go on.
inline Decision loaded_decision(Manifest const& m, LoadedParts parts, LossScale const& scale) {
  Decision d{};
  d.loss_scale = d.used_scale = scale.initial();
  d.scale_state = LossScaleState::first(scale);
  if (parts == LoadedParts::weights) return d;
  d.updates = m.updates;
  d.skipped = m.skipped;
  d.learning_rate = static_cast<float>(m.learning_rate);
  d.bad_losses = m.loss_scale.bad_losses;
  if (m.loss_scale.moves && scale.moves()) {
    d.loss_scale = d.used_scale = m.loss_scale.scale;
    d.scale_state = m.loss_scale.state;
  }
  return d;
}

inline std::string listed(std::vector<std::string> const& all) {
  std::string text;
  for (std::string const& one : all) text += "\n  " + one;
  return text;
}

inline std::string text_of(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& e) {
    return e.what();
  } catch (...) {
    return "the load has failed";
  }
}

/// Puts back what a load has displaced that has failed.
/// @throws Error where that fails as well, StorageError where a file did, with both texts, once it
/// has ended the work of all ranks
inline void put_back_after(std::exception_ptr const& failure, TrainerAccess& x,
                           DisplacedValues& displaced) {
  auto const both = [&](char const* what) {
    return text_of(failure) +
           "; and the values that the trainer had could not be put back: " + what;
  };
  x.guarded([&] {
    try {
      displaced.put_back();
    } catch (StorageError const& e) {
      throw StorageError(both(e.what()));
    } catch (std::exception const& e) {
      throw Error(both(e.what()));
    }
  });
}

/// The way of a checkpoint into a trainer, in the order of its steps.
/// @param find (Files&) -> FoundCheckpoint
/// @param open (Files&, FoundCheckpoint const&, std::optional<SliceReader>&) makes the reader
inline LoadedCheckpoint load_into(
    TrainerAccess& x, std::string const& dir, LoadOptions const& options,
    std::function<FoundCheckpoint(Files&)> const& find,
    std::function<void(Files&, FoundCheckpoint const&, std::optional<SliceReader>&)> const& open) {
  x.synchronize();
  Files& files = options.files == nullptr ? PosixFiles::of_system() : *options.files;
  Ranks const ranks = ranks_of(x, "load");
  FoundCheckpoint found;
  std::uint64_t found_hash = 0;
  std::optional<LoadPlan> plan;
  std::optional<SliceReader> reader;
  std::optional<DisplacedValues> displaced;
  ranks.together([&] {
    found = find(files);
    std::string const text = manifest_text(found.manifest);
    found_hash = XXH3_64bits(text.data(), text.size());
    plan.emplace(LoadingTrainer{x.units(), x.optimizer(), x.seed(), x.loss_scale().moves(),
                                pieces_of(x, true, &TrainerAccess::kept),
                                pieces_of(x, false, &TrainerAccess::kept)},
                 found.manifest, options.parts);
    if (options.strict && !plan->differences().empty()) {
      throw CheckpointError("checkpoint: '" + found.folder +
                            "' is not of this trainer:" + listed(plan->differences()));
    }
    open(files, found, reader);
    reader->need(plan->needs());
    displaced.emplace(x, *plan);
  });
  ranks.require_same(found_hash, "different checkpoints in '" + dir + "'");
  ranks.require_same(std::to_string(static_cast<int>(options.parts)) + (options.strict ? "s" : "n"),
                     "different LoadOptions::parts or strict");
  bool const clears = options.parts != LoadedParts::everything || !plan->differences().empty();
  Index const there = options.staging_memory == nullptr ? 0 : options.staging_memory->bytes();
  bool const exchanges = displaced->bytes() <= std::max(options.staging_bytes, there) &&
                         !(clears && plan->takes_states());
  try {
    std::string const failure = failure_of([&] {
      if (!exchanges) return reader->verify();
      displaced->reserve(options.staging_memory);
      reader->read([&](std::size_t need, Index first, std::span<float const> values) {
        displaced->exchange(need, first, values);
      });
    });
    displaced->rethrow_of_trainer();  // not of the checkpoint: it has ended the trainer
    ranks.require_all(failure);
  } catch (...) {
    put_back_after(std::current_exception(), x, *displaced);
    throw;
  }
  // From here on a failure leaves the trainer between two states, and ends it on every rank.
  x.guarded([&] {
    if (clears) x.clear_states();
    if (!exchanges) {
      reader->read([&](std::size_t need, Index first, std::span<float const> values) {
        LoadPlan::Target const& to = plan->target(need);
        x.write(to.number(), to.piece.unit, to.trainable, {}, to.begin(first), values);
      });
    }
    x.publish();
    x.set_decision(loaded_decision(found.manifest, options.parts, x.loss_scale()),
                   options.parts == LoadedParts::weights ? 0 : found.manifest.step);
  });
  x.synchronize();
  return {std::move(found.folder), std::move(found.manifest), plan->differences(), plan->warnings(),
          reader->bytes_read()};
}

inline LoadedCheckpoint load_into(TrainerAccess& x, std::string const& dir,
                                  LoadOptions const& options) {
  return load_into(
      x, dir, options, [&](Files& files) { return find_checkpoint(dir, files); },
      [&](Files& files, FoundCheckpoint const& found, std::optional<SliceReader>& reader) {
        reader.emplace(files, found, x.rank(), x.world());
      });
}

}  // namespace detail

/// Loads a checkpoint. Every rank calls it, between steps; a trainer that has trained may load as
/// well as a new one. Float weights and states get the bits that were saved, at any stage, world
/// and precision of parameters; where State<bf16> meets states saved as float, they are rounded to
/// nearest. Hyper-parameters and schedule stay the trainer's; where they differ, `warnings` says
/// so.
/// @param trainer a Trainer, or what has its parts
/// @param dir a checkpoint, or the folder that holds `latest`
/// @param options what is taken; the same on every rank
/// @throws CheckpointError on every rank, before any state has changed, naming file and tensor for
/// what is missing, damaged, cut short, foreign, twice there or half written; with strict, listing
/// every difference of model and optimizer. Where `staging_bytes` lets values change places while
/// others are read, this means that every bit is as it was again, also where memory for staging
/// fails, or staging_memory is in use. What fails in the trainer's own memory or files, or in
/// communication, ends the trainer on every rank; where this befalls the putting back, the rank
/// throws Error with the text of what the load had met as well. Parameters that are kept in files
/// reach them as after a step: a failure of the last blocks is told by what next uses the trainer.
/// Memory: four blocks and one tile of the host, whatever the model's size, and with
/// `staging_bytes` another tile, one as it is stored, 64 bytes for each tile of the model that a
/// rank keeps, and at most so many bytes, of which none where staging_memory has them; nothing on
/// the device.
/// Communication: exchanges of words, and one publication of parameters as after an update.
inline LoadedCheckpoint load(AnyTrainer const& trainer, std::string const& dir,
                             LoadOptions const& options = {}) {
  return detail::load_into(*trainer.access(), dir, options);
}

}  // namespace zero
