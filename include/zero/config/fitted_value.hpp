// SPDX-License-Identifier: Apache-2.0
#pragma once
// One value against one row of the tables: whether it fits, and what would.

#include <zero/config/json_text.hpp>
#include <zero/config/key.hpp>
#include <zero/core/size.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace zero::detail {

inline std::string words_text(std::string_view words) {
  std::string text = "one of ";
  for (char c : words) text += c == ' ' ? std::string(", ") : std::string(1, c);
  return text;
}

/// The word of the list that is `word` but for capital letters; "" where there is none.
inline std::string_view same_word(std::string_view word, std::string_view list) {
  auto const lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  while (!list.empty()) {
    std::size_t const end = list.find(' ');
    std::string_view const candidate = list.substr(0, end);
    if (std::equal(candidate.begin(), candidate.end(), word.begin(), word.end(),
                   [&](char a, char b) { return lower(a) == lower(b); }))
      return candidate;
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return {};
}

/// Whole numbers without a point, as far as a double holds them all.
inline std::string plain_number(double value) {
  return value == std::floor(value) && std::abs(value) <= 0x1p53
             ? std::to_string(static_cast<Index>(value))
             : json_number(value);
}

/// The text of a JSON string, bytes of 0 included.
inline std::string_view text_of(boost::json::value const& v) {
  boost::json::string const& text = v.get_string();
  return {text.data(), text.size()};
}

/// What the row takes, in words.
inline std::string expected_text(Key const& k) {
  auto const range = [&] {
    bool const low = std::isfinite(k.low);
    bool const high = std::isfinite(k.high);
    std::string const of = k.unit.empty() ? "" : " of " + std::string(k.unit);
    if (low && high && !k.below_high && !k.above_low)
      return of + " from " + plain_number(k.low) + " to " + plain_number(k.high);
    std::string text = of;
    if (low) text += (k.above_low ? ", above " : ", at least ") + plain_number(k.low);
    if (high) text += (k.below_high ? ", below " : ", at most ") + plain_number(k.high);
    return text;
  };
  switch (k.type) {
    case KeyType::boolean:
      return "true or false";
    case KeyType::whole:
      return "a whole number" + range();
    case KeyType::number:
      return "a number" + range();
    case KeyType::text:
      return "text";
    case KeyType::choice:
      return words_text(k.choices);
    case KeyType::pair:
      return "a list of two numbers" + range();
    case KeyType::list:
      return "a list";
    case KeyType::section:
      return "an object";
    default:
      return "a value";
  }
}

/// The number that a JSON value is, true and false excluded.
inline std::optional<double> number_in(boost::json::value const& v) {
  if (v.is_int64()) return static_cast<double>(v.get_int64());
  if (v.is_uint64()) return static_cast<double>(v.get_uint64());
  if (v.is_double() && std::isfinite(v.get_double())) return v.get_double();
  return std::nullopt;
}

inline bool in_range(double value, Key const& k) {
  bool const low = k.above_low ? value > k.low : value >= k.low;
  return low && (k.below_high ? value < k.high : value <= k.high);
}

/// Whether a number is in range, and still is as the float that a run computes with: neither
/// infinite, nor 0 where it is not, nor a bound that is out.
inline bool in_range_as_float(double value, Key const& k) {
  if (!in_range(value, k) || std::abs(value) > double{std::numeric_limits<float>::max()})
    return false;
  float const rounded = static_cast<float>(value);
  return in_range(double{rounded}, k) && (rounded != 0 || value == 0);
}

/// Whether a value may be a text: it names something, hides nothing behind a byte of 0, and does
/// not leave it to a rule, since there is none for texts. (A folder of that name is "./auto".)
inline bool is_plain_text(boost::json::value const& v) {
  return v.is_string() && !v.get_string().empty() && text_of(v) != "auto" &&
         text_of(v).find('\0') == std::string_view::npos;
}

/// The value as the row stores it: whole numbers as int64, others as double; nothing where it does
/// not fit the row.
inline std::optional<boost::json::value> fitted(boost::json::value const& v, Key const& k) {
  std::optional<double> const number = number_in(v);
  switch (k.type) {
    case KeyType::boolean:
      return v.is_bool() ? std::optional(v) : std::nullopt;
    case KeyType::whole: {
      // 2^63 is the first double that is no Index.
      bool const fits = v.is_int64() || (number && std::abs(*number) < 0x1p63);
      if (!number || *number != std::floor(*number) || !fits) return std::nullopt;
      Index const n = v.is_int64() ? v.get_int64() : static_cast<Index>(*number);
      // As whole numbers too: beyond 2^53 a double may be the bound where n is not.
      bool const within = !std::isfinite(k.high) || n <= static_cast<Index>(k.high);
      return within && in_range(*number, k) ? std::optional<boost::json::value>(n) : std::nullopt;
    }
    case KeyType::number:
      return number && in_range_as_float(*number, k) ? std::optional<boost::json::value>(*number)
                                                     : std::nullopt;
    case KeyType::text:
      return is_plain_text(v) ? std::optional(v) : std::nullopt;
    case KeyType::choice:
      return is_plain_text(v) && same_word(text_of(v), k.choices) == text_of(v) ? std::optional(v)
                                                                                : std::nullopt;
    case KeyType::pair: {
      if (!v.is_array() || v.get_array().size() != 2) return std::nullopt;
      boost::json::array pair;
      for (boost::json::value const& e : v.get_array()) {
        std::optional<double> const x = number_in(e);
        if (!x || !in_range_as_float(*x, k)) return std::nullopt;
        pair.emplace_back(*x);
      }
      return pair;
    }
    case KeyType::list:
      return v.is_array() ? std::optional(v) : std::nullopt;
    case KeyType::section:
      return v.is_object() ? std::optional(v) : std::nullopt;
    default:
      return v;
  }
}

/// Whether a text is a number or a truth value that somebody has put in quotes.
inline bool is_quoted_value(std::string_view text) {
  double number = 0;
  char const* const end = text.data() + text.size();
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): `end` is its size
  auto const read = std::from_chars(text.data(), end, number);
  return !same_word(text, "true false").empty() || (read.ptr == end && !text.empty());
}

/// What would fit the row in place of a value that does not, and why it does not where that is not
/// seen from the range alone.
inline std::string expected_instead_of(boost::json::value const& v, Key const& k) {
  std::string text = expected_text(k);
  std::optional<double> const number = number_in(v);
  bool const whole = k.type == KeyType::whole;
  if (whole && number && *number == std::floor(*number) && *number >= 0x1p63 && *number > k.low)
    return text + ", below 2^63";
  auto const as_float_only = [&](boost::json::value const& x) {
    std::optional<double> const n = number_in(x);
    return n && in_range(*n, k) && !in_range_as_float(*n, k);
  };
  bool const numbers = k.type == KeyType::number || k.type == KeyType::pair;
  bool const rounded =
      v.is_array() ? std::ranges::any_of(v.get_array(), as_float_only) : as_float_only(v);
  if (numbers && rounded) return text + ", also when it is rounded to a float";
  if (v.is_string() && v.get_string() == "auto")
    return text + ": there is no rule for \"auto\" here";
  bool const wants_no_text = whole || numbers || k.type == KeyType::boolean;
  if (wants_no_text && v.is_string() && is_quoted_value(text_of(v))) text += ", not in quotes";
  return text;
}

/// Equal as numbers, whatever their JSON types, else equal.
inline bool same_value(boost::json::value const& a, boost::json::value const& b) {
  if (a.is_int64() && b.is_int64()) return a.get_int64() == b.get_int64();
  std::optional<double> const x = number_in(a);
  std::optional<double> const y = number_in(b);
  if (x && y) return *x == *y;
  if (a.is_array() && b.is_array() && a.get_array().size() == b.get_array().size()) {
    for (std::size_t i = 0; i < a.get_array().size(); ++i) {
      if (!same_value(a.get_array()[i], b.get_array()[i])) return false;
    }
    return true;
  }
  return a == b;
}

}  // namespace zero::detail
