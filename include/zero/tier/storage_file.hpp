// SPDX-License-Identifier: Apache-2.0
#pragma once
// A file for state: made, reserved and without a name before the first byte is written, so that it
// is gone when its process is, however that ends, and no other run can come upon it.

#include <zero/core/error.hpp>
#include <zero/core/ledger.hpp>
#include <zero/tier/transfers.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

namespace zero {

/// Owner of a file of fixed size on a disk of this machine. Unbuffered (O_DIRECT) where its
/// filesystem can do that; on others, which keep files in memory, reads and writes are ordinary.
class StorageFile {
 public:
  StorageFile() = default;
  /// Makes the file and reserves all of its bytes.
  /// @param folder that exists, on a disk of this machine
  /// @param kind what it is for: part of its name, and its name in the ledger
  /// @param rank part of its name
  /// @param bytes a multiple of 4096
  /// @param ledger of bytes in files; outlives this
  /// @throws StorageError naming the folder and why it is of no use, or the file, the bytes wanted,
  ///   those that were reserved, and those that are free
  StorageFile(std::string const& folder, std::string_view kind, int rank, Index bytes,
              Ledger& ledger)
      : kind_(kind), bytes_(bytes), ledger_(&ledger) {
    check_folder(folder);
    static std::atomic<unsigned> made = 0;
    std::string name(kind);
    std::replace(name.begin(), name.end(), ' ', '_');
    path_ = folder + "/zero_" + name + "_rank" + std::to_string(rank) + "_" +
            std::to_string(getpid()) + "_" + std::to_string(made++);
    constexpr int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    constexpr mode_t mode = 0600;
    file_ = ::open(path_.c_str(), flags | O_DIRECT, mode);
    direct_ = file_ >= 0;
    if (file_ < 0 && errno == EINVAL) {
      ::unlink(path_.c_str());  // some systems have made it before they refuse
      file_ = ::open(path_.c_str(), flags, mode);
    }
    if (file_ < 0) throw StorageError("cannot make '" + path_ + "': " + detail::system_text(errno));
    ::unlink(path_.c_str());
    try {
      ledger_->take(kind_, bytes_);
      taken_ = true;
      reserve(folder);
    } catch (...) {
      close();
      throw;
    }
  }
  /// Takes over the file; the other has none.
  StorageFile(StorageFile&& other) noexcept { *this = std::move(other); }
  /// Exchanges the files of the two.
  StorageFile& operator=(StorageFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    std::swap(ledger_, other.ledger_);
    std::swap(file_, other.file_);
    std::swap(direct_, other.direct_);
    std::swap(taken_, other.taken_);
    return *this;
  }
  ~StorageFile() { close(); }

  int descriptor() const { return file_; }           ///< stays this object's
  bool direct() const { return direct_; }            ///< no page cache is between
  std::string const& path() const { return path_; }  ///< it had while it was made

  /// @throws StorageError where a transfer of this file has failed: file, operation, offset, bytes,
  ///   the system's reason
  void check(Transfer const& transfer) const {
    Transfer::Failure const& f = transfer.failure;
    if (!f.failed) return;
    std::string const did = transfer.writes ? "wrote " : "read ";
    std::string const why =
        f.error == 0 ? std::string("the file ends there") : detail::system_text(f.error);
    throw StorageError("'" + path_ + "' (" + kind_ + "): " + did + std::to_string(f.transferred) +
                       " of " + std::to_string(f.wanted) + " bytes, up to offset " +
                       std::to_string(f.offset) + ": " + why +
                       (f.error == 0 ? std::string() : " (errno " + std::to_string(f.error) + ")"));
  }

 private:
  static void check_folder(std::string const& folder) {
    auto const refuse = [&](std::string const& why) {
      throw StorageError("OffloadOptions::nvme_path: '" + folder + "' " + why +
                         "; expected a folder of a disk of this machine that may be written to");
    };
    if (folder.empty()) refuse("is no path");
    struct stat info {};
    if (::stat(folder.c_str(), &info) != 0) refuse("is not there: " + detail::system_text(errno));
    if (!S_ISDIR(info.st_mode)) refuse("is no folder");
    struct statfs system {};
    if (::statfs(folder.c_str(), &system) != 0)
      refuse("has a filesystem that does not answer: " + detail::system_text(errno));
    constexpr std::array<std::pair<unsigned long, char const*>, 7> networks{{{0x6969, "NFS"},
                                                                             {0xff534d42, "CIFS"},
                                                                             {0xfe534d42, "SMB2"},
                                                                             {0x517b, "SMB"},
                                                                             {0x00c36400, "Ceph"},
                                                                             {0x0bd00bd0, "Lustre"},
                                                                             {0x01021997, "9P"}}};
    for (auto const& [magic, name] : networks) {
      if ((static_cast<unsigned long>(system.f_type) & 0xffffffff) == magic)
        refuse(std::string("lies on a network filesystem (") + name + ")");
    }
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
      refuse("cannot be written to: " + detail::system_text(errno));
  }

  void reserve(std::string const& folder) {
    constexpr Index chunk = Index{1} << 28;  // so that "reserved" says how far it came
    for (Index done = 0; done < bytes_; done += chunk) {
      Index const n = std::min(chunk, bytes_ - done);
      int error = ::posix_fallocate(file_, static_cast<off_t>(done), static_cast<off_t>(n));
      while (error == EINTR)
        error = ::posix_fallocate(file_, static_cast<off_t>(done), static_cast<off_t>(n));
      if (error == 0) continue;
      struct statvfs system {};
      bool const known = ::statvfs(folder.c_str(), &system) == 0;
      throw StorageError(
          "cannot reserve '" + path_ + "': wanted " + std::to_string(bytes_) + " bytes, wrote " +
          std::to_string(done) + ", free " +
          (known ? std::to_string(system.f_bavail * system.f_frsize) : std::string("unknown")) +
          ": " + detail::system_text(error) + " (errno " + std::to_string(error) + ")");
    }
  }
  void close() noexcept {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
    if (std::exchange(taken_, false)) ledger_->give(kind_, bytes_);
  }

  std::string path_{};
  std::string kind_{};
  Index bytes_ = 0;
  Ledger* ledger_ = nullptr;
  int file_ = -1;
  bool direct_ = false;
  bool taken_ = false;
};

}  // namespace zero
