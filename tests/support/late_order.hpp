// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the events of a LateDevice order, so that a test can tell a wait that is needed from one
// that other waits imply.

#include <zero/core/size.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace zero_test {

/// One wait of a stream for an event of another stream; streams are numbered as they were made.
struct LateWait {
  int waiting = 0;
  int recorded = 0;
  /// All other waits, the host's included, order the streams already: leaving this one out changes
  /// nothing.
  bool implied = false;
};

namespace late {

/// For each stream, how many of its items are done before something happens. Streams beyond the
/// first sixteen are not followed.
class Known {
 public:
  void at_least(int stream, std::uint64_t items) {
    if (stream < size) items_[stream] = std::max(items_[stream], items);
  }
  void join(Known const& other) {
    for (int i = 0; i < size; ++i) at_least(i, other.items_[i]);
  }
  bool includes(int stream, std::uint64_t items) const {
    return stream < size && items_[stream] >= items;
  }

 private:
  static constexpr int size = 16;
  std::uint64_t items_[size] = {};
};

/// The waits of a device; used by the rank's host thread alone.
struct Waits {
  zero::Index count = 0;
  std::vector<LateWait> log;
  Known host;  // to the host, which has synchronized streams
};

/// What is known to one stream's next work.
class Order {
 public:
  /// A wait that is in the log, for an event behind `items` items of stream `recorded`.
  void waits(std::size_t in_log, int recorded, std::uint64_t items, Known known) {
    known.at_least(recorded, items);
    pending_.push_back({in_log, recorded, items, known});
  }

  /// Something follows the waits so far: says which of them the others imply.
  Known const& settle(Waits& all) {
    known_.join(all.host);
    for (Pending const& wait : pending_) {
      Known without = known_;
      for (Pending const& other : pending_) {
        if (&other != &wait) without.join(other.known);
      }
      all.log[wait.in_log].implied = without.includes(wait.recorded, wait.items);
    }
    for (Pending const& wait : pending_) known_.join(wait.known);
    pending_.clear();
    return known_;
  }

 private:
  struct Pending {
    std::size_t in_log;
    int recorded;
    std::uint64_t items;
    Known known;
  };

  Known known_;
  std::vector<Pending> pending_;
};

}  // namespace late

}  // namespace zero_test
