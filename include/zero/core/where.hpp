// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a collective is for, so that a failure can be named.

#include <zero/core/size.hpp>

#include <string>
#include <string_view>

namespace zero {

/// Phase, unit and step of a collective. The views must outlive the work: they name phases
/// (literals) and units (owned by the layout).
struct Where {
  std::string_view phase{};  ///< gather, reduce, clip, publish, exchange, ...
  std::string_view unit{};   ///< name of the unit, or of what is exchanged
  Index step = 0;            ///< of the trainer, from 1; 0: before the first
  Index micro_batches = 0;   ///< of the step; 0 where it does not matter
};

/// "unit 'h.3' (gather, step 12)", or "... step 12 of 2 micro-batches)"
inline std::string describe(Where const& where) {
  return "unit '" + std::string(where.unit) + "' (" + std::string(where.phase) + ", step " +
         std::to_string(where.step) +
         (where.micro_batches > 1 ? " of " + std::to_string(where.micro_batches) + " micro-batches)"
                                  : ")");
}

}  // namespace zero
