// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transfers between host memory and files that run while the host does something else. Nothing is
// allocated a transfer.

#include <zero/core/size.hpp>

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
  Transfer* after = nullptr;    ///< what is to be done before this begins; null: nothing
  Failure failure{};            ///< once it is done

  Index next = 0;              ///< for Transfers alone: bytes given out to requests
  Index left = 0;              ///< for Transfers alone: bytes whose requests have not ended
  Transfer* behind = nullptr;  ///< for Transfers alone: the next of the queue
  Transfer* then = nullptr;    ///< for Transfers alone: what is to begin after this
};

/// What makes transfers. start() returns at once; transfers may run in any order, and several at a
/// time; wait() returns when one is done, whatever has become of it, at once where it was never
/// started. What ends while transfers are under way ends those and cancels the others, as what is
/// to begin after one that fails is cancelled: then it has a failure, ECANCELED. Safe to use from
/// several threads.
class Transfers {
 public:
  virtual ~Transfers() = default;
  /// Begins, once `transfer.after` is done, whose only successor this is. `transfer` is done, and
  /// stays where it is until it is done again.
  virtual void start(Transfer& transfer) = 0;
  /// Returns once it is done.
  virtual void wait(Transfer& transfer) noexcept = 0;
  /// What makes them, in reports.
  virtual char const* name() const noexcept = 0;
};

}  // namespace zero
