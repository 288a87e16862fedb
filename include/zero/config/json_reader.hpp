// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text to JSON, strictly (RFC 8259): what a lenient reader would let pass silently is refused with
// its line and column, a key that stands twice with its path. The relaxed form takes comments,
// trailing commas and a byte-order mark, as DeepSpeed's own reader does: they are blanked before
// the strict reading, so that lines and columns stay those of the text.

#include <zero/config/problem.hpp>

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace zero {

/// How a text is read.
enum class JsonForm {
  strict,  ///< RFC 8259
  relaxed  ///< and comments (//, /* */, #), commas before a closing bracket, a byte-order mark
};

/// Longest text that is read, in bytes. A configuration has some thousands.
inline constexpr std::size_t max_config_bytes = std::size_t{16} << 20;
/// Deepest nesting that is read.
inline constexpr std::size_t max_config_depth = 32;

namespace detail {

inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// The text with blanks for what only the relaxed form takes; as many bytes, the same lines.
inline std::string blank_relaxed(std::string_view text) {
  std::string out(text);
  std::size_t i = 0;
  if (text.starts_with(byte_order_mark)) {
    out.replace(0, 3, "   ");
    i = 3;
  }
  auto const blank = [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      if (out[k] != '\n' && out[k] != '\r') out[k] = ' ';
    }
  };
  std::size_t comma = std::string::npos;  // the last thing seen, where it is a comma after a value
  char last = '\0';                       // the last thing seen
  while (i < text.size()) {
    char const c = text[i];
    if (c == '"') {
      ++i;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2u : 1u;
      ++i;
      comma = std::string::npos;
      last = '"';
    } else if (c == '#' || text.substr(i, 2) == "//") {
      std::size_t const end = std::min(text.find('\n', i), text.size());
      blank(i, end);
      i = end;
    } else if (text.substr(i, 2) == "/*") {
      std::size_t const close = text.find("*/", i + 2);
      if (close == std::string_view::npos) break;  // left to be refused where it begins
      blank(i, close + 2);
      i = close + 2;
    } else {
      if ((c == '}' || c == ']') && comma != std::string::npos) out[comma] = ' ';
      if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
        bool const after_value = last != '\0' && last != '{' && last != '[' && last != ',';
        comma = c == ',' && after_value ? i : std::string::npos;
        last = c;
      }
      ++i;
    }
  }
  return out;
}

/// Builds the value, and notes keys that stand twice in one object.
struct JsonHandler {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);
  using Code = boost::json::error_code;
  using Text = boost::json::string_view;

  struct Frame {
    bool object;
    std::set<std::string, std::less<>> keys{};
    std::string key{};
    std::size_t index = 0;
  };

  boost::json::value_stack values{};
  std::vector<Frame> frames{};
  std::string part{};
  std::vector<std::string> duplicates{};

  std::string path() const {
    std::string text;
    for (Frame const& f : frames) {
      if (f.object) {
        text += (text.empty() ? "" : ".") + f.key;
      } else {
        text += "[" + std::to_string(f.index) + "]";
      }
    }
    return text;
  }
  bool next() {
    if (!frames.empty() && !frames.back().object) ++frames.back().index;
    return true;
  }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) {
    frames.push_back({true});
    return true;
  }
  bool on_object_end(std::size_t n, Code&) {
    frames.pop_back();
    values.push_object(n);
    return next();
  }
  bool on_array_begin(Code&) {
    frames.push_back({false});
    return true;
  }
  bool on_array_end(std::size_t n, Code&) {
    frames.pop_back();
    values.push_array(n);
    return next();
  }
  bool on_key_part(Text text, std::size_t, Code&) {
    part.append(text.data(), text.size());
    values.push_chars(text);
    return true;
  }
  bool on_key(Text text, std::size_t, Code&) {
    part.append(text.data(), text.size());
    values.push_key(text);
    frames.back().key = part;
    if (!frames.back().keys.insert(part).second) duplicates.push_back(path());
    part.clear();
    return true;
  }
  bool on_string_part(Text text, std::size_t, Code&) {
    values.push_chars(text);
    return true;
  }
  bool on_string(Text text, std::size_t, Code&) {
    values.push_string(text);
    return next();
  }
  bool on_number_part(Text text, Code&) {
    part.append(text.data(), text.size());
    return true;
  }
  bool on_int64(std::int64_t value, Text, Code&) {
    part.clear();
    values.push_int64(value);
    return next();
  }
  bool on_uint64(std::uint64_t value, Text, Code&) {
    part.clear();
    values.push_uint64(value);
    return next();
  }
  /// Boost's own conversion may be off by a unit in the last place; from_chars rounds correctly.
  bool on_double(double value, Text text, Code& code) {
    part.append(text.data(), text.size());
    double exact = value;
    auto const read = std::from_chars(part.data(), part.data() + part.size(), exact);
    bool const is_0 = part.find_first_of("123456789") >= part.find_first_of("eE");
    part.clear();
    if (read.ec == std::errc()) value = exact;
    if (!std::isfinite(value) || (value == 0 && !is_0)) {
      code = boost::json::error::exponent_overflow;
      return false;
    }
    values.push_double(value);
    return next();
  }
  bool on_bool(bool value, Code&) {
    values.push_bool(value);
    return next();
  }
  bool on_null(Code&) {
    values.push_null();
    return next();
  }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }
};

/// Where a reading stopped, and why, in words.
class JsonFault {
 public:
  JsonFault(std::string_view text, std::size_t at, boost::json::error_code code)
      : text_(text), at_(std::min(at, text.size())), code_(code) {
    auto const in_word = [&](std::size_t i) {
      return i < text_.size() &&
             (std::string_view("+-._").find(text_[i]) != std::string_view::npos ||
              (text_[i] >= '0' && text_[i] <= '9') ||
              ((text_[i] | 0x20) >= 'a' && (text_[i] | 0x20) <= 'z'));
    };
    bool const number_is_over = code == boost::json::error::exponent_overflow;
    while (at_ > 0 && (in_word(at_) || number_is_over) && in_word(at_ - 1)) --at_;
    std::size_t end = at_;
    while (in_word(end) && end - at_ < 40) ++end;
    word_ = text_.substr(at_, std::max<std::size_t>(end - at_, at_ < text_.size() ? 1 : 0));
  }

  Problem problem() const {
    auto const before = text_.substr(0, at_);
    std::size_t const line =
        static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
    std::size_t const newline = before.rfind('\n');
    std::size_t const column = newline == std::string_view::npos ? at_ + 1 : at_ - newline;
    return {"line " + std::to_string(line) + ", column " + std::to_string(column), found(),
            expected()};
  }

 private:
  std::string found() const {
    if (word_.empty()) return "the end of the text";
    auto const c = static_cast<unsigned char>(word_.front());
    if (text_.substr(at_).starts_with(byte_order_mark)) return "a byte-order mark";
    if (c >= 0x20 && c < 0x7f) return std::string(word_);
    static constexpr std::string_view digits = "0123456789abcdef";
    return std::string("the byte 0x") + digits[c >> 4] + digits[c & 15];
  }
  std::string expected() const {
    static constexpr std::string_view relaxed = " (the relaxed form takes it)";
    std::size_t const last = text_.substr(0, at_).find_last_not_of(" \t\r\n");
    char const before = last == std::string_view::npos ? '\0' : text_[last];
    if (code_ == boost::json::error::too_deep)
      return "at most " + std::to_string(max_config_depth) +
             " objects and lists inside one another";
    if (word_.empty()) return "the rest of a JSON object";
    char const c = word_.front();
    if (at_ == 0 && text_.starts_with(byte_order_mark))
      return "JSON without it" + std::string(relaxed);
    if (c == '#' || c == '/') return "JSON without comments" + std::string(relaxed);
    if ((c == '}' || c == ']') && before == ',')
      return "no comma before a closing bracket" + std::string(relaxed);
    if (word_ == "True" || word_ == "False") return word_ == "True" ? "true" : "false";
    if (word_ == "None") return "null";
    if (word_ == "NaN" || word_ == "Infinity" || word_ == "-Infinity" || word_ == "nan" ||
        word_ == "inf")
      return "a finite number";
    if (c == '\'') return "text in double quotes";
    if (code_ == boost::json::error::exponent_overflow) return "a number that fits a double";
    bool const after_value = before == '"' || before == '}' || before == ']' || before == 'e' ||
                             before == 'l' || (before >= '0' && before <= '9');
    if (c == '"' && after_value) return "a comma or a colon before it";
    if (code_ == boost::json::error::extra_data) return "nothing after the object";
    return "JSON (" + code_.message() + ")";
  }

  std::string_view text_;
  std::size_t at_;
  boost::json::error_code code_;
  std::string_view word_;
};

}  // namespace detail

/// Reads one JSON object. What is wrong is added to `findings`: the first fault of a text that is
/// no JSON, or every key that stands twice.
/// @param text whole
/// @param form of it
/// @param findings gets problems
/// @param what the text is, in the paths of problems, where it is not the configuration
/// @return nothing where the text is no JSON object, or a key stands twice: neither its first nor
/// its last value may win
inline std::optional<boost::json::object> read_json(std::string_view text, JsonForm form,
                                                    Findings& findings,
                                                    std::string const& what = {}) {
  std::string const whole = what.empty() ? "the configuration" : what;
  if (text.size() > max_config_bytes) {
    findings.refuse(whole, std::to_string(text.size()) + " bytes",
                    "at most " + std::to_string(max_config_bytes));
    return std::nullopt;
  }
  std::string const blanked =
      form == JsonForm::relaxed ? detail::blank_relaxed(text) : std::string();
  std::string_view const read = form == JsonForm::relaxed ? std::string_view(blanked) : text;
  boost::json::parse_options options;
  options.max_depth = max_config_depth;
  boost::json::basic_parser<detail::JsonHandler> parser(options);
  boost::json::error_code code;
  parser.handler().values.reset();
  std::size_t const end = parser.write_some(false, read.data(), read.size(), code);
  if (!code && end < read.size()) code = boost::json::error::extra_data;
  if (code) {
    Problem const p = detail::JsonFault(read, end, code).problem();
    findings.refuse(what.empty() ? p.path : what + ", " + p.path, p.found, p.expected);
    return std::nullopt;
  }
  for (std::string const& path : parser.handler().duplicates)
    findings.refuse(what.empty() ? path : std::string(what).append(".").append(path),
                    "this key twice in one object", "it once: neither value may win silently");
  if (!parser.handler().duplicates.empty()) return std::nullopt;
  boost::json::value value = parser.handler().values.release();
  if (!value.is_object()) {
    findings.refuse(whole, value.is_array() ? "a list" : "a single value", "a JSON object");
    return std::nullopt;
  }
  return std::move(value.get_object());
}

}  // namespace zero
