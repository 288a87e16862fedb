// SPDX-License-Identifier: Apache-2.0
#pragma once
// Saving a checkpoint: every rank its file into a folder that nobody looks for, the manifest last,
// then one rename; `latest` follows when every rank has found its file, its checksums and its first
// block under the new name. At any moment the checkpoint before is whole, and `latest` on it.

#include <zero/checkpoint/block_writer.hpp>
#include <zero/checkpoint/expected_slices.hpp>
#include <zero/checkpoint/folder.hpp>
#include <zero/checkpoint/trainer_access.hpp>

namespace zero {

/// What is saved beside the trainer, and where.
struct SaveOptions {
  DataPosition data{};                         ///< where the run stands in its data
  boost::json::object user{};                  ///< the caller's own, as load returns it
  std::optional<double> metric{};              ///< a number that this checkpoint is judged by
  std::optional<Index> save_total_limit{};     ///< checkpoints that stay, at least 1; unset: all
  std::vector<std::string> kept{};             ///< names that are never removed, such as the best
  Index block_bytes = checkpoint_block_bytes;  ///< of a checksum, from 1 to 2^30
  Files* files = nullptr;                      ///< null: the system's; outlives the call
};

/// What a save has made.
struct SavedCheckpoint {
  std::string name;                  ///< in the folder: "step-00000012"
  std::string folder;                ///< path of the checkpoint
  Index bytes = 0;                   ///< of this rank's file
  std::vector<std::string> removed;  ///< older checkpoints, beyond the limit
};

namespace detail {

/// What is known before anything is written.
inline Manifest describe_trainer(TrainerAccess& x, SaveOptions const& options) {
  Decision const d = x.decision();
  Manifest m;
  m.library = version;
  m.step = x.step();
  m.updates = d.updates;
  m.skipped = d.skipped;
  m.learning_rate = static_cast<double>(d.learning_rate);
  m.stage = x.stage();
  m.world = x.world();
  m.precision = x.precision();
  m.optimizer = x.optimizer();
  m.loss_scale = {x.loss_scale().moves(), d.loss_scale, d.scale_state, d.bad_losses};
  m.seed = x.seed();
  m.data = options.data;
  m.metric = options.metric;
  m.user = options.user;
  m.model_config = x.config_json();
  for (Unit const& unit : x.units()) {
    CheckpointUnit& to = m.units.emplace_back(CheckpointUnit{unit.name, {}});
    for (Tensor const& t : unit.tensors) to.tensors.push_back({t.name, t.shape, t.trainable});
  }
  m.block_bytes = options.block_bytes;
  return m;
}

/// Bytes of this rank's file.
inline Index file_bytes_of(TrainerAccess& x, Manifest const& manifest) {
  std::vector<StoredSlice> slices =
      slices_of_rank(manifest, x.layout(), x.rank(), x.state_type(), x.parameter_type());
  Index bytes = 0;
  write_rank_header(slices, bytes);
  return bytes;
}

/// Puts the bytes of this rank's file where a sink has room for them, its header first.
/// @param sink as BlockWriter is one
/// @param begin called before with the number of them all
template <class Sink, class Begin>
void put_file_bytes(TrainerAccess& x, Manifest const& manifest, Sink& sink, Begin begin) {
  std::vector<StoredSlice> slices =
      slices_of_rank(manifest, x.layout(), x.rank(), x.state_type(), x.parameter_type());
  Index bytes = 0;
  std::string const header = write_rank_header(slices, bytes);
  begin(bytes);
  BlockWriter::fill(sink, std::as_bytes(std::span(header)));
  constexpr Index tile = Index{1} << 18;
  std::vector<float> values;
  std::vector<std::byte> stored;
  std::size_t written = 0;
  auto const write = [&](NumberOf number, bool trainable) {
    for (OwnedPiece const& piece : pieces_of(x, trainable, &TrainerAccess::slice)) {
      FoundTensor const tensor{piece.unit, piece.tensor,
                               x.layout()[piece.unit].tensors[at(piece.tensor)]};
      std::string const& type = slices[written++].type;
      for (Index done = 0; done < piece.elements;) {
        Index const left = piece.elements - done;
        std::span<std::byte> const room = type == "F32" ? sink.room() : std::span<std::byte>();
        // A tile at most: what is not kept as float goes through memory of as many elements.
        Index n = std::min({left, std::ssize(room) / Index{sizeof(float)}, tile});
        if (n > 0 && reinterpret_cast<std::uintptr_t>(room.data()) % alignof(float) == 0) {
          // Straight to where it is written from.
          x.read(number, tensor, {}, piece.begin + done, n, reinterpret_cast<float*>(room.data()));
          sink.filled(n * Index{sizeof(float)});
        } else {  // exact: such a number is kept here in that type
          n = std::min(tile, left);
          values.resize(at(n));
          x.read(number, tensor, {}, piece.begin + done, n, values.data());
          from_floats(type, values, stored);
          BlockWriter::fill(sink, stored);
        }
        done += n;
      }
    }
  };
  write({NumberKind::weight}, true);
  for (int k = 0; k < std::ssize(manifest.optimizer.states); ++k)
    write({NumberKind::state, k}, true);
  write({NumberKind::weight}, false);
}

/// The way of a checkpoint from nothing to `latest`, in the order of its steps; every rank calls
/// each of them.
class SaveSteps {
 public:
  SaveSteps(Ranks ranks, std::string dir, SaveOptions const& options)
      : ranks_(std::move(ranks)),
        dir_(std::move(dir)),
        limit_(options.save_total_limit),
        kept_(options.kept),
        files_(options.files == nullptr ? &PosixFiles::of_system() : options.files) {
    if (limit_ && *limit_ < 1) {
      throw InvalidArgument("SaveOptions::save_total_limit: found " + std::to_string(*limit_) +
                            "; expected at least 1 checkpoint");
    }
    if (options.block_bytes < 1 || options.block_bytes > max_checkpoint_block_bytes) {
      throw InvalidArgument("SaveOptions::block_bytes: found " +
                            std::to_string(options.block_bytes) + "; expected from 1 to " +
                            std::to_string(max_checkpoint_block_bytes) + " bytes");
    }
  }

  Ranks const& ranks() const { return ranks_; }
  Files& files() const { return *files_; }
  /// Where files are written before the checkpoint has its name.
  std::string work_folder() const { return detail::work_folder(dir_, name_); }
  std::string folder() const { return join_path(dir_, name_); }

  /// Makes the folder in which files are written.
  void begin(Index step) {
    // Every rank is here, and the thread of a background save that it has abandoned has ended.
    ranks_.require_all({});
    std::string name;
    std::string const failure = failure_of([&] {
      if (ranks_.rank() != 0) return;
      turn_ = take_folder(*files_, dir_);
      name = begin_checkpoint(*files_, dir_, step);
    });
    ranks_.require_all(failure);
    name_ = ranks_.texts(name)[0];
  }
  /// The rest of the way, when this rank's file is written and closed.
  /// @param failure what has gone wrong in that on this rank, or nothing
  /// @param manifest without files
  SavedCheckpoint commit(std::string const& failure, Manifest manifest,
                         CheckpointFile const& mine) {
    try {
      ranks_.require_all(failure);
      publish(std::move(manifest), mine);
    } catch (CommunicationError const&) {
      throw;
    } catch (CheckpointError const&) {
      give_up();
      throw;
    }
    ranks_.together([&] {
      if (ranks_.rank() == 0) name_latest(*files_, dir_, name_);
    });
    return {name_, folder(), mine.bytes, remove_old()};
  }

 private:
  void publish(Manifest manifest, CheckpointFile const& mine) {
    std::vector<std::uint64_t> words{static_cast<std::uint64_t>(mine.bytes)};
    words.insert(words.end(), mine.blocks.begin(), mine.blocks.end());
    auto const all = ranks_.words(words);
    for (std::size_t r = 0; r < all.size(); ++r) {
      manifest.files.push_back({rank_file_name(static_cast<Index>(r), ranks_.world()),
                                static_cast<Index>(all[r][0]),
                                {all[r].begin() + 1, all[r].end()}});
    }
    ranks_.together([&] {
      if (ranks_.rank() == 0) publish_checkpoint(*files_, dir_, name_, manifest);
    });
    // Every rank looks for what it wrote where a load would, which also shows that they share it.
    // The size, and of the bytes the first block: of all others the system has said that they last.
    ranks_.together([&] {
      FoundCheckpoint const found = find_checkpoint(folder(), *files_);
      CheckpointFile const& file = found.manifest.files.at(at(ranks_.rank()));
      if (file.bytes != mine.bytes || file.blocks != mine.blocks)
        throw CheckpointError("checkpoint: '" + folder() + "' is not what this rank wrote");
      BlockReader reader(*files_, folder(), file, found.manifest.block_bytes);
      std::array<std::byte, 1> first{};
      reader.read(0, first, "its header");
    });
  }
  /// After a failure that every rank knows of: what was written goes, as far as it can.
  void give_up() noexcept {
    if (ranks_.rank() != 0 || name_.empty()) return;
    try {
      // Its name is asked of the disk: it may have one though what came after that has failed.
      if (files_->size(folder()) == -EISDIR) {
        remove_checkpoint(*files_, dir_, name_);
      } else {
        remove_folder_of_files(*files_, work_folder());
      }
    } catch (...) {  // the next save tries again, and what has failed is thrown
    }
  }
  std::vector<std::string> remove_old() {
    std::vector<std::string> removed;
    ranks_.together([&] {
      if (ranks_.rank() != 0 || !limit_) return;
      std::vector<std::string> kept = kept_;
      kept.push_back(name_);
      if (auto const best = named_in(*files_, dir_, best_name)) kept.push_back(*best);
      for (std::string const& name : beyond_limit(checkpoint_names(*files_, dir_), *limit_, kept)) {
        remove_checkpoint(*files_, dir_, name);
        removed.push_back(name);
      }
    });
    std::string text;
    for (std::string const& name : removed) text += name + "/";
    std::string const all = ranks_.texts(text)[0];
    removed.clear();
    for (std::size_t at = 0; at < all.size(); at = all.find('/', at) + 1)
      removed.push_back(all.substr(at, all.find('/', at) - at));
    return removed;
  }

  Ranks ranks_;
  std::string dir_;
  std::optional<Index> limit_;
  std::vector<std::string> kept_;
  Files* files_;
  std::shared_ptr<void> turn_;  // rank 0's
  std::string name_;
};

inline SavedCheckpoint save_from(TrainerAccess& x, std::string const& dir,
                                 SaveOptions const& options) {
  x.synchronize();
  Manifest manifest = describe_trainer(x, options);
  SaveSteps steps(ranks_of(x, "save"), dir, options);
  steps.begin(manifest.step);
  CheckpointFile mine;
  std::string const failure = failure_of([&] {
    BlockWriter writer(steps.files(), steps.work_folder(), rank_file_name(x.rank(), x.world()),
                       manifest.block_bytes);
    put_file_bytes(x, manifest, writer, [](Index) {});
    mine = writer.finish();
  });
  return steps.commit(failure, std::move(manifest), mine);
}

}  // namespace detail

/// Saves a checkpoint into `dir`, as step-N, and makes `latest` there name it. Every rank calls it,
/// between steps; all write to the same folder. Waits for the trainer and until everything lasts.
/// What a checkpoint holds: float weights and optimizer state, frozen parameters, step, counts,
/// loss scale, seed, and of `options` data position, user section and metric. A step is whole: a
/// window of accumulation is never cut.
/// Before `latest` moves, on every rank: all writes took all bytes, fsync and close succeeded;
/// under the new name the manifest reads, with its own checksum, and has this rank's file with the
/// size and the checksums of the memory that was written; the file has that size, and its first
/// block, where its header begins, reads back with its checksum. Other blocks are not read back,
/// which would take as long as writing them: that they last is fsync's word. Where a disk breaks
/// it, load, which verifies every block that it takes, and verify_checkpoint say so.
/// @param trainer a Trainer, or what has its parts
/// @param dir made where it is missing
/// @param options the same on every rank
/// @return the new checkpoint, and what was removed for the limit
/// @throws CheckpointError on every rank, naming the first that failed, file, offset and reason:
/// the checkpoints before are as they were, and `latest` too; where it failed in removing old ones,
/// the new one is there; where a save in the background into `dir` is not over. InvalidArgument for
/// the limit and the size of blocks; as trainer.decision()
/// Communication: exchanges of words alone, some of them for every 60 MiB of a rank's file.
inline SavedCheckpoint save(AnyTrainer const& trainer, std::string const& dir,
                            SaveOptions const& options = {}) {
  return detail::save_from(*trainer.access(), dir, options);
}

}  // namespace zero
