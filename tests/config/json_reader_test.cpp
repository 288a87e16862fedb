// SPDX-License-Identifier: Apache-2.0
// Text to JSON: strict by default, relaxed by request, safe with whatever it is given.
#include <config/loading.hpp>
#include <doctest/doctest.h>

#include <random>

namespace {

using namespace config_test;
using zero::JsonForm;

std::optional<boost::json::object> read(std::string const& text, JsonForm form,
                                        zero::Findings& findings) {
  return zero::read_json(text, form, findings);
}
/// The one problem of a text, "path: found ...; expected ...".
std::string fault(std::string const& text, JsonForm form = JsonForm::strict) {
  zero::Findings findings;
  auto const object = read(text, form, findings);
  CHECK(!object);
  REQUIRE(findings.problems().size() >= 1);
  return findings.problems()[0].text();
}
boost::json::object good(std::string const& text, JsonForm form = JsonForm::strict) {
  zero::Findings findings;
  auto const object = read(text, form, findings);
  REQUIRE_MESSAGE(object, (findings.problems().empty() ? "" : findings.problems()[0].text()));
  return *object;
}

TEST_CASE("a fault is named with line and column, and with what would be right") {
  std::pair<char const*, char const*> const faults[] = {
      {"{\n  \"a\": True}", "line 2, column 8: found True; expected true"},
      {"{\"a\": None}", "line 1, column 7: found None; expected null"},
      {"{\"a\": NaN}", "line 1, column 7: found NaN; expected a finite number"},
      {"{\"a\": -Infinity}", "line 1, column 7: found -Infinity; expected a finite number"},
      {"{\"a\": 'b'}", "line 1, column 7: found '; expected text in double quotes"},
      {"{\"a\": 1,\n}", "line 2, column 1: found }; expected no comma before a closing bracket"},
      {"{\"a\": 1 // b\n}", "line 1, column 9: found /; expected JSON without comments"},
      {"{\"a\": 1 # b\n}", "line 1, column 9: found #; expected JSON without comments"},
      {"\xef\xbb\xbf{}", "line 1, column 1: found a byte-order mark; expected JSON without it"},
      {"{\"a\": 1\n \"b\": 2}",
       "line 2, column 2: found \"; expected a comma or a colon before it"},
      {"{\"a\": 1",
       "line 1, column 8: found the end of the text; expected the rest of a JSON object"},
      {"", "line 1, column 1: found the end of the text; expected the rest of a JSON object"},
      {"{} {}", "line 1, column 4: found {; expected nothing after the object"},
      {"{\"a\": 1e400}", "line 1, column 7: found 1e400; expected a number that fits a double"},
      {"[1]", "the configuration: found a list; expected a JSON object"},
      {"7", "the configuration: found a single value; expected a JSON object"}};
  for (auto const& [text, says] : faults) {
    CAPTURE(text);
    std::string const found = fault(text);
    CHECK_MESSAGE(found.starts_with(says), found);
  }
  for (char const* text :
       {"{\"a\": 01}", "{\"a\": .5}", "{\"a\": +1}", "{\"a\": 1.}", "{\"a\": 0x10}", "{a: 1}",
        "{\"a\": \"\x01\"}", "{\"a\": \"\xff\"}", "{\"a\": \"\\q\"}", "{\"a\": \"\\ud800\"}"}) {
    CAPTURE(text);
    CHECK(fault(text).starts_with("line 1, column "));
  }
}

TEST_CASE("a key that stands twice is refused with its path, at any depth") {
  std::pair<char const*, char const*> const faults[] = {
      {R"({"a": 1, "a": 1})", "a"},
      {R"({"a": {"b": {"c": 1, "c": 2}}})", "a.b.c"},
      {R"({"a": [{"b": 1}, {"b": 1, "b": 2}]})", "a[1].b"},
      {R"({"a": 1, "\u0061": 2})", "a"}};
  for (auto const& [text, path] : faults) {
    CAPTURE(text);
    CHECK(fault(text).starts_with(std::string(path) + ": found this key twice"));
    CHECK(fault(text, JsonForm::relaxed).starts_with(std::string(path) + ": found this key twice"));
  }
}

TEST_CASE(
    "the relaxed form takes comments, trailing commas and a mark, and nothing inside strings") {
  boost::json::object const object = good(
      "\xef\xbb\xbf{ // one, \"two\n # three } \n \"a\": [1, 2, /* , ] */ ],\n"
      "\"b\": \"// # /* , } \\\" \", /* \n */ }",
      JsonForm::relaxed);
  CHECK(object.at("a").as_array().size() == 2);
  CHECK(object.at("b").as_string() == "// # /* , } \" ");
  CHECK(fault("{\"a\": 1 /* }", JsonForm::relaxed).starts_with("line 1, column 9: found /"));
  CHECK(fault("{\"a\": True}", JsonForm::relaxed).starts_with("line 1, column 7: found True"));
  for (char const* text : {"{,}", "{\"a\": [,]}", "{\"a\": [1,,]}", "{\"a\":,}"})
    CHECK(fault(text, JsonForm::relaxed).starts_with("line 1"));
  CHECK(fault("{\n# c\n\"a\": True}", JsonForm::relaxed).starts_with("line 3, column 6"));
}

TEST_CASE("numbers are read to the nearest double, and whole ones stay whole") {
  boost::json::object const object =
      good(R"({"a": 5e8, "b": 5e-05, "c": 0.9, "d": 9007199254740993, "e": 1e-8})");
  CHECK(object.at("a").as_double() == 500'000'000);
  CHECK(object.at("b").as_double() == 5e-05);
  CHECK(object.at("c").as_double() == 0.9);
  CHECK(object.at("d").as_int64() == 9007199254740993);
  CHECK(object.at("e").as_double() == 1e-8);
}

TEST_CASE("deep nesting and long garbage are refused") {
  std::string const deep(1'000'000, '[');
  CHECK(fault("{\"a\": " + deep).find("at most 32") != std::string::npos);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK(fault(objects).find("at most 32") != std::string::npos);
  std::string const long_text(100'000'000, 'x');
  CHECK(fault(long_text).find("100000000 bytes") != std::string::npos);
  CHECK(fault(long_text.substr(0, zero::max_config_bytes)).starts_with("line 1, column 1"));
  CHECK(!fault("{\"a\": \"" + long_text.substr(0, 1'000'000)).empty());
  CHECK(!fault("/*" + std::string(1'000'000, '/'), JsonForm::relaxed).empty());
}

TEST_CASE("a million wrong keys, and one of a million letters, are refused in short") {
  std::string keys = R"({"train_micro_batch_size_per_gpu": 1)";
  int const wrong = ZERO_TESTS_SANITIZED ? 100'000 : 1'000'000;
  for (int i = 0; i < wrong; ++i) keys += ",\"k" + std::to_string(i) + "\":0";
  Outcome const many = load_text(keys + "}");
  CHECK(many.problems.size() == 1001);
  CHECK(many.says("more problems"));
  Outcome const one = load_text(with("\"" + std::string(1'000'000, 'k') + "\": 1"));
  REQUIRE(one.problems.size() == 1);
  CHECK(one.text.size() < 3000);
}

TEST_CASE("a name that resembles none and one that does, in whatever order") {
  zero::Findings findings;
  zero::read_arguments(boost::json::parse(R"({"learning_rat": 1, "zzzzzz": 1})").as_object(),
                       findings);
  REQUIRE(findings.problems().size() == 2);
  CHECK(findings.problems()[0].expected == "a known name; nearest is learning_rate");
  CHECK(findings.problems()[1].expected == "a name of TrainingArguments");
}

TEST_CASE("damaged texts end in an answer, never in anything else") {
  std::mt19937 random(7);
  std::string const whole = boost::json::serialize(
      load_case("s04_seed_stage3_offload.json", table_arguments(), 2).config->json);
  std::string const bytes = "{}[]\",:\\/*#0123456789eE+-.truefalsn \n\xef\xbb\xbf\xff\0";
  int accepted = 0;
  int const texts = ZERO_TESTS_SANITIZED ? 300 : 3000;  // libFuzzer goes further there
  for (int i = 0; i < texts; ++i) {
    std::string text = whole;
    int const changes = 1 + static_cast<int>(random() % 4);
    for (int k = 0; k < changes; ++k) {
      std::size_t const at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = bytes[random() % bytes.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    for (JsonForm form : {JsonForm::strict, JsonForm::relaxed}) {
      Outcome const outcome = load(zero::ConfigText{text}, table_arguments(), 2, form);
      CHECK(outcome.config.has_value() == outcome.problems.empty());
      for (zero::Problem const& p : outcome.problems) {
        CHECK(!p.path.empty());
        CHECK(p.text().find('\n') == std::string::npos);
      }
      accepted += outcome.config ? 1 : 0;
    }
  }
  CHECK(accepted < 2 * texts);  // the resolved form itself holds keys that are no key of a file
}

}  // namespace
