// SPDX-License-Identifier: Apache-2.0
#pragma once
// The folder that holds a run's checkpoints: step-00000012, step-00000024, ..., and `latest`, which
// names one of them. A checkpoint comes into being by one rename of a folder that is whole, and
// goes by one rename before its files do: what has such a name is never half there.

#include <zero/checkpoint/manifest.hpp>

#include <charconv>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>

namespace zero {

namespace detail {

inline constexpr std::string_view latest_name = "latest";
inline constexpr std::string_view best_name = "best";

/// A checkpoint's place in time: its step, and a number where the same step was saved again.
struct CheckpointName {
  Index step = 0;
  Index again = 0;
  auto operator<=>(CheckpointName const&) const = default;

  /// step-00000012, step-00000012.2
  std::string text() const {
    std::string digits = std::to_string(step);
    if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
    return "step-" + digits + (again > 0 ? "." + std::to_string(again) : "");
  }
  static std::optional<CheckpointName> of(std::string_view text) {
    constexpr std::string_view prefix = "step-";
    if (!text.starts_with(prefix)) return std::nullopt;
    CheckpointName name;
    char const* const end = text.data() + text.size();
    auto read = std::from_chars(text.data() + prefix.size(), end, name.step);
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '.')
      read = std::from_chars(read.ptr + 1, end, name.again);
    if (read.ec != std::errc() || name.text() != text) return std::nullopt;
    return name;
  }
};

/// All that have a checkpoint's name, oldest first.
inline std::vector<CheckpointName> checkpoint_names(Files& files, std::string const& folder) {
  std::vector<std::string> all;
  check_file(files.list(folder, all), "listing", folder);
  std::vector<CheckpointName> names;
  for (std::string const& text : all) {
    if (auto const name = CheckpointName::of(text)) names.push_back(*name);
  }
  std::ranges::sort(names);
  return names;
}

/// What `latest` or `best` names; nothing where there is no such file.
/// @throws CheckpointError where it names nothing, or what leaves the folder
inline std::optional<std::string> named_in(Files& files, std::string const& folder,
                                           std::string_view name) {
  std::string const path = join_path(folder, std::string(name));
  Index const bytes = files.size(path);
  if (bytes == -ENOENT) return std::nullopt;
  std::string text = read_text(files, path, 4096);
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos)
    text.pop_back();
  if (text.empty()) throw CheckpointError("checkpoint: '" + path + "' names no checkpoint");
  if (!is_plain_name(text)) {
    std::ranges::replace_if(text, is_control_character, '?');
    throw CheckpointError("checkpoint: '" + path + "' names '" + text.substr(0, 80) +
                          "', which is no folder beside it");
  }
  return text;
}

/// Takes a checkpoint away: its name first.
inline void remove_checkpoint(Files& files, std::string const& folder, std::string const& name) {
  std::string gone = join_path(folder, ".removing-" + name);
  int renamed = files.rename(join_path(folder, name), gone);
  while (renamed == -ENOTEMPTY || renamed == -EEXIST) {  // a leftover would not go
    gone += "~";
    renamed = files.rename(join_path(folder, name), gone);
  }
  check_file(renamed, "renaming", join_path(folder, name));
  sync_folder(files, folder);
  remove_folder_of_files(files, gone);
}

/// Takes away what saves and removals that were killed have left, as far as it goes: what somebody
/// has put in there, or may not be removed, is in nobody's way.
inline void remove_leftovers(Files& files, std::string const& folder) {
  std::vector<std::string> all;
  check_file(files.list(folder, all), "listing", folder);
  for (std::string const& name : all) {
    if (!name.starts_with(".saving-") && !name.starts_with(".removing-")) continue;
    try {
      remove_folder_of_files(files, join_path(folder, name));
    } catch (FileError const&) {  // whoever removed the checkpoint was told
    }
  }
}

/// A checkpoint's own folder takes nothing else: it would be foreign there, and what is saved below
/// it would never be found.
/// @param expected what should have been named
inline void require_no_checkpoint(Files& files, std::string const& dir, char const* expected) {
  if (is_there(files, join_path(dir, std::string(manifest_name)))) {
    throw CheckpointError("checkpoint: '" + dir + "' is a checkpoint itself; expected " + expected);
  }
  // Further up any program may have a manifest.json: there a checkpoint is known by its name too.
  for (std::string path = without_end_slashes(dir);
       path.find('/') != std::string::npos && path != "/";) {
    path = folder_above(path);
    if (CheckpointName::of(path.substr(path.find_last_of('/') + 1)) &&
        is_there(files, join_path(path, std::string(manifest_name)))) {
      throw CheckpointError("checkpoint: '" + dir + "' lies in the checkpoint '" + path +
                            "'; expected " + expected);
    }
  }
}

/// Where the files of a checkpoint are written before it has its name.
inline std::string work_folder(std::string const& dir, std::string const& name) {
  return join_path(dir, ".saving-" + name);
}

/// The right to write a checkpoint into a folder, which one save of a process has at a time: what
/// another one writes there would be taken for leftovers. Ends with the result.
/// @throws CheckpointError where a save of this process is not over there
inline std::shared_ptr<void> take_folder(Files& files, std::string const& dir) {
  struct Taken {
    std::mutex mutex{};
    std::set<std::pair<Files*, std::string>> places{};
  };
  // Held by each result, which may outlive what is static.
  static auto const all = std::make_shared<Taken>();
  std::pair<Files*, std::string> const place{
      &files, without_end_slashes(
                  std::filesystem::path(without_end_slashes(dir)).lexically_normal().string())};
  auto ends = [taken = all, ended = std::pair(place)](void*) {
    std::lock_guard const lock(taken->mutex);
    taken->places.erase(ended);
  };
  {
    std::lock_guard const lock(all->mutex);
    if (!all->places.insert(place).second) {
      throw CheckpointError("checkpoint: '" + dir +
                            "': a save in the background is not over there; wait() for it before "
                            "another one begins");
    }
  }
  // Without the lock: where there is no memory for it, the result ends at once.
  return {all.get(), std::move(ends)};
}

/// Makes the folder in which a checkpoint of this step is written. @return its name to be
inline std::string begin_checkpoint(Files& files, std::string const& dir, Index step) {
  require_no_checkpoint(files, dir, "the folder that holds the checkpoints of a run");
  make_folders(files, dir);
  // The first one, after which the folder's own name lasts.
  if (!is_there(files, join_path(dir, std::string(latest_name)))) sync_names_above(files, dir);
  remove_leftovers(files, dir);
  CheckpointName name{step, 0};
  for (CheckpointName const& there : checkpoint_names(files, dir)) {
    if (there.step == step) name.again = there.again + 1;
  }
  while (true) {
    std::string const path = work_folder(dir, name.text());
    int const made = files.make_folder(path);
    if (made != -EEXIST) {
      check_file(made, "making the folder", path);
      return name.text();
    }
    ++name.again;  // a leftover would not go
  }
}
/// Gives a folder whose files are whole its name.
inline void name_checkpoint(Files& files, std::string const& dir, std::string const& name) {
  std::string const work = work_folder(dir, name);
  sync_folder(files, work);
  check_file(files.rename(work, join_path(dir, name)), "renaming", work);
  sync_folder(files, dir);
}
/// The manifest, and the name.
inline void publish_checkpoint(Files& files, std::string const& dir, std::string const& name,
                               Manifest const& manifest) {
  write_text(files, join_path(work_folder(dir, name), std::string(manifest_name)),
             manifest_text(manifest));
  name_checkpoint(files, dir, name);
}
inline void name_latest(Files& files, std::string const& dir, std::string const& name) {
  replace_text(files, dir, std::string(latest_name), name + "\n");
}

/// The oldest checkpoints, so that with those that stay there are at most `limit`, without the
/// newest, and without those in `kept`.
inline std::vector<std::string> beyond_limit(std::vector<CheckpointName> const& names, Index limit,
                                             std::vector<std::string> const& kept) {
  Index over = std::ssize(names) - limit;
  std::vector<std::string> result;
  for (CheckpointName const& name : names) {
    if (over <= 0) break;
    if (std::ranges::find(kept, name.text()) != kept.end()) continue;
    result.push_back(name.text());
    --over;
  }
  return result;
}

}  // namespace detail

/// A checkpoint on disk.
struct FoundCheckpoint {
  std::string folder;   ///< path of the folder with the manifest
  Manifest manifest{};  ///< as it was read
};

/// Finds a checkpoint.
/// @param dir the folder of a checkpoint, or the folder that holds `latest`
/// @param files where
/// @throws CheckpointError naming what is missing: the folder, its manifest, `latest`, or what that
/// names; as read_manifest
inline FoundCheckpoint find_checkpoint(std::string const& dir,
                                       Files& files = PosixFiles::of_system()) {
  std::string const manifest(detail::manifest_name);
  std::string folder = dir;
  if (!detail::is_there(files, detail::join_path(dir, manifest))) {
    std::vector<std::string> names;
    detail::check_file(files.list(dir, names), "looking for a checkpoint in", dir);
    auto const latest = detail::named_in(files, dir, detail::latest_name);
    if (!latest) {
      std::string whole;
      for (detail::CheckpointName const& name : detail::checkpoint_names(files, dir))
        whole += (whole.empty() ? "" : ", ") + name.text();
      throw CheckpointError("checkpoint: '" + dir + "' has neither " + manifest +
                            " nor a file 'latest'" +
                            (whole.empty() ? "" : "; checkpoints in it: " + whole));
    }
    folder = detail::join_path(dir, *latest);
    if (!detail::is_there(files, detail::join_path(folder, manifest))) {
      throw CheckpointError("checkpoint: '" + detail::join_path(dir, "latest") + "' names '" +
                            *latest + "', which has no " + manifest);
    }
  }
  std::string const path = detail::join_path(folder, manifest);
  return {folder, read_manifest(detail::read_text(files, path, detail::max_manifest_bytes),
                                "'" + path + "'")};
}

}  // namespace zero
