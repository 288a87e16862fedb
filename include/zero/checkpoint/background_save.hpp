// SPDX-License-Identifier: Apache-2.0
#pragma once
// A save that goes on beside training: the bytes are copied to host memory at once, and a thread of
// each rank writes them. The checkpoint gets its name, and `latest`, at the first call after the
// last rank's thread is done, since only then do ranks speak with each other.

#include <zero/checkpoint/save.hpp>
#include <zero/checkpoint/staging_memory.hpp>

#include <atomic>
#include <memory>

namespace zero {

/// At most one save at a time into a folder: until this one is completed, any other save there is
/// refused. Every rank has its own and calls the same members in the same order. A save that was
/// begun and never waited for is abandoned with this object, and the next save takes its leftovers
/// away. Host memory: as much as the largest file of this rank so far, until the object ends.
///
///     zero::BackgroundSave saving;
///     saving.prepare(trainer);
///     ...
///     if (step % 100 == 0) saving.start(trainer, "run");
///     saving.poll();
///     ...
///     saving.wait();
class BackgroundSave {
 public:
  BackgroundSave() = default;
  BackgroundSave(BackgroundSave const&) = delete;
  BackgroundSave& operator=(BackgroundSave const&) = delete;
  /// Waits for this rank's thread.
  ~BackgroundSave() {
    if (thread_.joinable()) thread_.join();
  }

  /// Takes the host memory that start() fills, so that the first start costs a step no more than
  /// the copy, as the later ones do: pages that nobody has touched cost several times that. Before
  /// the first step, or whenever there is time. Every rank calls it. Waits for the trainer and
  /// completes a pending save. Communication: one exchange of words.
  /// @param trainer a Trainer
  /// @throws CheckpointError on every rank where one has not the memory; as wait() and
  /// trainer.decision()
  void prepare(AnyTrainer const& trainer) {
    wait();
    detail::TrainerAccess& x = *trainer.access();
    x.synchronize();
    Manifest const manifest = detail::describe_trainer(x, {});
    detail::ranks_of(x, "prepare a background save").together([&] {
      memory_.prepare(detail::file_bytes_of(x, manifest));
    });
  }

  /// Copies what save() would write, waits for nothing else, and returns. One that is still going
  /// on is waited for.
  /// @param trainer outlives the save
  /// @param dir, options as save; `options.files` is called from another thread
  /// @throws as save, for the making of the folder; and what the save before has failed with
  void start(AnyTrainer const& trainer, std::string const& dir, SaveOptions const& options = {}) {
    wait();
    start(trainer.access(), dir, options);
  }

  /// Whether a save has begun and not been completed.
  bool pending() const { return steps_.has_value(); }

  /// The memory of the copy, for LoadOptions::staging_memory: a load that begins when no save is
  /// pending keeps there what it displaces. Ends with this object.
  StagingMemory& memory() { return memory_; }

  /// Completes the save where every rank has written its file; else returns nothing. Every rank
  /// calls it, between steps. Communication: one exchange of a word while a save is pending.
  /// @throws CheckpointError on every rank, as save
  std::optional<SavedCheckpoint> poll() {
    if (!pending()) return std::nullopt;
    std::uint64_t const mine = done_ ? 1 : 0;
    for (auto const& other : steps_->ranks().words(std::span(&mine, 1))) {
      if (other[0] == 0) return std::nullopt;
    }
    return wait();
  }
  /// Waits for every rank's file and completes the save; nothing where none is pending.
  /// @throws CheckpointError on every rank, as save
  std::optional<SavedCheckpoint> wait() {
    if (!pending()) return std::nullopt;
    if (thread_.joinable()) thread_.join();  // none where the copy has failed
    detail::SaveSteps steps = std::move(*steps_);
    steps_.reset();
    copy_ = {};
    return steps.commit(failure_, std::move(manifest_), written_);
  }

 private:
  /// Where the bytes of the file go. The memory is kept from save to save.
  struct Copy {
    StagingMemory::Use use{};
    Index end = 0;

    std::span<std::byte> room() const { return use.bytes().span().subspan(at(end)); }
    void filled(Index n) { end += n; }
  };

  void start(std::shared_ptr<detail::TrainerAccess> access, std::string const& dir,
             SaveOptions const& options) {
    access_ = std::move(access);
    detail::TrainerAccess& x = *access_;
    x.synchronize();
    manifest_ = detail::describe_trainer(x, options);
    steps_.emplace(detail::ranks_of(x, "background save"), dir, options);
    std::string failure;
    try {
      steps_->begin(manifest_.step);
      failure = detail::failure_of([&] { copy(x); });
    } catch (...) {
      copy_ = {};
      steps_.reset();
      throw;
    }
    failure_.clear();
    done_ = false;
    if (failure.empty()) {
      std::string const name = detail::rank_file_name(x.rank(), x.world());
      failure = detail::failure_of([&] {
        thread_ = detail::start_io_thread("writing '" + name + "'", [this, name] { write(name); });
      });
    }
    if (failure.empty()) return;
    failure_ = std::move(failure);  // no thread runs
    done_ = true;
  }
  void copy(detail::TrainerAccess& x) {
    detail::put_file_bytes(x, manifest_, copy_,
                           [&](Index bytes) { copy_ = {StagingMemory::Use(memory_, bytes)}; });
  }
  /// The thread's work.
  void write(std::string const& name) {
    failure_ = detail::failure_of([&] {
      written_ = detail::write_block_file(steps_->files(), steps_->work_folder(), name,
                                          manifest_.block_bytes,
                                          copy_.use.bytes().span().first(at(copy_.end)));
    });
    done_ = true;
  }

  std::shared_ptr<detail::TrainerAccess> access_;  // of the trainer whose save is pending
  std::optional<detail::SaveSteps> steps_;
  Manifest manifest_;
  CheckpointFile written_;
  StagingMemory memory_;
  Copy copy_;  // of a pending save
  std::string failure_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace zero
