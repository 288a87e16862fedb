// SPDX-License-Identifier: Apache-2.0
#pragma once
// The calls of the operating system that this room makes, as an interface: another storage can
// stand behind it, and tests make every single call fail, fall short, or be the last one.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

/// What is wrong with a checkpoint, or with the wish to read or write it: names file and tensor.
struct CheckpointError : Error {
  using Error::Error;
};

/// A call on a file that failed: names the call, the file, the offset and the system's reason.
struct FileError : CheckpointError {
  /// @param what the sentence
  /// @param code errno, such as ENOSPC
  FileError(std::string const& what, int code) : CheckpointError(what), code_(code) {}
  int code() const { return code_; }  ///< errno; 0 where a file ended too early

 private:
  int code_;
};

/// A storage of files in folders. Paths are separated by '/'. What fails returns -errno, and
/// nothing is thrown. Called from several threads at once, on different descriptors; the calls on
/// one descriptor come one after the other, not all from one thread. After sync() of a file its
/// bytes survive a loss of power, whichever descriptor wrote them, after sync() of a folder so do
/// the names in it; rename() replaces a file in one step, whatever happens.
class Files {
 public:
  virtual ~Files() = default;
  /// A descriptor of a new, empty file to write. -EEXIST where there is one.
  virtual int create(std::string const& path) = 0;
  /// Another descriptor to write a file that is there, which keeps its bytes.
  virtual int open_to_write(std::string const& path) = 0;
  /// A descriptor of a file, to read, or of a folder, to sync.
  virtual int open(std::string const& path) = 0;
  /// Bytes written at `offset`, possibly fewer than `bytes`.
  virtual Index write(int file, std::byte const* from, Index bytes, Index offset) = 0;
  /// Bytes read at `offset`, possibly fewer than `bytes`; 0 at the end of the file.
  virtual Index read(int file, std::byte* to, Index bytes, Index offset) = 0;
  /// As read, of bytes that nobody will soon ask for again: a storage need not keep them at hand.
  virtual Index read_once(int file, std::byte* to, Index bytes, Index offset) {
    return read(file, to, bytes, offset);
  }
  /// Brings the file, or the names of the folder, to where they last.
  virtual int sync(int file) = 0;
  /// Ends the use of a descriptor, whatever it returns.
  virtual int close(int file) = 0;
  /// Replaces `to`, where it is a file.
  virtual int rename(std::string const& from, std::string const& to) = 0;
  /// Takes a file away.
  virtual int remove(std::string const& path) = 0;
  /// -EEXIST where there is one.
  virtual int make_folder(std::string const& path) = 0;
  /// Takes an empty folder away.
  virtual int remove_folder(std::string const& path) = 0;
  /// Bytes of a file; -EISDIR of a folder.
  virtual Index size(std::string const& path) = 0;
  /// The names in a folder, in any order.
  virtual int list(std::string const& path, std::vector<std::string>& names) = 0;
};

/// The files of the system.
class PosixFiles final : public Files {
 public:
  int create(std::string const& path) override {
    return opened(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  }
  int open_to_write(std::string const& path) override {
    return opened(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  }
  int open(std::string const& path) override {
    return opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  /// Large writes from where a disk can take them go past the system's memory, which saves a copy
  /// and leaves little for sync() to wait for.
  Index write(int file, std::byte const* from, Index bytes, Index offset) override {
    return directly(file, from, bytes, offset,
                    [&] { return ::pwrite(file, from, at(bytes), offset); });
  }
  Index read(int file, std::byte* to, Index bytes, Index offset) override {
    ssize_t const n = ::pread(file, to, at(bytes), offset);
    return n < 0 ? Index{-errno} : Index{n};
  }
  /// Past the system's memory, as large writes.
  Index read_once(int file, std::byte* to, Index bytes, Index offset) override {
    return directly(file, to, bytes, offset, [&] { return ::pread(file, to, at(bytes), offset); });
  }
  int sync(int file) override { return result(::fsync(file)); }
  int close(int file) override { return result(::close(file)); }
  int rename(std::string const& from, std::string const& to) override {
    return result(::rename(from.c_str(), to.c_str()));
  }
  int remove(std::string const& path) override { return result(::unlink(path.c_str())); }
  int make_folder(std::string const& path) override { return result(::mkdir(path.c_str(), 0755)); }
  int remove_folder(std::string const& path) override { return result(::rmdir(path.c_str())); }
  Index size(std::string const& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return -errno;
    if (S_ISREG(status.st_mode)) return status.st_size;
    return S_ISDIR(status.st_mode) ? -EISDIR : -EINVAL;  // a pipe has no size, and is not opened
  }
  int list(std::string const& path, std::vector<std::string>& names) override {
    DIR* const folder = ::opendir(path.c_str());
    if (folder == nullptr) return -errno;
    names.clear();
    int failed = 0;
    while (true) {
      errno = 0;  // readdir alone may set it: its end and its failure differ by nothing else
      // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has the folder
      dirent const* const entry = ::readdir(folder);
      if (entry == nullptr) {
        failed = errno;
        break;
      }
      std::string_view const name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(folder);
    return -failed;
  }

  /// The one that is used where no other is given.
  static PosixFiles& of_system() {
    static PosixFiles files;
    return files;
  }

 private:
  /// @param call pwrite or pread of all the bytes
  template <class Call>
  static Index directly(int file, std::byte const* memory, Index bytes, Index offset, Call call) {
#ifdef O_DIRECT
    bool const aligned = reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0 &&
                         bytes % 4096 == 0 && offset % 4096 == 0 && bytes >= Index{1} << 20;
    int const flags = ::fcntl(file, F_GETFL);
    if (flags >= 0 && ((flags & O_DIRECT) != 0) != aligned)
      ::fcntl(file, F_SETFL, aligned ? flags | O_DIRECT : flags & ~O_DIRECT);  // or it has none
    ssize_t const direct = call();
    if (direct >= 0 || errno != EINVAL) return direct < 0 ? Index{-errno} : Index{direct};
    ::fcntl(file, F_SETFL, flags & ~O_DIRECT);
#endif
    ssize_t const n = call();
    return n < 0 ? Index{-errno} : Index{n};
  }
  static int opened(int file) { return file < 0 ? -errno : file; }
  static int result(int status) { return status < 0 ? -errno : 0; }
};

namespace detail {

/// @param code errno, positive
[[noreturn]] inline void throw_file_error(std::string const& call, std::string const& path,
                                          int code) {
  throw FileError("checkpoint: " + call + " '" + path + "' failed: " + detail::system_text(code) +
                      " (errno " + std::to_string(code) + ")",
                  code);
}
/// @param status of a call of Files
inline void check_file(Index status, std::string const& call, std::string const& path) {
  if (status < 0) throw_file_error(call, path, static_cast<int>(-status));
}

inline std::string join_path(std::string const& folder, std::string const& name) {
  return folder.empty() || folder.back() == '/' ? folder + name : folder + "/" + name;
}
inline std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}
/// The folder that holds the last name of a path without slashes at its end: "." of "run", "/" of
/// "/run".
inline std::string folder_above(std::string const& path) {
  std::size_t const slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : without_end_slashes(path.substr(0, slash));
}
/// Whether a file is there. @throws FileError where the system cannot say
inline bool is_there(Files& files, std::string const& path) {
  Index const bytes = files.size(path);
  if (bytes == -ENOENT || bytes == -ENOTDIR) return false;
  check_file(bytes, "asking for the size of", path);
  return true;
}
/// What would move a terminal's cursor, or begin a line that nobody wrote.
inline bool is_control_character(char c) {
  auto const code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7f;
}
/// A name that stays in its folder, and on its line where it is printed.
inline bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() < 256 &&
         name.find('/') == std::string_view::npos &&
         std::ranges::none_of(name, is_control_character);
}

}  // namespace detail

}  // namespace zero
