// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transfers by threads that read and write: what any system offers.

#include <zero/core/argument.hpp>
#include <zero/core/error.hpp>
#include <zero/tier/transfer_queue.hpp>

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace zero {

/// Transfers by threads of its own, which share each transfer request by request.
class ThreadTransfers final : public Transfers {
 public:
  /// @param threads requests under way at once, 1 to 4096
  /// @param block_bytes of a request, a multiple of 4096
  /// @throws InvalidArgument; Error when the system has no more threads
  ThreadTransfers(int threads, Index block_bytes)
      : queue_(checked_block_bytes("ThreadTransfers", block_bytes)) {
    require_argument(threads >= 1 && threads <= 4096, "ThreadTransfers: threads", Index{threads},
                     "1 to 4096");
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
  ~ThreadTransfers() override { end(); }

  /// As Transfers says.
  void start(Transfer& transfer) override { queue_.push(transfer); }
  /// As Transfers says.
  void wait(Transfer& transfer) noexcept override { queue_.wait(transfer); }
  /// "threads"
  char const* name() const noexcept override { return "threads"; }

 private:
  void end() noexcept {
    queue_.end();
    for (std::thread& thread : threads_) thread.join();
  }
  void serve() {
    TransferRequest request;
    while (queue_.await(request)) {
      for (auto next = TransferRequest::Next::ask; next != TransferRequest::Next::end;) {
        if (next == TransferRequest::Next::pause)
          std::this_thread::sleep_for(std::chrono::milliseconds(TransferRequest::pause_ms));
        next = request.take(call(request));
      }
      queue_.finish(request);
    }
  }
  static Index call(TransferRequest const& request) {
    int const file = request.transfer->file;
    auto const offset = static_cast<off_t>(request.offset());
    ssize_t const n = request.transfer->writes
                          ? ::pwrite(file, request.memory(), at(request.left()), offset)
                          : ::pread(file, request.memory(), at(request.left()), offset);
    return n < 0 ? -Index{errno} : Index{n};
  }

  TransferQueue queue_;
  std::vector<std::thread> threads_;
};

}  // namespace zero
