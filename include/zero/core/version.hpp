// SPDX-License-Identifier: Apache-2.0
#pragma once
// The version of the library, that of the project in CMakeLists.txt. Ranks of different versions do
// not train together.

#include <string_view>

/// Training of a user's own model with sharded states. What stands in zero::detail is nobody's to
/// use.
namespace zero {

/// Major, minor, patch; the second number may break callers until 1.0.
inline constexpr std::string_view version = "0.1.0";

}  // namespace zero
