// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transfers between host memory and files that run while the host does something else, and the
// threads that make them. Nothing is allocated a transfer.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace zero {

/// One range of a file, read to or written from memory that stays until the transfer is done. Done
/// when made; given to Transfers::start, it is under way until Transfers::wait returns. Reads and
/// writes what it was asked to, or has a failure.
struct Transfer {
  /// What went wrong first.
  struct Failure {
    bool failed = false;    ///< it did not end well
    int error = 0;          ///< errno; 0: the file ends there
    Index offset = 0;       ///< of the file, where it went wrong
    Index wanted = 0;       ///< bytes of the request
    Index transferred = 0;  ///< of these
  };

  int file = -1;                ///< descriptor
  bool writes = false;          ///< to the file
  std::byte* memory = nullptr;  ///< of `bytes`
  Index bytes = 0;              ///< in all
  Index offset = 0;             ///< in the file
  Failure failure{};            ///< once it is done

  Index next = 0;              ///< for Transfers alone: bytes given out to requests
  Index left = 0;              ///< for Transfers alone: bytes whose requests have not ended
  Transfer* behind = nullptr;  ///< for Transfers alone: the next of the queue
};

/// What makes transfers. start() returns at once; transfers may run in any order, and several at a
/// time; wait() returns when one is done, whatever has become of it, at once where it was never
/// started. Safe to use from several threads.
class Transfers {
 public:
  virtual ~Transfers() = default;
  /// Begins; `transfer` is done, and stays where it is until it is done again.
  virtual void start(Transfer& transfer) = 0;
  /// Returns once it is done.
  virtual void wait(Transfer& transfer) noexcept = 0;
};

/// Reads or writes all bytes of one request; goes on where the system stops early.
/// @param transfer whose memory and file they are
/// @param begin first byte, in the transfer
/// @param count bytes
inline Transfer::Failure transfer_all(Transfer const& transfer, Index begin, Index count) {
  constexpr Index sector = 4096;  // unbuffered files take and give whole ones
  Index done = 0;
  int idle = 0;
  while (done < count) {
    std::byte* const memory = transfer.memory + begin + done;
    auto const offset = static_cast<off_t>(transfer.offset + begin + done);
    ssize_t const n = transfer.writes ? ::pwrite(transfer.file, memory, at(count - done), offset)
                                      : ::pread(transfer.file, memory, at(count - done), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return {true, errno, transfer.offset + begin + done, count, done};
    Index const whole = n == count - done ? n : n / sector * sector;
    idle = whole == 0 ? idle + 1 : 0;
    // Once may be a signal's doing; three times the file ends, or the disk takes no more.
    if (n == 0 || idle == 3)
      return {true, transfer.writes ? ENOSPC : 0, transfer.offset + begin + done + n, count,
              done + n};
    done += whole;
  }
  return {};
}

/// Transfers by threads of its own, which share each transfer request by request.
class ThreadTransfers final : public Transfers {
 public:
  /// @param threads requests under way at once
  /// @param block_bytes of a request
  /// @throws Error when the system has no more threads
  ThreadTransfers(int threads, Index block_bytes) : block_(block_bytes) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
    } catch (std::exception const& e) {
      end();
      throw Error("ThreadTransfers: the system gave " + std::to_string(threads_.size()) + " of " +
                  std::to_string(threads) + " threads: " + e.what());
    }
  }
  ThreadTransfers(ThreadTransfers const&) = delete;
  ThreadTransfers& operator=(ThreadTransfers const&) = delete;
  /// Ends what is under way; what has not begun is left out.
  ~ThreadTransfers() override { end(); }

  /// As Transfers says.
  void start(Transfer& transfer) override {
    std::lock_guard const lock(mutex_);
    transfer.failure = {};
    transfer.next = 0;
    transfer.left = transfer.bytes;
    transfer.behind = nullptr;
    if (transfer.bytes == 0) return;
    (last_ == nullptr ? first_ : last_->behind) = &transfer;
    last_ = &transfer;
    work_.notify_all();
  }
  /// As Transfers says.
  void wait(Transfer& transfer) noexcept override {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return transfer.left == 0; });
  }

 private:
  void end() noexcept {
    {
      std::lock_guard const lock(mutex_);
      over_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return over_ || first_ != nullptr; });
      if (over_) return;
      Transfer& transfer = *first_;
      Index const begin = transfer.next;
      Index const count = std::min(block_, transfer.bytes - begin);
      transfer.next += count;
      if (transfer.next == transfer.bytes) {
        first_ = transfer.behind;
        if (first_ == nullptr) last_ = nullptr;
      }
      lock.unlock();
      Transfer::Failure const failure = transfer_all(transfer, begin, count);
      lock.lock();
      if (failure.failed && !transfer.failure.failed) transfer.failure = failure;
      transfer.left -= count;
      if (transfer.left == 0) done_.notify_all();
    }
  }

  Index block_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  Transfer* first_ = nullptr;
  Transfer* last_ = nullptr;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace zero
