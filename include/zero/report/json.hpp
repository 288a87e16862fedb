// SPDX-License-Identifier: Apache-2.0
#pragma once
// One flat JSON object (RFC 8259) on one line, keys in the order in which they were added. Strict
// parsers accept every line: numbers that JSON does not have become the strings "NaN", "Infinity"
// and "-Infinity" (as in the JSON mapping of protocol buffers), and bytes that are not UTF-8 become
// U+FFFD.

#include <zero/core/error.hpp>
#include <zero/report/number_text.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

namespace detail {

/// Number of bytes of the UTF-8 character at the start of `text`, or 0 when there is none: overlong
/// forms, surrogates and what lies above U+10FFFF are not characters (Unicode 15, table 3-7).
inline std::size_t utf8_length(std::string_view text) {
  auto const byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  auto const within = [&](std::size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  if (text.empty()) return 0;
  unsigned const lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return within(1, 0x80, 0xbf) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    bool const second = within(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    bool const second = within(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
    return second && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

/// A JSON string with its quotes.
inline std::string json_string(std::string_view text) {
  static constexpr std::string_view hexadecimal = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    std::size_t const length = utf8_length(text);
    char const c = text.front();
    if (length == 0) {
      out += "\\ufffd";
    } else if (length > 1) {
      out += text.substr(0, length);
    } else if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += hexadecimal[static_cast<unsigned char>(c) >> 4];
      out += hexadecimal[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out += '"';
}

}  // namespace detail

/// One line of JSON: JsonLine().add("stage", 3).add("loss", 2.5).text() is {"stage":3,"loss":2.5}
class JsonLine {
 public:
  /// All digits of a whole number. (Readers that keep numbers as doubles lose bits beyond 2^53: see
  /// hexadecimal_text for hashes.)
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>) JsonLine& add(std::string_view key,
                                                                           T value) {
    return put(key, std::to_string(value));
  }
  /// The shortest digits that read back as the same number of its own type.
  template <std::floating_point T>
  JsonLine& add(std::string_view key, T value) {
    if (std::isfinite(value)) return put(key, shortest_text(value));
    return put(key, std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
  }
  /// true or false.
  template <std::same_as<bool> T>
  JsonLine& add(std::string_view key, T value) {
    return put(key, value ? "true" : "false");
  }
  /// Text, escaped as JSON wants it.
  JsonLine& add(std::string_view key, std::string_view value) {
    return put(key, detail::json_string(value));
  }
  /// Text, escaped as JSON wants it.
  JsonLine& add(std::string_view key, char const* value) {
    return add(key, std::string_view(value));
  }
  /// Text, escaped as JSON wants it.
  JsonLine& add(std::string_view key, std::string const& value) {
    return add(key, std::string_view(value));
  }
  /// null.
  JsonLine& add(std::string_view key, std::nullptr_t) { return put(key, "null"); }
  /// null when there is no value.
  template <class T>
  JsonLine& add(std::string_view key, std::optional<T> const& value) {
    return value ? add(key, *value) : add(key, nullptr);
  }

  /// The object so far, without an end of line.
  std::string text() const { return "{" + members_ + "}"; }

 private:
  JsonLine& put(std::string_view key, std::string_view value) {
    if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) {
      throw InvalidArgument("JsonLine: the key '" + std::string(key) + "' is there already");
    }
    keys_.emplace_back(key);
    if (!members_.empty()) members_ += ',';
    members_ += detail::json_string(key);
    members_ += ':';
    members_ += value;
    return *this;
  }

  std::vector<std::string> keys_;
  std::string members_;
};

}  // namespace zero
