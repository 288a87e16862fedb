// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writing files of blocks: while two blocks are on their way to the disk, the next is filled and
// takes its checksum. Two, so that the disk has one while the other's thread waits for a processor.

#include <zero/checkpoint/aligned_bytes.hpp>
#include <zero/checkpoint/block_file.hpp>
#include <zero/checkpoint/io_thread.hpp>

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>

namespace zero::detail {

/// Writes a new file from its beginning to its end. Bytes are put where room() says, whole blocks
/// are written by threads of this object, and what fails there is thrown by the next call: of
/// several blocks that fail, the failure of the first one in the file.
/// Memory: four blocks.
class BlockWriter {
 public:
  /// @param folder,name of the new file
  BlockWriter(Files& files, std::string const& folder, std::string name, Index block_bytes)
      : storage_(files), block_bytes_(block_bytes) {
    files_.reserve(num_threads);    // threads hold on to them
    threads_.reserve(num_threads);  // a thread that runs has to find its place
    files_.push_back(OpenFile::create(files, join_path(folder, name)));
    written_.name = std::move(name);
  }
  BlockWriter(BlockWriter const&) = delete;
  BlockWriter& operator=(BlockWriter const&) = delete;
  ~BlockWriter() { end_threads(); }

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
    end_threads();
    if (failure_) std::rethrow_exception(failure_);
    if (filled_ > 0) {
      add_checksum();
      files_[0].write(blocks_[handed_ % num_blocks].span().first(at(filled_)), written_.bytes);
      written_.bytes += filled_;
    }
    for (std::size_t f = 1; f < files_.size(); ++f) files_[f].close();
    files_[0].sync();
    files_[0].close();
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
  static constexpr std::size_t num_blocks = 4;
  static constexpr std::size_t num_threads = 2;

  void add_checksum() {
    written_.blocks.push_back(checksum(blocks_[handed_ % num_blocks].data(), at(filled_)));
  }
  void hand_over() {
    add_checksum();
    written_.bytes += filled_;
    filled_ = 0;
    std::unique_lock lock(mutex_);
    on_its_way_[handed_++ % num_blocks] = true;
    if (threads_.size() < num_threads && threads_.size() < handed_) {
      std::string const& path = files_[0].path();
      if (threads_.size() == files_.size())
        files_.push_back(OpenFile::open_to_write(storage_, path));
      OpenFile& file = files_[threads_.size()];
      threads_.push_back(
          start_io_thread("writing '" + path + "'", [this, &file] { write_blocks(file); }));
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return failure_ || !on_its_way_[handed_ % num_blocks]; });
    if (!failure_) return;
    lock.unlock();
    end_threads();  // the block before may be failing still
    std::rethrow_exception(failure_);
  }
  /// A thread's work: the next block that was handed over, until no more will come.
  void write_blocks(OpenFile& file) {
    std::unique_lock lock(mutex_);
    std::size_t i = 0;
    try {
      while (true) {
        changed_.wait(lock, [&] { return ends_ || failure_ || taken_ < handed_; });
        if (failure_ || taken_ == handed_) return;
        i = taken_++;
        lock.unlock();
        file.write(blocks_[i % num_blocks].span(), static_cast<Index>(i) * block_bytes_);
        lock.lock();
        on_its_way_[i % num_blocks] = false;
        changed_.notify_all();
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      if (!failure_ || i < failed_) {
        failure_ = std::current_exception();
        failed_ = i;
      }
      changed_.notify_all();
    }
  }
  void end_threads() {
    {
      std::lock_guard const lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  Files& storage_;
  std::vector<OpenFile> files_;  // a thread's own
  Index block_bytes_;
  std::array<AlignedBytes, num_blocks> blocks_;
  Index filled_ = 0;  // bytes of the block that is being filled
  CheckpointFile written_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t handed_ = 0;                     // blocks that are whole
  std::size_t taken_ = 0;                      // of them taken by a thread
  std::array<bool, num_blocks> on_its_way_{};  // handed over and not written, by place
  bool ends_ = false;
  std::exception_ptr failure_;
  std::size_t failed_ = 0;  // the block whose failure that is
  std::vector<std::thread> threads_;
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
