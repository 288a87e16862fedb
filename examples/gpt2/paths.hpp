// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files and folders that flags name, tried before a run begins: one that fails at the end takes
// the training with it.

#include <zero/core/ledger.hpp>
#include <zero/tier/storage_file.hpp>
#if GPT2_CHECKPOINT
#include <zero/checkpoint.hpp>
#endif

#include <fcntl.h>
#include <gpt2/flags.hpp>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace gpt2 {

/// What one rank meets alone: others of its machine may not, so it says it itself.
struct WrongForRank : WrongFlag {
  using WrongFlag::WrongFlag;
};

namespace detail {

/// A path as a flag names it.
struct NamedPath {
  std::string flag;
  std::filesystem::path path;

  [[noreturn]] void refuse(std::string const& why) const {
    detail::refuse(flag + " " + quoted(path.string()) + ": " + why);
  }
  /// Of `there`, which is the path or a folder above it, links followed.
  std::filesystem::file_type type(std::filesystem::path const& there) const {
    std::error_code error;
    auto const type = std::filesystem::status(there, error).type();
    if (type == std::filesystem::file_type::none) refuse(error.message());
    return type;
  }
};

/// Makes folders in a folder and a file in them, as the run will, and takes them away. Their name
/// is this process's own, so ranks that try at once do not meet.
/// @param folders a relative path, or an empty one
/// @throws WrongFlag where that fails, or something of it stays
inline void try_to_write(NamedPath const& named, std::filesystem::path const& folder,
                         std::filesystem::path const& folders) {
  namespace fs = std::filesystem;
  auto const refuse = [&](std::string const& reason) {
    named.refuse("nothing can be written in " + quoted(folder.string()) + ": " + reason);
  };
  std::string trial = (folder / ".gpt2-trial-XXXXXX").string();
  if (::mkdtemp(trial.data()) == nullptr) refuse(std::strerror(errno));
  std::error_code error;
  fs::create_directories(trial / folders, error);
  if (!error) {
    int const file =
        ::open((trial / folders / "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool const wrote = file >= 0 && ::write(file, "x", 1) == 1;
    if (!wrote) error = std::error_code(errno, std::generic_category());
    if (file >= 0) ::close(file);
  }
  std::error_code leftover;
  fs::remove_all(trial, leftover);
  std::string const stays = leftover ? "what was made to try that stays in " +
                                           detail::quoted(trial) + ": " + leftover.message()
                                     : "";
  if (error) refuse(error.message() + (stays.empty() ? "" : "; " + stays));
  if (leftover) named.refuse(stays);
}

/// @throws WrongFlag where it is no folder and cannot become one, or cannot be written to
inline void require_folder_to_write(NamedPath const& named) {
  namespace fs = std::filesystem;
  fs::path there = named.path;
  while (named.type(there) == fs::file_type::not_found) {
    std::error_code error;
    if (fs::is_symlink(there, error))
      named.refuse(quoted(there.string()) + " is a link to nothing");
    there = there.has_parent_path() ? there.parent_path() : fs::path(".");
  }
  if (named.type(there) != fs::file_type::directory)
    named.refuse(there == named.path ? "it is no folder"
                                     : quoted(there.string()) + " is no folder");
  fs::path folders = named.path.lexically_relative(there).lexically_normal();
  if (there == "." && named.path.is_relative()) folders = named.path.lexically_normal();
  if (!folders.empty() && *folders.begin() == "..") folders.clear();  // not below the trial
  try_to_write(named, there, folders);
}

/// @throws WrongFlag where it is no file and cannot become one, or cannot be written to
inline void require_file_to_write(NamedPath const& named) {
  namespace fs = std::filesystem;
  fs::file_type const type = named.type(named.path);
  if (type == fs::file_type::directory) named.refuse("it is a folder");
  if (type == fs::file_type::not_found) {
    fs::path const folder = named.path.has_parent_path() ? named.path.parent_path() : fs::path(".");
    if (named.type(folder) != fs::file_type::directory)
      named.refuse("there is no folder " + quoted(folder.string()));
    try_to_write(named, folder, {});
  } else if (type == fs::file_type::regular) {  // opening a pipe would wait for its reader
    int const file = ::open(named.path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) named.refuse(std::string("it cannot be written to: ") + std::strerror(errno));
    ::close(file);
  }
}

#if GPT2_CHECKPOINT
/// @throws WrongFlag where there is no checkpoint, or only one of a later step than the run's last
inline void require_checkpoint(Settings const& s) {
  try {
    zero::FoundCheckpoint const found = zero::find_checkpoint(s.resume);
    if (found.manifest.step > s.last_step()) {
      refuse("--resume: " + quoted(found.folder) + " is at step " +
             std::to_string(found.manifest.step) + ", and this run ends after step " +
             std::to_string(s.last_step()));
    }
  } catch (zero::CheckpointError const& e) {
    refuse(std::string("--resume: ") + e.what());
  }
}
#endif

/// @param expected what should have been named
/// @throws WrongFlag where it is a checkpoint's own folder, or lies in one: such take nothing else
inline void require_no_checkpoint(NamedPath const& named, char const* expected) {
#if GPT2_CHECKPOINT
  try {
    zero::detail::require_no_checkpoint(zero::PosixFiles::of_system(), named.path.string(),
                                        expected);
  } catch (zero::CheckpointError const& e) {
    refuse(named.flag + ": " + e.what());
  }
#else  // whose flags were refused before
  static_cast<void>(named);
  static_cast<void>(expected);
#endif
}

/// @throws WrongFlag where it is, or lies in, what has the name of a checkpoint in the folder of
/// --save: by the end the run may have saved it, and then it takes nothing else
inline void require_beside_checkpoints(NamedPath const& named, NamedPath const& save) {
#if GPT2_CHECKPOINT
  namespace fs = std::filesystem;
  auto const whole = [](NamedPath const& of) {
    std::error_code error;
    fs::path const path = fs::weakly_canonical(fs::absolute(of.path), error);
    if (error) of.refuse(error.message());
    return fs::path(zero::detail::without_end_slashes(path.string()));
  };
  fs::path const folder = whole(save);
  for (fs::path there = whole(named); there.has_relative_path(); there = there.parent_path()) {
    if (there.parent_path() == folder &&
        zero::detail::CheckpointName::of(there.filename().string())) {
      named.refuse("--save " + quoted(save.path.string()) + " keeps " +
                   quoted(there.filename().string()) +
                   " for a checkpoint; expected a folder for a model");
    }
  }
#else  // whose flags were refused before
  static_cast<void>(named);
  static_cast<void>(save);
#endif
}

/// Whether a file of this name stands in the folder.
inline bool holds(NamedPath const& named, char const* name) {
  return named.type(named.path / name) != std::filesystem::file_type::not_found;
}

/// @throws WrongFlag where a run cannot begin with what is there
inline void require_beginning(Settings const& s) {
#if GPT2_CHECKPOINT
  if (!s.resume.empty()) require_checkpoint(s);
#endif
  NamedPath const model{"--import", s.from_model};
  if (!s.from_model.empty() && !holds(model, "model.safetensors") &&
      !holds(model, "model.safetensors.index.json"))
    model.refuse("it has neither model.safetensors nor model.safetensors.index.json");
}

/// @throws WrongForRank where this rank's state cannot lie in files of its folder
inline void require_folder_for_state(Settings const& s, int rank) {
  std::string const folder =
      s.configured ? s.configured->options.offload.nvme_path : s.offload.nvme_path;
  std::string const named = !s.configured ? "--nvme-path"
                            : s.optimizer_tier == zero::Tier::nvme
                                ? "zero_optimization.offload_optimizer.nvme_path"
                                : "zero_optimization.offload_param.nvme_path";
  zero::Ledger ledger;
  try {
    zero::StorageFile(folder, "trial", rank, 4096, ledger);  // has no name, and is gone here
  } catch (zero::StorageError const& e) {
    throw WrongForRank("gpt2: " + named + " " + quoted(folder) + ": " + e.what());
  }
}

}  // namespace detail

/// Tries what the settings name, and leaves nothing there.
/// @param rank of this process
/// @param beside_first whether rank 0, which alone writes metrics and models, is on this machine
/// @throws WrongFlag naming the flag, or the configuration's key, the path, and what is wrong
/// there; WrongForRank where the other ranks of this machine may not meet it
inline void check_paths(Settings const& s, int rank, bool beside_first) {
  detail::require_beginning(s);
  if (s.has_files()) detail::require_folder_for_state(s, rank);
  detail::NamedPath const save{"--save", s.save};
  if (!s.save.empty() && (beside_first || !s.save_only_model)) {
    detail::require_no_checkpoint(save, "the folder that holds the checkpoints of a run");
    detail::require_folder_to_write(save);
  }
  detail::NamedPath const model{"--export", s.write_model};
  if (!s.write_model.empty() && beside_first) {
    detail::require_no_checkpoint(model, "a folder for a model");
    if (!s.save.empty()) detail::require_beside_checkpoints(model, save);
    detail::require_folder_to_write(model);
  }
  if (!s.metrics.empty() && beside_first) detail::require_file_to_write({"--metrics", s.metrics});
}

}  // namespace gpt2
