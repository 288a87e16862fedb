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
  std::string_view phase{};
  std::string_view unit{};
  Index step = 0;
};

/// "unit 'h.3' (gather, step 12)"
inline std::string describe(Where const& where) {
  return "unit '" + std::string(where.unit) + "' (" + std::string(where.phase) + ", step " +
         std::to_string(where.step) + ")";
}

}  // namespace zero
