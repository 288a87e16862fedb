// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every model of Transfers does alike: transfers wait in a queue, are cut into requests, and
// are done once all requests have ended. What is under way at once is the model's.

#include <zero/core/argument.hpp>
#include <zero/tier/transfers.hpp>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

namespace zero {

/// Bytes of a request, as they were given: unbuffered files take and give whole sectors.
/// @param model of Transfers, in the message
/// @param block_bytes of a request
/// @throws InvalidArgument where they are no multiple of 4096
inline Index checked_block_bytes(std::string const& model, Index block_bytes) {
  require_argument(block_bytes >= 4096 && block_bytes % 4096 == 0, model + ": block_bytes",
                   block_bytes, "a multiple of 4096 bytes");
  return block_bytes;
}

/// A part of a transfer that is asked of the system at once, and how far it has come. Whoever makes
/// the system's calls gives their results to take(), so that all go on, and give up, alike.
struct TransferRequest {
  /// What is to be done next.
  enum class Next {
    ask,    ///< for the rest
    pause,  ///< for pause_ms, then ask again
    end     ///< it has ended, well or not
  };
  static constexpr int pause_ms = 1;        ///< after the system had no room for it
  static constexpr int most_pauses = 2000;  ///< in a row; then that is what went wrong

  Transfer* transfer = nullptr;  ///< whose part it is
  Index begin = 0;               ///< first byte, in the transfer
  Index count = 0;               ///< bytes
  Index done = 0;                ///< of these, in whole sectors
  int idle = 0;                  ///< calls in a row that moved no whole sector
  int pauses = 0;                ///< in a row
  Transfer::Failure failure{};   ///< once it has ended

  std::byte* memory() const { return transfer->memory + begin + done; }  ///< of the rest
  Index left() const { return count - done; }                            ///< bytes of the rest
  Index offset() const { return transfer->offset + begin + done; }  ///< of the rest, in the file

  /// Takes in what a call for the rest has returned.
  /// @param result bytes, or a negative errno
  Next take(Index result) {
    constexpr Index sector = 4096;  // unbuffered files take and give whole ones
    if (result == -EINTR) return Next::ask;
    if (result == -EAGAIN && ++pauses < most_pauses) return Next::pause;
    if (result < 0) return fail(static_cast<int>(-result), 0);
    pauses = 0;
    Index const whole = result == left() ? result : result / sector * sector;
    idle = whole == 0 ? idle + 1 : 0;
    // Once may be a signal's doing; three times the file ends, or the disk takes no more.
    if (result == 0 || idle == 3) return fail(transfer->writes ? ENOSPC : 0, result);
    done += whole;
    return left() == 0 ? Next::end : Next::ask;
  }
  /// Ends it. @param error errno, 0: the file ends there @param more bytes that moved beyond `done`
  Next fail(int error, Index more) {
    failure = {true, error, offset() + more, count, done + more};
    return Next::end;
  }
};

/// Transfers that are to be made, first come first served. Safe to use from several threads.
class TransferQueue {
 public:
  /// @param block_bytes most of one request
  explicit TransferQueue(Index block_bytes) : block_(block_bytes) {}
  TransferQueue(TransferQueue const&) = delete;
  TransferQueue& operator=(TransferQueue const&) = delete;

  /// Transfers::start.
  void push(Transfer& transfer) {
    std::lock_guard const lock(mutex_);
    transfer.failure = {};
    transfer.next = 0;
    transfer.left = transfer.bytes;
    transfer.behind = transfer.then = nullptr;
    if (transfer.bytes == 0) return;
    Transfer* const before = transfer.after;
    if (before != nullptr && before->left > 0) {
      before->then = &transfer;
    } else {
      begin(transfer, before == nullptr || !before->failure.failed);
    }
  }
  /// Transfers::wait.
  void wait(Transfer& transfer) noexcept {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return transfer.left == 0; });
  }

  /// Gives out the next request, if there is one.
  bool take(TransferRequest& request) {
    std::lock_guard const lock(mutex_);
    return give(request);
  }
  /// Waits for the next request and gives it out. @return false once the queue has ended
  bool await(TransferRequest& request) {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [&] { return over_ || first_ != nullptr; });
    return give(request);
  }
  /// A request that was given out has ended.
  void finish(TransferRequest const& request) {
    std::lock_guard const lock(mutex_);
    Transfer& transfer = *request.transfer;
    if (request.failure.failed && !transfer.failure.failed) transfer.failure = request.failure;
    transfer.left -= request.count;
    if (transfer.left == 0) release(transfer);
  }

  /// Nothing more is given out. What was not given out fails: it has been cancelled.
  void end() noexcept {
    std::lock_guard const lock(mutex_);
    over_ = true;
    for (; first_ != nullptr; first_ = first_->behind) cancel(*first_);
    last_ = nullptr;
    work_.notify_all();
  }
  /// Whether it has ended.
  bool over() {
    std::lock_guard const lock(mutex_);
    return over_;
  }

 private:
  bool give(TransferRequest& request) {
    if (first_ == nullptr) return false;
    Transfer& transfer = *first_;
    request = {};
    request.transfer = &transfer;
    request.begin = transfer.next;
    request.count = std::min(block_, transfer.bytes - transfer.next);
    transfer.next += request.count;
    if (transfer.next == transfer.bytes) {
      first_ = transfer.behind;
      if (first_ == nullptr) last_ = nullptr;
    }
    return true;
  }

  void begin(Transfer& transfer, bool wanted) noexcept {
    if (over_ || !wanted) return cancel(transfer);
    (last_ == nullptr ? first_ : last_->behind) = &transfer;
    last_ = &transfer;
    work_.notify_all();
  }
  void cancel(Transfer& transfer) noexcept {
    Index const rest = transfer.bytes - transfer.next;
    if (!transfer.failure.failed)
      transfer.failure = {true, ECANCELED, transfer.offset + transfer.next, rest, 0};
    transfer.left -= rest;
    if (transfer.left == 0) release(transfer);
  }
  /// It is done: whoever waits for it may go on, and what waits to begin.
  void release(Transfer& transfer) noexcept {
    done_.notify_all();
    if (transfer.then == nullptr) return;
    begin(*std::exchange(transfer.then, nullptr), !transfer.failure.failed);
  }

  Index block_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  Transfer* first_ = nullptr;
  Transfer* last_ = nullptr;
  bool over_ = false;
};

}  // namespace zero
