// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON as this room writes it: numbers exactly, whole ones without a point, members in their order.

#include <boost/json.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

namespace zero {

namespace detail {

/// The fewest digits that read back as the same number; a point or an exponent always.
inline std::string json_number(double value) {
  std::array<char, 32> buffer{};
  auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

inline void write_json(boost::json::value const& value, std::string_view indent, std::string& out) {
  std::string const inner = std::string(indent) + "  ";
  if (value.is_double()) {
    out += json_number(value.get_double());
  } else if (value.is_object() && !value.get_object().empty()) {
    out += "{";
    bool first = true;
    for (auto const& member : value.get_object()) {
      out += first ? "\n" : ",\n";
      first = false;
      out += inner + boost::json::serialize(boost::json::string(member.key())) + ": ";
      write_json(member.value(), inner, out);
    }
    out += "\n" + std::string(indent) + "}";
  } else if (value.is_array()) {
    out += "[";
    bool first = true;
    for (boost::json::value const& element : value.get_array()) {
      out += first ? "" : ", ";
      first = false;
      write_json(element, inner, out);
    }
    out += "]";
  } else {
    out += boost::json::serialize(value);
  }
}

/// On one line; no more is begun once there are `enough` bytes.
inline void write_line(boost::json::value const& value, std::size_t enough, std::string& out) {
  char const* comma = "";
  if (value.is_double()) {
    out += json_number(value.get_double());
  } else if (value.is_object()) {
    out += "{";
    for (auto const& member : value.get_object()) {
      if (out.size() > enough) return;
      out += comma + boost::json::serialize(boost::json::string(member.key())) + ": ";
      write_line(member.value(), enough, out);
      comma = ", ";
    }
    out += "}";
  } else if (value.is_array()) {
    out += "[";
    for (boost::json::value const& element : value.get_array()) {
      if (out.size() > enough) return;
      out += comma;
      write_line(element, enough, out);
      comma = ", ";
    }
    out += "]";
  } else {
    out += boost::json::serialize(value);
  }
}

}  // namespace detail

/// The value as text over several lines, without an end of line. Strict readers take it where every
/// number is finite.
inline std::string json_text(boost::json::value const& value) {
  std::string out;
  detail::write_json(value, "", out);
  return out;
}

/// The value as a message quotes it: on one line, cut where it is long.
inline std::string quoted_json(boost::json::value const& value) {
  constexpr std::size_t longest = 80;
  std::string text;
  detail::write_line(value, longest, text);
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u)
    --end;  // whole characters
  return text.substr(0, end) + "...";
}

}  // namespace zero
