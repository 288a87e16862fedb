// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order of transfers that least can be relied on.

#include <zero/tier/transfers.hpp>

#include <unistd.h>

#include <mutex>
#include <set>

namespace tier_test {

/// Transfers that write as late as they may and read as soon: a write is made when it is waited
/// for, a read when it is started, or after what it comes after.
class LateWrites final : public zero::Transfers {
 public:
  void start(zero::Transfer& transfer) override {
    std::lock_guard const lock(mutex_);
    pending_.insert(&transfer);
    if (!transfer.writes && pending_.count(transfer.after) == 0) make(transfer);
  }
  void wait(zero::Transfer& transfer) noexcept override {
    std::lock_guard const lock(mutex_);
    make(transfer);
  }
  char const* name() const noexcept override { return "late writes"; }

 private:
  void make(zero::Transfer& transfer) {
    if (pending_.erase(&transfer) == 0) return;
    if (transfer.after != nullptr) make(*transfer.after);
    auto const count = zero::at(transfer.bytes);
    auto const offset = static_cast<off_t>(transfer.offset);
    ssize_t const n = transfer.writes ? ::pwrite(transfer.file, transfer.memory, count, offset)
                                      : ::pread(transfer.file, transfer.memory, count, offset);
    transfer.failure = {.failed = n != transfer.bytes};
  }

  std::mutex mutex_;
  std::set<zero::Transfer*> pending_;
};

}  // namespace tier_test
