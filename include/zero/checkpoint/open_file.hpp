// SPDX-License-Identifier: Apache-2.0
#pragma once
// One open file, or folder, whose calls continue where the system fell short and throw where it
// failed.

#include <zero/checkpoint/files.hpp>

#include <span>
#include <utility>

namespace zero::detail {

/// Owner of a descriptor.
class OpenFile {
 public:
  static OpenFile create(Files& files, std::string const& path) {
    int const file = files.create(path);
    check_file(file, "creating", path);
    return {files, path, file};
  }
  /// Another descriptor of a file that was created, for another thread.
  static OpenFile open_to_write(Files& files, std::string const& path) {
    int const file = files.open_to_write(path);
    check_file(file, "opening", path);
    return {files, path, file};
  }
  static OpenFile open(Files& files, std::string const& path) {
    int const file = files.open(path);
    check_file(file, "opening", path);
    return {files, path, file};
  }
  OpenFile(OpenFile&& other) noexcept
      : files_(other.files_),
        path_(std::move(other.path_)),
        file_(std::exchange(other.file_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(files_, other.files_);
    std::swap(path_, other.path_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~OpenFile() {
    if (file_ >= 0) files_->close(file_);
  }

  std::string const& path() const { return path_; }

  void write(std::span<std::byte const> bytes, Index offset) {
    while (!bytes.empty()) {
      Index const n = files_->write(file_, bytes.data(), std::ssize(bytes), offset);
      if (n == -EINTR) continue;
      if (n <= 0) {
        throw_file_error("writing " + std::to_string(bytes.size()) + " bytes at " +
                             std::to_string(offset) + " of",
                         path_, n == 0 ? EIO : static_cast<int>(-n));
      }
      bytes = bytes.subspan(at(n));
      offset += n;
    }
  }
  /// All of `to`. @throws FileError where the file ends before
  void read(std::span<std::byte> to, Index offset) { read_by(&Files::read, to, offset); }
  /// The same, of bytes that nobody will soon ask for again.
  void read_once(std::span<std::byte> to, Index offset) { read_by(&Files::read_once, to, offset); }
  void sync() { check_file(files_->sync(file_), "syncing", path_); }
  /// As the destructor, and throws what the system says.
  void close() { check_file(files_->close(std::exchange(file_, -1)), "closing", path_); }

 private:
  OpenFile(Files& files, std::string path, int file)
      : files_(&files), path_(std::move(path)), file_(file) {}

  void read_by(Index (Files::*call)(int, std::byte*, Index, Index), std::span<std::byte> to,
               Index offset) {
    Index const end = offset + std::ssize(to);
    while (!to.empty()) {
      Index const n = (files_->*call)(file_, to.data(), std::ssize(to), offset);
      if (n == -EINTR) continue;
      if (n < 0) {
        throw_file_error(
            "reading " + std::to_string(to.size()) + " bytes at " + std::to_string(offset) + " of",
            path_, static_cast<int>(-n));
      }
      if (n == 0) {
        throw FileError("checkpoint: '" + path_ + "' ends after " + std::to_string(offset) +
                            " bytes; expected at least " + std::to_string(end),
                        0);
      }
      to = to.subspan(at(n));
      offset += n;
    }
  }

  Files* files_;
  std::string path_;
  int file_;
};

inline void sync_folder(Files& files, std::string const& path) {
  OpenFile folder = OpenFile::open(files, path);
  folder.sync();
  folder.close();
}

/// The folder and those above it that are missing; each that is made is synced into the one above.
inline void make_folders(Files& files, std::string const& folder) {
  std::string const path = without_end_slashes(folder);
  int made = files.make_folder(path);
  if (made == -ENOENT && path.find('/') != std::string::npos) {
    make_folders(files, folder_above(path));
    made = files.make_folder(path);
  }
  if (made == -EEXIST) return;
  check_file(made, "making the folder", path);
  sync_folder(files, folder_above(path));
}

/// Brings the name of a folder that was there, and those of the folders above it, to where they
/// last: whoever made them may have been killed before. Ends at a folder that this process may not
/// read, in which somebody else has made the name, or whose file system does not sync folders.
inline void sync_names_above(Files& files, std::string const& folder) {
  std::string path = without_end_slashes(folder);
  while (path != "." && path != ".." && path != "/") {
    path = folder_above(path);
    try {
      sync_folder(files, path);
    } catch (FileError const& e) {
      if (e.code() != EACCES && e.code() != EINVAL && e.code() != EROFS) throw;
      return;
    }
  }
}

/// A folder and the files in it. @throws FileError naming a folder inside, which nobody here has
/// made
inline void remove_folder_of_files(Files& files, std::string const& path) {
  std::vector<std::string> names;
  check_file(files.list(path, names), "listing", path);
  for (std::string const& name : names)
    check_file(files.remove(join_path(path, name)), "removing", join_path(path, name));
  check_file(files.remove_folder(path), "removing the folder", path);
}

/// A folder of files that is taken away with this object, unless it is to be kept.
class WorkFolder {
 public:
  /// @param path of a folder that is there
  WorkFolder(Files& files, std::string path) : files_(files), path_(std::move(path)) {}
  WorkFolder(WorkFolder const&) = delete;
  WorkFolder& operator=(WorkFolder const&) = delete;
  ~WorkFolder() {
    if (kept_) return;
    try {
      remove_folder_of_files(files_, path_);
    } catch (...) {  // the next save takes it away, and what has failed is thrown
    }
  }
  std::string const& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  Files& files_;
  std::string path_;
  bool kept_ = false;
};

/// A whole small file. @throws CheckpointError beyond `most` bytes
inline std::string read_text(Files& files, std::string const& path, Index most) {
  Index const bytes = files.size(path);
  check_file(bytes, "opening", path);
  if (bytes > most) {
    throw CheckpointError("checkpoint: '" + path + "' has " + std::to_string(bytes) +
                          " bytes; expected at most " + std::to_string(most));
  }
  std::string text(at(bytes), '\0');
  OpenFile file = OpenFile::open(files, path);
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return text;
}
/// A new file, synced.
inline void write_text(Files& files, std::string const& path, std::string_view text) {
  OpenFile file = OpenFile::create(files, path);
  file.write(std::as_bytes(std::span(text.data(), text.size())), 0);
  file.sync();
  file.close();
}
/// A file in place of the one that is there, in one step, whatever happens.
inline void replace_text(Files& files, std::string const& folder, std::string const& name,
                         std::string_view text) {
  std::string const made = join_path(folder, "." + name + ".saving");
  files.remove(made);  // left by a save that was killed
  write_text(files, made, text);
  check_file(files.rename(made, join_path(folder, name)), "renaming", made);
  sync_folder(files, folder);
}

}  // namespace zero::detail
