// SPDX-License-Identifier: Apache-2.0
#pragma once
// The version of the library, that of the project in CMakeLists.txt. Ranks of different versions do
// not train together.

#include <string_view>

namespace zero {

inline constexpr std::string_view version = "0.1.0";

}  // namespace zero
