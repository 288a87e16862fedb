// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one rank sent, counted: how the wire volume of a step is measured and proved.

#include <zero/core/where.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

/// The collectives, as they are counted.
enum class Collective {
  all_gather,      ///< every rank gets all slices
  reduce_scatter,  ///< every rank gets the sums of its slice
  all_reduce       ///< every rank gets all sums
};

/// One collective: what it was for and what it moved out of this rank at the least.
struct CollectiveRecord {
  Collective operation;    ///< which one
  std::string_view phase;  ///< gather, reduce, publish, clip, exchange, ...
  std::string unit;        ///< name of the unit, or of what is exchanged
  Index step;              ///< of the trainer, from 1
  Index elements;          ///< elements sent a rank, all_reduce at its lower bound
  Index element_bytes;     ///< of one element
  Index group;             ///< number of the group it was launched in
};

/// What one rank's Recording communicators write to, all channels together. Belongs to one rank;
/// not thread-safe.
class CollectiveLog {
 public:
  /// Totals of one phase.
  struct Totals {
    std::string_view phase;  ///< empty: all
    Index collectives = 0;   ///< how many
    Index elements = 0;      ///< sent by this rank
    Index bytes = 0;         ///< sent by this rank
  };

  /// Keep a record of each collective besides the totals.
  void keep_records(bool keep) { keep_ = keep; }
  /// What keep_records kept, in the order of issue.
  std::vector<CollectiveRecord> const& records() const { return records_; }
  /// Collectives that were launched together count once.
  Index groups() const { return groups_; }

  /// Totals over the named phase; over all phases when the name is empty.
  Totals totals(std::string_view phase = {}) const {
    Totals sum{phase};
    for (std::size_t i = 0; i < used_; ++i) {
      if (!phase.empty() && totals_[i].phase != phase) continue;
      sum.collectives += totals_[i].collectives;
      sum.elements += totals_[i].elements;
      sum.bytes += totals_[i].bytes;
    }
    return sum;
  }
  /// Elements of parameters and gradients sent by this rank: phases gather, reduce and publish.
  Index wire_elements() const {
    return totals("gather").elements + totals("reduce").elements + totals("publish").elements;
  }
  /// Forgets everything written so far.
  void clear() {
    records_.clear();
    used_ = 0;
    groups_ = 0;
  }

  /// Collectives written until the matching group_end() are one group.
  /// A group of none is not counted, and groups within a group belong to it.
  void group_start() {
    if (depth_++ == 0) begun_ = false;
  }
  /// Ends what the matching group_start() began.
  void group_end() { --depth_; }
  /// Enters one collective.
  /// @throws Error beyond 16 phases
  void write(Collective operation, Where const& where, Index elements, Index element_bytes) {
    if (depth_ == 0 || !begun_) ++groups_;
    begun_ = true;
    std::size_t i = 0;
    while (i < used_ && totals_[i].phase != where.phase) ++i;
    if (i == totals_.size()) throw Error("CollectiveLog: more than 16 phases");
    if (i == used_) totals_[used_++] = Totals{where.phase};
    ++totals_[i].collectives;
    totals_[i].elements += elements;
    totals_[i].bytes += elements * element_bytes;
    if (keep_) {
      records_.push_back({operation, where.phase, std::string(where.unit), where.step, elements,
                          element_bytes, groups_});
    }
  }

 private:
  std::array<Totals, 16> totals_{};
  std::size_t used_ = 0;
  std::vector<CollectiveRecord> records_;
  bool keep_ = false;
  int depth_ = 0;
  bool begun_ = false;  // the group under way has a collective
  Index groups_ = 0;
};

}  // namespace zero
