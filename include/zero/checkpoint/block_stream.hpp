// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reading many blocks of a file in an order that is known before: the next ones come from the disk
// while the caller works on one. Two threads read, so that the disk has a request while one of them
// waits for a processor.

#include <zero/checkpoint/aligned_bytes.hpp>
#include <zero/checkpoint/block_file.hpp>
#include <zero/checkpoint/io_thread.hpp>

#include <condition_variable>
#include <exception>
#include <mutex>

namespace zero::detail {

/// What becomes of the blocks of a stream.
enum class BlockUse {
  again,  ///< all will be asked of the system again, whose memory may hold them
  once    ///< nobody will ask for them again
};

/// Blocks of one file, verified where the file has checksums. A file without them is read as it is.
/// Memory: four blocks.
class BlockStream {
 public:
  /// @param expected the file as the manifest has it; outlives this
  /// @param blocks their numbers, in the order in which they will be asked for
  /// @throws CheckpointError where the file is missing or has another size
  BlockStream(Files& files, std::string const& folder, CheckpointFile const& expected,
              Index block_bytes, std::vector<Index> blocks, BlockUse use)
      : expected_(expected),
        block_bytes_(block_bytes),
        blocks_(std::move(blocks)),
        once_(use != BlockUse::again),
        stride_(place_bytes(expected, block_bytes)),
        depth_(std::min<std::size_t>(blocks_.size(), 4)),
        memory_(static_cast<Index>(depth_) * stride_),
        there_(blocks_.size()) {
    for (std::size_t t = 0; t < std::clamp<std::size_t>(blocks_.size(), 1, num_threads); ++t)
      files_.push_back(open_block_file(files, folder, expected));
    if (blocks_.size() < 2) return;
    threads_.reserve(files_.size());  // before: a thread that runs has to find its place
    try {
      for (OpenFile& file : files_) {
        threads_.push_back(
            start_io_thread("reading '" + file.path() + "'", [this, &file] { read_blocks(file); }));
      }
    } catch (...) {  // the first one is there and the second is not
      end_threads();
      throw;
    }
  }
  BlockStream(BlockStream const&) = delete;
  BlockStream& operator=(BlockStream const&) = delete;
  ~BlockStream() { end_threads(); }

  /// Memory that a block takes: whole pages, as a disk wants them.
  static Index place_bytes(CheckpointFile const& file, Index block_bytes) {
    return round_up(std::min(block_bytes, file.bytes), Index{4096});
  }

  Index bytes_read() const { return bytes_read_; }  ///< of blocks that were asked for
  /// The bytes of the i-th of the blocks, verified when it is asked for first; those before it are
  /// gone.
  /// @param what is being read, for errors
  /// @throws CheckpointError as the system has it, or for a block that is damaged
  std::span<std::byte const> block(std::size_t i, std::string_view what) {
    if (!threads_.empty()) {
      std::unique_lock lock(mutex_);
      if (i > wanted_) {
        wanted_ = i;
        changed_.notify_all();
      }
      changed_.wait(lock, [&] { return there_[i] || failure_; });
      if (!there_[i]) std::rethrow_exception(failure_);
    } else if (!there_[0]) {
      read_block(files_[0], 0);
      there_[0] = true;
    }
    std::span<std::byte const> const bytes = place(i);
    if (i == verified_) {
      if (!expected_.blocks.empty())
        verify_block(expected_, files_[0].path(), blocks_[i], bytes, block_bytes_, what);
      bytes_read_ += std::ssize(bytes);
      ++verified_;
    }
    return bytes;
  }

 private:
  std::span<std::byte> place(std::size_t i) const {
    Index const n = std::min(block_bytes_, expected_.bytes - blocks_[i] * block_bytes_);
    return memory_.span().subspan((i % depth_) * at(stride_), at(n));
  }
  void read_block(OpenFile& file, std::size_t i) {
    Index const offset = blocks_[i] * block_bytes_;
    if (once_) {
      file.read_once(place(i), offset);
    } else {
      file.read(place(i), offset);
    }
  }
  /// A thread's work: the next block that nobody reads, where there is room for it.
  void read_blocks(OpenFile& file) {
    std::unique_lock lock(mutex_);
    try {
      while (true) {
        changed_.wait(lock, [&] {
          return ends_ || failure_ || taken_ == blocks_.size() || taken_ < wanted_ + depth_;
        });
        if (ends_ || failure_ || taken_ == blocks_.size()) return;
        std::size_t const i = taken_++;
        lock.unlock();
        read_block(file, i);
        lock.lock();
        there_[i] = true;
        changed_.notify_all();
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      failure_ = std::current_exception();
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

  static constexpr std::size_t num_threads = 2;

  CheckpointFile const& expected_;
  Index block_bytes_;
  std::vector<Index> blocks_;
  bool once_;
  Index stride_;
  std::size_t depth_;  // blocks that memory_ has room for
  AlignedBytes memory_;
  std::vector<OpenFile> files_;  // a thread's own
  std::size_t verified_ = 0;
  Index bytes_read_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t wanted_ = 0;   // blocks before it are not needed any more
  std::size_t taken_ = 0;    // blocks that a thread reads or has read
  std::vector<char> there_;  // blocks that are read
  bool ends_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace zero::detail
