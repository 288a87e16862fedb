// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writing files of blocks: while one block is on its way to the disk, the next is filled and takes
// its checksum.

#include <zero/checkpoint/aligned_bytes.hpp>
#include <zero/checkpoint/block_file.hpp>
#include <zero/checkpoint/io_thread.hpp>

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>

namespace zero::detail {

/// Writes a new file from its beginning to its end. Bytes are put where room() says, whole blocks
/// are written by a thread of this object, and what fails there is thrown by the next call.
/// Memory: three blocks.
class BlockWriter {
 public:
  /// @param folder,name of the new file
  BlockWriter(Files& files, std::string const& folder, std::string name, Index block_bytes)
      : file_(OpenFile::create(files, join_path(folder, name))), block_bytes_(block_bytes) {
    written_.name = std::move(name);
  }
  BlockWriter(BlockWriter const&) = delete;
  BlockWriter& operator=(BlockWriter const&) = delete;
  ~BlockWriter() { end_thread(); }

  /// Where the next bytes go, at least one.
  std::span<std::byte> room() {
    AlignedBytes& block = blocks_[handed_ % num_blocks];
    if (block.data() == nullptr) block = AlignedBytes(block_bytes_);
    return block.span().subspan(at(filled_));
  }
  /// So many bytes of room() have been filled.
  void filled(Index bytes) {
    filled_ += bytes;
    if (filled_ == block_bytes_) hand_over();
  }
  void append(std::span<std::byte const> bytes) { fill(*this, bytes); }
  /// Writes what is left, syncs and closes.
  CheckpointFile finish() {
    end_thread();
    if (failure_) std::rethrow_exception(failure_);
    if (filled_ > 0) {
      add_checksum();
      file_.write(blocks_[handed_ % num_blocks].span().first(at(filled_)), written_.bytes);
      written_.bytes += filled_;
    }
    file_.sync();
    file_.close();
    return std::move(written_);
  }

  /// Puts bytes where a sink has room. @tparam Sink with room() and filled(bytes)
  template <class Sink>
  static void fill(Sink& sink, std::span<std::byte const> bytes) {
    while (!bytes.empty()) {
      std::span<std::byte> const room = sink.room();
      std::size_t const n = std::min(bytes.size(), room.size());
      std::copy_n(bytes.begin(), n, room.begin());
      sink.filled(static_cast<Index>(n));
      bytes = bytes.subspan(n);
    }
  }

 private:
  static constexpr std::size_t num_blocks = 3;

  void add_checksum() {
    written_.blocks.push_back(checksum(blocks_[handed_ % num_blocks].data(), at(filled_)));
  }
  void hand_over() {
    add_checksum();
    written_.bytes += filled_;
    filled_ = 0;
    std::unique_lock lock(mutex_);
    ++handed_;
    if (!thread_.joinable()) {
      thread_ = start_io_thread("writing '" + file_.path() + "'", [this] { write_blocks(); });
    }
    changed_.notify_all();
    // The block that is filled next is none of those on their way.
    changed_.wait(lock, [&] { return failure_ || handed_ - done_ < num_blocks; });
    if (failure_) std::rethrow_exception(failure_);
  }
  /// The thread's work, until all that was handed over is written and no more will come.
  void write_blocks() {
    std::unique_lock lock(mutex_);
    try {
      for (;; ++done_, changed_.notify_all()) {
        changed_.wait(lock, [&] { return ends_ || done_ < handed_; });
        if (done_ == handed_) return;
        lock.unlock();
        file_.write(blocks_[done_ % num_blocks].span(), static_cast<Index>(done_) * block_bytes_);
        lock.lock();
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }
  void end_thread() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard const lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  OpenFile file_;  // the thread's while that runs
  Index block_bytes_;
  std::array<AlignedBytes, num_blocks> blocks_;
  Index filled_ = 0;  // bytes of the block that is being filled
  CheckpointFile written_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t handed_ = 0;  // blocks that are whole
  std::size_t done_ = 0;    // of them written
  bool ends_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

/// A whole new file of bytes that are all there. @param bytes page-aligned, so that none is copied
inline CheckpointFile write_block_file(Files& files, std::string const& folder, std::string name,
                                       Index block_bytes, std::span<std::byte const> bytes) {
  OpenFile file = OpenFile::create(files, join_path(folder, name));
  CheckpointFile written{std::move(name), 0, {}};
  while (!bytes.empty()) {
    std::span<std::byte const> const block = bytes.first(std::min(bytes.size(), at(block_bytes)));
    written.blocks.push_back(checksum(block.data(), block.size()));
    file.write(block, written.bytes);
    written.bytes += std::ssize(block);
    bytes = bytes.subspan(block.size());
  }
  file.sync();
  file.close();
  return written;
}

}  // namespace zero::detail
