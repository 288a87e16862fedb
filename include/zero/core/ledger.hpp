// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a device has given out: bytes now and at most, in all and by kind, and how often it was
// asked. A memory plan is held against it, and a limit on it is how a run is kept within a budget.

#include <zero/core/size.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zero {

/// Counters of one device's memory. Safe to use from several threads.
class Ledger {
 public:
  /// Bytes of one kind of buffer, such as "parameters" or "gather slots".
  struct Kind {
    std::string name;      ///< as given to take()
    Index bytes = 0;       ///< in use now
    Index peak_bytes = 0;  ///< most that were in use at once
  };

  /// Of a device's memory.
  Ledger() = default;
  /// @param memory its name in messages
  explicit Ledger(std::string memory) : memory_(std::move(memory)) {}

  /// Notes an allocation, before it is made.
  /// @throws OutOfMemory when it would exceed the limit: names the kind, both sizes and the limit.
  void take(std::string_view kind, Index bytes) {
    std::lock_guard const lock(mutex_);
    if (bytes < 0) {
      throw InvalidArgument(memory_ + ": " + std::to_string(bytes) + " bytes for " +
                            std::string(kind));
    }
    if (limit_bytes_ > 0 && bytes > limit_bytes_ - bytes_) {
      throw OutOfMemory(memory_ + ": " + std::to_string(bytes) + " bytes for " + std::string(kind) +
                        " exceed the limit of " + std::to_string(limit_bytes_) + " bytes; " +
                        std::to_string(bytes_) + " are in use");
    }
    Kind& k = find(kind);
    k.bytes += bytes;
    k.peak_bytes = std::max(k.peak_bytes, k.bytes);
    bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
    ++allocations_;
  }

  /// Notes that a buffer was given back.
  void give(std::string_view kind, Index bytes) noexcept {
    std::lock_guard const lock(mutex_);
    for (Kind& k : kinds_) {
      if (k.name == kind) k.bytes -= bytes;
    }
    bytes_ -= bytes;
  }

  Index bytes() const { return locked(bytes_); }              ///< in use now
  Index peak_bytes() const { return locked(peak_bytes_); }    ///< most that were in use at once
  Index allocations() const { return locked(allocations_); }  ///< calls of take() so far

  /// Most bytes that may be in use at once; 0: no limit.
  Index limit_bytes() const { return locked(limit_bytes_); }
  /// Changes the limit; what is in use already stays.
  void limit_bytes(Index bytes) {
    std::lock_guard const lock(mutex_);
    limit_bytes_ = bytes;
  }

  /// Every kind that was ever allocated, in order of first use.
  std::vector<Kind> kinds() const {
    std::lock_guard const lock(mutex_);
    return kinds_;
  }

 private:
  Index locked(Index const& value) const {
    std::lock_guard const lock(mutex_);
    return value;
  }
  Kind& find(std::string_view kind) {
    for (Kind& k : kinds_) {
      if (k.name == kind) return k;
    }
    return kinds_.emplace_back(Kind{std::string(kind), 0, 0});
  }

  std::string memory_ = "device memory";
  mutable std::mutex mutex_;
  std::vector<Kind> kinds_;
  Index bytes_ = 0;
  Index peak_bytes_ = 0;
  Index allocations_ = 0;
  Index limit_bytes_ = 0;
};

}  // namespace zero
