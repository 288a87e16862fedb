// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers as text: exact for machines, short for people. Nothing here looks at the locale, so a
// decimal comma set by the host program never reaches a file.

#include <zero/core/size.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace zero {

/// The fewest digits that read back as the same bits; always with a point or an exponent, so that a
/// column of numbers is one of floating point even where all of them are whole. "nan", "inf" or
/// "-inf" otherwise.
template <std::floating_point T>
std::string shortest_text(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer{};
  auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

/// With so many digits after the point: fixed_text(2.5, 3) is "2.500".
inline std::string fixed_text(double value, int digits) {
  if (!std::isfinite(value)) return shortest_text(value);
  std::array<char, 400> buffer{};  // the largest double has 309 digits before the point
  digits = std::clamp(digits, 0, 60);
  auto const format = std::chars_format::fixed;
  auto const end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, digits).ptr;
  return {buffer.data(), end};
}

/// With so many significant digits and a power of ten: scientific_text(0.00125, 3) is "1.25e-03".
inline std::string scientific_text(double value, int digits) {
  if (!std::isfinite(value)) return shortest_text(value);
  std::array<char, 80> buffer{};
  digits = std::clamp(digits, 1, 60) - 1;
  auto const format = std::chars_format::scientific;
  auto const end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, digits).ptr;
  return {buffer.data(), end};
}

/// Sixteen hexadecimal digits after 0x. For hashes: as a JSON number they would lose bits beyond
/// 2^53.
inline std::string hexadecimal_text(std::uint64_t value) {
  std::string text = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(value >> shift) & 15u];
  return text;
}

/// All digits in groups of three: "1,234,567".
inline std::string grouped_text(Index value) {
  std::string text = std::to_string(value);
  auto const first = static_cast<std::ptrdiff_t>(value < 0 ? 1 : 0);
  for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > first; i -= 3) {
    text.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return text;
}

namespace detail {

/// Three significant digits below `base`, then the unit: the value is divided by `base` until it is
/// small enough, where "small enough" is decided after rounding, so that 999.7 is "1.00k" and never
/// "1000".
template <std::size_t N>
std::string human_text(double value, double base, std::array<std::string_view, N> const& units) {
  if (!std::isfinite(value)) return shortest_text(value);
  if (value < 0) return "-" + human_text(-value, base, units);
  std::size_t unit = 0;
  for (; value >= base - 0.5 && unit + 1 < N; ++unit) value /= base;
  int const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fixed_text(value, digits) + std::string(units[unit]);
}

}  // namespace detail

/// "345", "12.3k", "4.56M": a count or a rate in three significant digits.
inline std::string human_count(double value) {
  static constexpr std::array<std::string_view, 6> units{"", "k", "M", "G", "T", "P"};
  if (std::abs(value) < 999.5 && value == std::floor(value)) return fixed_text(value, 0);
  return detail::human_text(value, 1000, units);
}

/// "512 B", "1.00 KiB", "41.3 MiB": bytes in powers of 1024.
inline std::string human_bytes(Index bytes) {
  static constexpr std::array<std::string_view, 7> units{" B",   " KiB", " MiB", " GiB",
                                                         " TiB", " PiB", " EiB"};
  if (bytes > -1024 && bytes < 1024) return std::to_string(bytes) + " B";
  return detail::human_text(static_cast<double>(bytes), 1024, units);
}

/// "0.4 s", "12 s", "1 min 20 s", "2 h 05 min", "3 d 04 h". Negative times are 0; "?" when there is
/// no number.
inline std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds > 1e15) return "?";
  seconds = std::max(seconds, 0.0);
  if (seconds < 9.95) return fixed_text(seconds, 1) + " s";
  auto const pair = [](Index large, char const* unit, Index small, char const* small_unit) {
    return std::to_string(large) + unit + (small < 10 ? " 0" : " ") + std::to_string(small) +
           small_unit;
  };
  auto const whole = static_cast<Index>(std::llround(seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return pair(whole / 60, " min", whole % 60, " s");
  Index const minutes = (whole + 30) / 60;
  if (minutes < Index{24} * 60) return pair(minutes / 60, " h", minutes % 60, " min");
  Index const hours = (whole + 1800) / 3600;
  return pair(hours / 24, " d", hours % 24, " h");
}

}  // namespace zero
