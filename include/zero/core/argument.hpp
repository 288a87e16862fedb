// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a number that cannot be used is refused: its name, what was found, what was expected.

#include <zero/core/error.hpp>
#include <zero/core/size.hpp>

#include <charconv>
#include <string>
#include <string_view>

namespace zero {

namespace detail {

inline std::string argument_text(Index found) { return std::to_string(found); }
/// The shortest digits that read back as the same number.
inline std::string argument_text(double found) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, found).ptr};
}

}  // namespace detail

/// Does nothing where `good`; else refuses.
/// @param name "LossScale::window"
/// @param expected "1 step or more"
/// @throws InvalidArgument "LossScale::window: found 0; expected 1 step or more"
/// @param good whether it can be used
/// @param found the number
template <class Number>
void require_argument(bool good, std::string_view name, Number found, std::string_view expected) {
  if (good) return;
  throw InvalidArgument(std::string(name) + ": found " + detail::argument_text(found) +
                        "; expected " + std::string(expected));
}

/// Most updates, or steps, that a count may name: up to here a double holds each.
inline constexpr Index max_count = Index{1} << 53;

}  // namespace zero
