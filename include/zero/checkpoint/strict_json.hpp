// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON as this room reads and writes it: strictly, a key that stands twice refused, and numbers
// exactly.

#include <zero/checkpoint/files.hpp>

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace zero::detail {

inline constexpr std::size_t checkpoint_json_depth = 32;

/// Builds the value, and stops at a key that stands twice in one object.
struct CheckpointJsonHandler {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);
  using Code = boost::json::error_code;
  using Text = boost::json::string_view;

  boost::json::value_stack values{};
  std::vector<std::set<std::string, std::less<>>> keys{};
  std::string part{};
  std::string twice{};  ///< the first key that stands twice

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) {
    keys.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t n, Code&) {
    keys.pop_back();
    values.push_object(n);
    return true;
  }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t n, Code&) {
    values.push_array(n);
    return true;
  }
  bool on_key_part(Text text, std::size_t, Code&) {
    part.append(text.data(), text.size());
    values.push_chars(text);
    return true;
  }
  bool on_key(Text text, std::size_t, Code& code) {
    part.append(text.data(), text.size());
    values.push_key(text);
    if (!keys.back().insert(part).second) {
      twice = part;
      code = boost::json::error::syntax;
      return false;
    }
    part.clear();
    return true;
  }
  bool on_string_part(Text text, std::size_t, Code&) {
    values.push_chars(text);
    return true;
  }
  bool on_string(Text text, std::size_t, Code&) {
    values.push_string(text);
    return true;
  }
  bool on_number_part(Text text, Code&) {
    part.append(text.data(), text.size());
    return true;
  }
  bool on_int64(std::int64_t value, Text, Code&) {
    part.clear();
    values.push_int64(value);
    return true;
  }
  bool on_uint64(std::uint64_t value, Text, Code&) {
    part.clear();
    values.push_uint64(value);
    return true;
  }
  /// Boost's own conversion may be off by a unit in the last place; from_chars rounds correctly.
  bool on_double(double value, Text text, Code& code) {
    part.append(text.data(), text.size());
    double exact = value;
    auto const read = std::from_chars(part.data(), part.data() + part.size(), exact);
    part.clear();
    if (read.ec != std::errc() || !std::isfinite(exact)) {
      code = boost::json::error::exponent_overflow;
      return false;
    }
    values.push_double(exact);
    return true;
  }
  bool on_bool(bool value, Code&) {
    values.push_bool(value);
    return true;
  }
  bool on_null(Code&) {
    values.push_null();
    return true;
  }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }
};

/// One JSON object. @param where a file's name, for errors
inline boost::json::object read_json_object(std::string_view text, std::string const& where) {
  auto const refuse = [&](std::string const& why) {
    throw CheckpointError("checkpoint: " + where + ": " + why);
  };
  boost::json::parse_options options;
  options.max_depth = checkpoint_json_depth;
  boost::json::basic_parser<CheckpointJsonHandler> parser(options);
  boost::json::error_code code;
  parser.handler().values.reset();
  std::size_t const end = parser.write_some(false, text.data(), text.size(), code);
  if (!parser.handler().twice.empty())
    refuse("the key '" + parser.handler().twice + "' stands twice in one object");
  if (!code && end < text.size()) code = boost::json::error::extra_data;
  if (code) refuse("no JSON from byte " + std::to_string(end) + " on: " + code.message());
  boost::json::value value = parser.handler().values.release();
  if (!value.is_object()) refuse("the JSON is no object");
  return std::move(value.get_object());
}

/// Reads members of an object, and refuses in words what is not there or of another kind.
class JsonMembers {
 public:
  /// @param where names the object in errors: "manifest.json: optimizer"
  JsonMembers(boost::json::object const& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  std::string const& where() const { return where_; }
  [[noreturn]] void refuse(std::string const& why) const {
    throw CheckpointError("checkpoint: " + where_ + ": " + why);
  }
  bool has(std::string_view name) const { return object_.contains(name); }
  boost::json::value const& at(std::string_view name) const {
    auto const* const value = object_.if_contains(name);
    if (value == nullptr) refuse("'" + std::string(name) + "' is missing");
    return *value;
  }
  std::string text(std::string_view name) const {
    auto const* const text = at(name).if_string();
    if (text == nullptr) refuse("'" + std::string(name) + "' is no text");
    return {text->data(), text->size()};
  }
  /// A whole number in [low, high].
  Index count(std::string_view name, Index low = 0, Index high = Index{1} << 60) const {
    return count(at(name), name, low, high);
  }
  Index count(boost::json::value const& value, std::string_view name, Index low = 0,
              Index high = Index{1} << 60) const {
    auto const* const number = value.if_int64();
    if (number == nullptr || *number < low || *number > high)
      refuse("'" + std::string(name) + "' is no whole number from " + std::to_string(low) + " to " +
             std::to_string(high));
    return *number;
  }
  double number(std::string_view name) const {
    boost::json::value const& value = at(name);
    if (!value.is_number()) refuse("'" + std::string(name) + "' is no number");
    return value.to_number<double>();
  }
  bool truth(std::string_view name) const {
    auto const* const value = at(name).if_bool();
    if (value == nullptr) refuse("'" + std::string(name) + "' is neither true nor false");
    return *value;
  }
  boost::json::object const& object(std::string_view name) const {
    auto const* const value = at(name).if_object();
    if (value == nullptr) refuse("'" + std::string(name) + "' is no object");
    return *value;
  }
  boost::json::array const& array(std::string_view name) const {
    auto const* const value = at(name).if_array();
    if (value == nullptr) refuse("'" + std::string(name) + "' is no list");
    return *value;
  }
  JsonMembers members(std::string_view name) const {
    return {object(name), where_ + ": " + std::string(name)};
  }

 private:
  boost::json::object const& object_;
  std::string where_;
};

/// The value on few lines: objects of the first two depths have a line a member. Numbers read back
/// as the same. @throws CheckpointError for numbers that JSON does not have
inline void write_exact_json(boost::json::value const& value, std::size_t depth, std::string& out) {
  bool const lines = depth < 2;
  auto const separate = [&](bool first) {
    if (!first) out += ",";
    if (lines) out += "\n" + std::string(depth + 1, ' ');
  };
  if (value.is_double()) {
    if (!std::isfinite(value.get_double()))
      throw CheckpointError("checkpoint: JSON has no number that is not finite");
    char text[32];
    auto const end = std::to_chars(text, text + sizeof text, value.get_double()).ptr;
    std::string_view const digits(text, static_cast<std::size_t>(end - text));
    out += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
  } else if (auto const* const object = value.if_object()) {
    out += "{";
    bool first = true;
    for (auto const& member : *object) {
      separate(std::exchange(first, false));
      out += boost::json::serialize(boost::json::string(member.key())) + ":";
      write_exact_json(member.value(), depth + 1, out);
    }
    if (lines && !object->empty()) out += "\n" + std::string(depth, ' ');
    out += "}";
  } else if (auto const* const array = value.if_array()) {
    out += "[";
    bool first = true;
    for (boost::json::value const& element : *array) {
      separate(std::exchange(first, false));
      write_exact_json(element, depth + 1, out);
    }
    out += "]";
  } else {
    out += boost::json::serialize(value);
  }
}

inline std::string exact_json(boost::json::value const& value) {
  std::string out;
  write_exact_json(value, 0, out);
  return out;
}

}  // namespace zero::detail
