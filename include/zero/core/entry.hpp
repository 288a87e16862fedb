// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank says when it enters a collective, so that ranks that meet in different ones are told
// apart and can be named.

#include <zero/core/hash.hpp>
#include <zero/core/where.hpp>

#include <string>
#include <string_view>

namespace zero {

/// One rank's entry into a collective.
struct Entry {
  std::string_view operation{};  ///< all_gather, reduce_scatter, all_reduce
  Index slice_elements = 0;      ///< a rank
  Index element_bytes = 0;       ///< of one element
  Where where{};                 ///< what it is for
};

/// Whether two ranks are in the same collective.
inline bool same_collective(Entry const& a, Entry const& b) {
  return a.operation == b.operation && a.slice_elements == b.slice_elements &&
         a.element_bytes == b.element_bytes && a.where.unit == b.where.unit &&
         a.where.phase == b.where.phase && a.where.step == b.where.step &&
         a.where.micro_batches == b.where.micro_batches;
}

/// Equal where same_collective is true, on every machine.
inline std::uint64_t hash(Entry const& entry) {
  return Hash()
      .add(entry.operation)
      .add(entry.where.phase)
      .add(entry.where.unit)
      .add(entry.where.step)
      .add(entry.where.micro_batches)
      .add(entry.slice_elements)
      .add(entry.element_bytes)
      .value();
}

/// "all_gather of 64 x 4 bytes a rank, unit 'h.3' (gather, step 12)"
inline std::string describe(Entry const& entry) {
  return std::string(entry.operation) + " of " + std::to_string(entry.slice_elements) + " x " +
         std::to_string(entry.element_bytes) + " bytes a rank, " + describe(entry.where);
}

}  // namespace zero
