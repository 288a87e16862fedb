// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transfers by io_uring: the kernel keeps as many requests under way as it is asked to, and one
// thread of this process hands them over and takes them back. Needs liburing, the target
// zero::uring. A kernel may refuse io_uring while the program runs, as containers' often do.

#include <zero/core/argument.hpp>
#include <zero/core/error.hpp>
#include <zero/policy/offload.hpp>
#include <zero/tier/thread_transfers.hpp>

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace zero {

/// Transfers by io_uring. What is under way when this ends is waited for: a disk that has a request
/// moves memory until it is done with it.
class UringTransfers final : public Transfers {
 public:
  /// @param requests under way at once, 1 to 4096
  /// @param block_bytes of a request, a multiple of 4096
  /// @throws InvalidArgument; Error naming the system's reason, where the kernel refuses io_uring,
  ///   or a thread
  UringTransfers(int requests, Index block_bytes)
      : queue_(checked_block_bytes("UringTransfers", block_bytes)),
        places_(checked(requests)),
        free_(numbers(requests)),
        ring_(static_cast<unsigned>(requests) + 1) {
    try {
      thread_ = std::thread([this] { serve(); });
    } catch (std::system_error const& e) {
      throw Error(std::string("UringTransfers: the system gave no thread: ") + e.what());
    }
  }
  UringTransfers(UringTransfers const&) = delete;
  UringTransfers& operator=(UringTransfers const&) = delete;
  ~UringTransfers() override {
    queue_.end();
    ring_.wake();
    thread_.join();
  }

  /// Why this kernel gives this process no io_uring; empty where it does.
  static std::string refusal() {
    try {
      Ring const ring(1);
      return {};
    } catch (Error const& e) {
      return e.what();
    }
  }

  /// As Transfers says.
  void start(Transfer& transfer) override {
    queue_.push(transfer);
    ring_.wake();
  }
  /// As Transfers says.
  void wait(Transfer& transfer) noexcept override { queue_.wait(transfer); }
  /// "io_uring"
  char const* name() const noexcept override { return "io_uring"; }

 private:
  using Next = TransferRequest::Next;
  /// One of the requests that may be under way.
  struct Place {
    TransferRequest request{};
    bool pauses = false;  // its clock is under way, not its call
  };
  /// A ring, and what wakes the thread that waits for it.
  struct Ring {
    explicit Ring(unsigned entries) {
      int const error = -io_uring_queue_init(entries, &ring, 0);
      if (error != 0)
        throw Error(std::string("UringTransfers: the kernel refuses io_uring: ") +
                    detail::system_text(error) + " (errno " + std::to_string(error) +
                    "); containers and the sysctl kernel.io_uring_disabled do so. Leave "
                    "OffloadOptions::transfers empty for threads");
      event = eventfd(0, EFD_CLOEXEC);
      int const reason = event < 0 ? errno : supports_files() ? 0 : ENOSYS;
      if (reason == 0) return;
      close();
      throw Error(std::string("UringTransfers: wants an eventfd, and reads and writes in io_uring "
                              "(Linux 5.6): ") +
                  detail::system_text(reason));
    }
    Ring(Ring const&) = delete;
    Ring& operator=(Ring const&) = delete;
    ~Ring() { close(); }

    void wake() noexcept {
      std::uint64_t const one = 1;
      while (::write(event, &one, sizeof one) < 0 && errno == EINTR) {
      }
    }

    io_uring ring{};
    int event = -1;
    std::uint64_t woken = 0;

   private:
    bool supports_files() {
      io_uring_probe* const probe = io_uring_get_probe_ring(&ring);
      bool const there = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                         io_uring_opcode_supported(probe, IORING_OP_WRITE);
      if (probe != nullptr) io_uring_free_probe(probe);
      return there;
    }
    void close() noexcept {
      if (event >= 0) ::close(event);
      io_uring_queue_exit(&ring);
    }
  };

  std::uint64_t wake_number() const { return places_.size(); }

  static std::size_t checked(int requests) {
    require_argument(requests >= 1 && requests <= 4096, "UringTransfers: requests", Index{requests},
                     "1 to 4096");
    return at(requests);
  }
  static std::vector<std::uint64_t> numbers(int count) {
    std::vector<std::uint64_t> all(at(count));
    std::iota(all.rbegin(), all.rend(), std::uint64_t{0});
    return all;
  }

  void serve() {
    ask_to_be_woken();
    while (asked_ > 0) {
      while (!free_.empty() && queue_.take(places_[free_.back()].request)) {
        ask(free_.back());
        free_.pop_back();
      }
      int const error = -io_uring_submit_and_wait(&ring_.ring, 1);
      bool const pauses = error == EAGAIN || error == EBUSY;  // no room just now; it keeps the rest
      bool const fails =
          pauses ? idle_ + 1 >= TransferRequest::most_pauses : error > 0 && error != EINTR;
      if (fails) return give_up(error);
      if (pauses) std::this_thread::sleep_for(std::chrono::milliseconds(TransferRequest::pause_ms));
      idle_ = collect() || !pauses ? 0 : idle_ + 1;
    }
  }
  /// Nothing more is handed over to the kernel. What it has not taken fails; what it has, and may
  /// move memory for, is waited for.
  void give_up(int error) {
    gave_up_ = error;
    queue_.end();
    io_uring_sq const& sq = ring_.ring.sq;
    unsigned const taken = std::atomic_ref<unsigned>(*sq.khead).load(std::memory_order_acquire);
    for (unsigned e = taken; e != sq.sqe_tail; ++e) {
      --asked_;
      std::uint64_t const i = sq.sqes[e & *sq.kring_mask].user_data;
      if (i == wake_number()) continue;
      places_[i].request.fail(error, 0);
      queue_.finish(places_[i].request);
    }
    ring_.wake();
    while (asked_ > 0) {
      if (!collect())
        std::this_thread::sleep_for(std::chrono::milliseconds(TransferRequest::pause_ms));
    }
  }

  // At most one entry a place and one more are asked for at a time, for which the ring has room.
  io_uring_sqe* entry() {
    ++asked_;
    return io_uring_get_sqe(&ring_.ring);
  }
  void ask_to_be_woken() {
    io_uring_sqe* const e = entry();
    io_uring_prep_read(e, ring_.event, &ring_.woken, sizeof ring_.woken, 0);
    e->user_data = wake_number();
  }
  void ask(std::uint64_t i) {
    TransferRequest const& r = places_[i].request;
    io_uring_sqe* const e = entry();
    auto const count = static_cast<unsigned>(std::min(r.left(), most_bytes));
    auto const offset = static_cast<std::uint64_t>(r.offset());
    if (r.transfer->writes)
      io_uring_prep_write(e, r.transfer->file, r.memory(), count, offset);
    else
      io_uring_prep_read(e, r.transfer->file, r.memory(), count, offset);
    e->user_data = i;
  }
  void ask_for_pause(std::uint64_t i) {
    static __kernel_timespec time{0, TransferRequest::pause_ms * 1000000ll};
    io_uring_sqe* const e = entry();
    io_uring_prep_timeout(e, &time, 0, 0);
    e->user_data = i;
    places_[i].pauses = true;
  }

  /// @return whether anything has come back
  bool collect() {
    std::array<io_uring_cqe*, 64> done{};
    for (bool any = false;; any = true) {
      unsigned const n = io_uring_peek_batch_cqe(&ring_.ring, done.data(), done.size());
      if (n == 0) return any;
      for (unsigned i = 0; i < n; ++i) take(done[i]->user_data, done[i]->res);
      io_uring_cq_advance(&ring_.ring, n);
    }
  }
  void take(std::uint64_t i, Index result) {
    --asked_;
    if (i == wake_number()) {
      if (!queue_.over()) ask_to_be_woken();
      return;
    }
    Place& place = places_[i];
    Next next = std::exchange(place.pauses, false) ? Next::ask : place.request.take(result);
    if (next != Next::end && gave_up_ != 0) next = place.request.fail(gave_up_, 0);
    if (next == Next::ask) return ask(i);
    if (next == Next::pause) return ask_for_pause(i);
    queue_.finish(place.request);
    free_.push_back(i);
  }

  static constexpr Index most_bytes = Index{1} << 30;  // an entry counts in 32 bits

  TransferQueue queue_;
  std::vector<Place> places_;
  std::vector<std::uint64_t> free_;  // numbers of places
  Index asked_ = 0;                  // entries that have not come back
  int idle_ = 0;                     // pauses in a row in which nothing came back
  int gave_up_ = 0;                  // errno for which nothing more is handed over
  Ring ring_;
  std::thread thread_;
};

/// io_uring where the kernel gives it to this process, else threads: what an OffloadOptions with
/// `transfers` set to it is made by. Which of the two it is, name() says.
/// @param options whose io_threads and io_block_bytes hold for either
/// @throws InvalidArgument; Error when the system has no thread for it
inline std::shared_ptr<Transfers> uring_or_threads(OffloadOptions const& options) {
  try {
    // Whether the kernel gives a ring depends on its size: where memory that may be locked is
    // short, a small one says nothing of a large one.
    return std::make_shared<UringTransfers>(options.io_threads, options.io_block_bytes);
  } catch (Error const&) {
    return std::make_shared<ThreadTransfers>(options.io_threads, options.io_block_bytes);
  }
}

}  // namespace zero
