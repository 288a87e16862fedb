// SPDX-License-Identifier: Apache-2.0
#include <zero/report/json.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

using zero::JsonLine;

namespace {

/// The JSON text of one string.
std::string string_text(std::string_view value) {
  std::string const line = JsonLine().add("s", value).text();
  return line.substr(5, line.size() - 6);
}

template <class T>
concept CanAdd = requires(JsonLine line, T value) {
  line.add("key", value);
};

}  // namespace

TEST_CASE("keys stand in the order in which they were added") {
  CHECK(JsonLine().text() == "{}");
  JsonLine line;
  line.add("stage", 3).add("loss", 2.5).add("name", "gpt2").add("ok", true).add("a", nullptr);
  CHECK(line.text() == R"({"stage":3,"loss":2.5,"name":"gpt2","ok":true,"a":null})");
  CHECK(line.add("z", 1).text().ends_with(R"("a":null,"z":1})"));
}

TEST_CASE("a key that is there already is refused and leaves the line as it was") {
  JsonLine line;
  line.add("loss", 1);
  CHECK_THROWS_WITH_AS(line.add("loss", 2), "JsonLine: the key 'loss' is there already",
                       zero::InvalidArgument);
  CHECK(line.text() == R"({"loss":1})");
}

TEST_CASE("whole numbers keep all their digits") {
  JsonLine line;
  line.add("low", std::numeric_limits<std::int64_t>::min());
  line.add("high", std::numeric_limits<std::uint64_t>::max());
  line.add("small", std::int8_t{-7});
  CHECK(line.text() == R"({"low":-9223372036854775808,"high":18446744073709551615,"small":-7})");
}

TEST_CASE("numbers that JSON does not have are strings, absent ones are null") {
  JsonLine line;
  line.add("nan", std::numeric_limits<double>::quiet_NaN());
  line.add("up", std::numeric_limits<float>::infinity());
  line.add("down", -std::numeric_limits<double>::infinity());
  line.add("none", std::optional<double>());
  line.add("some", std::optional<double>(0.25));
  CHECK(line.text() ==
        R"({"nan":"NaN","up":"Infinity","down":"-Infinity","none":null,"some":0.25})");
}

TEST_CASE("strings are escaped where JSON asks for it, and only there") {
  using std::string_view_literals::operator""sv;
  CHECK(string_text("plain /text'") == R"("plain /text'")");
  CHECK(string_text("a\"b\\c") == R"("a\"b\\c")");
  CHECK(string_text("a\nb\tc\r") == R"("a\nb\tc\u000d")");
  CHECK(string_text("\0\x1f\x7f"sv) == "\"\\u0000\\u001f\x7f\"");
  CHECK(JsonLine().add("a\"b", 1).text() == R"({"a\"b":1})");
}

TEST_CASE("UTF-8 stays as it is") {
  for (std::string_view text :
       {"\u00e9\u07ff", "\u0800\u20ac\ud7ff\ue000\uffff", "\U00010000\U0010ffff"}) {
    CHECK(string_text(text) == "\"" + std::string(text) + "\"");
  }
}

TEST_CASE("bytes that are not UTF-8 are replaced one by one") {
  CHECK(string_text("a\x80z") == R"("a\ufffdz")");                            // no lead
  CHECK(string_text("\xc3") == R"("\ufffd")");                                // cut off
  CHECK(string_text("\xe2\x82\"") == R"("\ufffd\ufffd\"")");                  // cut off by a quote
  CHECK(string_text("\xc0\xaf") == R"("\ufffd\ufffd")");                      // overlong
  CHECK(string_text("\xe0\x9f\xbf") == R"("\ufffd\ufffd\ufffd")");            // overlong
  CHECK(string_text("\xed\xa0\x80") == R"("\ufffd\ufffd\ufffd")");            // a surrogate
  CHECK(string_text("\xf4\x90\x80\x80") == R"("\ufffd\ufffd\ufffd\ufffd")");  // above 10ffff
  CHECK(string_text("\xf0\x8f\xbf\xbf") == R"("\ufffd\ufffd\ufffd\ufffd")");  // overlong
  CHECK(string_text("\xff") == R"("\ufffd")");
}

TEST_CASE("a character is neither a number nor a text and is not taken") {
  static_assert(!CanAdd<char>);
  static_assert(CanAdd<int> && CanAdd<bool> && CanAdd<float> && CanAdd<std::string>);
}
